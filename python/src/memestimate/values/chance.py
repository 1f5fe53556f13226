"""What chance decides in a run: numbers that the program draws itself, and gradients that overflow.

Draws of PyTorch are drawn by the session. Those of Python's `random` and of NumPy it does not see, only that the
generators went on: where the recorded steps then are not alike, the figures are those of the draws that were made.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from ..core.session import Session

_LITTLE = 1000  # the part of the peak that is not told
_MIB = 1 << 20


class Chance:
    """Compares the steps of a recording, from the second on: the first makes what optimizers keep."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before = _generators()
        self._drew: set[str] = set()
        self._peaks: list[int] = []
        self._states = 0
        self.scaled = False  # a gradient scaler asked whether gradients overflowed

    def parts_of_one(self) -> None:
        """The steps until now were parts of the first, which the program ends itself."""
        storages = self._session.storages
        storages.highest_of_step = max(storages.highest_of_step, *self._peaks, 0)
        self._peaks.clear()
        self._drew.clear()

    def step_ended(self) -> None:
        """Take note of a step's peak, of the generators that went on in it, and of what optimizers keep."""
        now = _generators()
        if self._peaks:
            self._drew |= {name for name, state in now.items() if state != self._before.get(name, state)}
        self._before = now
        storages = self._session.storages
        self._peaks.append(storages.highest_of_step)
        storages.highest_of_step = storages.allocated
        self._states = max(self._states, storages.bytes_of("state"))

    def write(self) -> None:
        """Say what hangs on chance, and how much that is."""
        largest = max(self._peaks, default=0)
        later = self._peaks[1:]
        if self._drew and (max(later) - min(later)) * _LITTLE > largest:
            low, high = (f"{peak / _MIB:,.1f}" for peak in (min(later), max(later)))
            whose = " and ".join(sorted(self._drew))
            text = (
                f"the program draws numbers of {whose}, and its steps peak between {low} and {high} MiB of tensors: "
                "other draws may take less or more, which the bound does not know"
            )
            self._session.note("draws", text)
        if self.scaled and self._states * _LITTLE > largest:
            text = (
                f"{self._states / _MIB:,.1f} MiB of optimizers' states come with the first update that the gradient "
                "scaler does not skip: a real run skips some while its scale comes down, here no gradient overflowed"
            )
            self._session.note("scaler", text)


def parted(session: Session) -> None:
    """The steps until now were parts of the first."""
    session.part(Chance).parts_of_one()


def stepped(session: Session) -> None:
    """A step has ended."""
    session.part(Chance).step_ended()


def finish(session: Session) -> None:
    """Say what hangs on chance."""
    session.part(Chance).write()


def _generators() -> dict[str, Any]:
    """Where the generators are that programs draw of without PyTorch."""
    found: dict[str, Any] = {"Python's random": random.getstate()}
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        _, keys, position, *rest = numpy.get_state()
        found["NumPy's random"] = keys.tobytes(), position, rest
    return found

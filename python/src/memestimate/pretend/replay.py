"""What PyTorch's allocator would say of the run so far: the same replay that the answer comes from, asked early.

A program that tries batches until one does not fit, or that logs what is reserved, asks while it is recorded. So what
is written until then is handed to the program that answers in the end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..core.session import Session

Ask = Callable[[Sequence[str]], dict[str, Any]]  # raises RuntimeError or OSError where there is no answer
_SECONDS = 30.0  # that all replays of a recording may take, beside its steps


class Replay:
    """Answers of the allocator about a recording that is being written."""

    def __init__(self, session: Session, ask: Ask | None = None) -> None:
        self._session, self._ask = session, ask
        self._left = _SECONDS
        self._at = -1  # calls and live bytes for which `_last` is the answer
        self._last: dict[str, Any] | None = None

    def reserved(self, gpu: int = 0) -> int:
        """The most that was reserved so far; what tensors took where the program that knows is not installed."""
        at = self._session.calls
        if at != self._at:
            self._at, self._last = at, self.answer() or self._last
        highest = self._session.storages.levels[gpu].highest
        if self._last is None:
            return highest
        found = self._last["gpus"][gpu] if "gpus" in self._last else self._last["peak"]
        return max(int(found["reserved_bytes"]), highest)

    def snapshot(self, path: str) -> bool:
        """Write the snapshot that PyTorch would dump; whether it was written."""
        return self.answer("--snapshot", path) is not None

    def answer(self, *flags: str, pending: Sequence[int] = (), gpu: int = 0) -> dict[str, Any] | None:
        """What the program says of the run so far, and of the newest storages, of these sizes; None if it cannot."""
        if self._ask is None or self._left <= 0:
            return None
        began = time.monotonic()
        first = self._session.storages.numbered - len(pending)
        more = [("alloc", first + i, size, gpu)[: 4 if gpu else 3] for i, size in enumerate(pending)]
        with tempfile.TemporaryDirectory(prefix="memestimate-") as folder:
            path = Path(folder) / "so-far.mrec"
            self._session.writer.copy(path, *more)
            try:
                found = self._ask([str(path), *flags])
            except (RuntimeError, OSError):
                return None
            finally:
                self._left -= time.monotonic() - began
        return found if "peak" in found else None

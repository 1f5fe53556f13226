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

from ..core.gpus import CONTEXT
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
        return max(self._figure("reserved_bytes", gpu), self._session.storages.levels[gpu].highest)

    def allocated(self, gpu: int = 0) -> int:
        """The most that was allocated since the program last began to count anew, as far as that is known.

        What kernels take is known of the whole run's peak: where tensors take less than then, it is without.
        """
        level = self._session.storages.levels[gpu]
        return level.peak if level.peak < level.highest else max(self._figure("allocated_bytes", gpu), level.peak)

    def used(self, gpu: int = 0) -> int:
        """What the device has no more of: what is reserved now, and the context."""
        found = self._now() or {}
        held = self._session.storages.levels[gpu].allocated
        if self._session.gpus == 1:
            reserved = int(found.get("stats", {}).get("reserved_bytes.all.current", 0))
        else:
            reserved = self._figure("reserved_bytes", gpu)
        return max(reserved, held) + int(found.get("context_bytes", CONTEXT))

    def _figure(self, name: str, gpu: int) -> int:
        """A figure of the peak so far; 0 where it is not known."""
        found = self._now()
        return 0 if found is None else int((found["gpus"][gpu] if "gpus" in found else found["peak"])[name])

    def _now(self) -> dict[str, Any] | None:
        """What the program says of the run so far, or last said."""
        at = self._session.calls
        if at not in (0, self._at):
            self._at, self._last = at, self.answer("--stats") or self._last
        return self._last

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

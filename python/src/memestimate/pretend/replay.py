"""What PyTorch's allocator would say of the run so far: the same replay that the answer comes from, asked early.

A program that tries batches until one does not fit, or that logs what is reserved, asks while it is recorded. So what
is written until then is handed to the program that answers in the end.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.gpus import CONTEXT
from ..core.session import Session
from .convolutions import Convolutions, NoAnswerError

Ask = Callable[[Sequence[str]], dict[str, Any]]  # raises RuntimeError or OSError where there is no answer
_SECONDS = 30.0  # that all replays of a recording may take, or as long as all else of it took


class Replay:
    """Answers of the allocator about a recording that is being written."""

    def __init__(self, session: Session, ask: Ask | None = None) -> None:
        self._session, self._ask = session, ask
        self._began, self._took = time.monotonic(), 0.0
        self._at = -1  # calls for which `_last` is the answer
        self._last: dict[str, Any] | None = None
        self._kept = 0  # bytes that kernels held when last asked: cuBLAS's workspaces stay for good
        self._anew: tuple[set[Any], int] | None = None  # phases up to where peaks count anew, and `_kept` there

    def reserved(self, gpu: int = 0) -> int:
        """What is reserved now; the most that was where the process has several GPUs."""
        held = self._session.storages.levels[gpu].allocated
        return max(self._current("reserved_bytes"), held) if self._session.gpus == 1 else self.most_reserved(gpu)

    def most_reserved(self, gpu: int = 0) -> int:
        """The most that was reserved so far; what tensors took where the program that knows is not installed."""
        return max(self._figure("reserved_bytes", gpu), self._session.storages.levels[gpu].highest)

    def allocated(self, gpu: int = 0) -> int:
        """What is allocated now; where the process has several GPUs, what tensors take of it."""
        self._now()
        return self._session.storages.levels[gpu].allocated + self._kept

    def most_allocated(self, gpu: int = 0) -> int:
        """The most that was allocated since the program last began to count anew.

        Of a phase in which it did, what kernels took while they ran is not known to be of before or after.
        """
        level = self._session.storages.levels[gpu]
        if self._anew is None:
            return max(self._figure("allocated_bytes", gpu), level.peak)
        before, kept = self._anew
        phases = (self._now() or {}).get("phases", ()) if self._session.gpus == 1 else ()
        peaks = [int(phase["peak_bytes"]) for phase in phases if (phase["step"], phase["name"]) not in before]
        return max(level.peak + kept, *peaks, 0)

    def count_anew(self, gpu: int = 0) -> None:
        """Forget what the most was that was allocated."""
        phases = (self._now() or {}).get("phases", ())
        self._anew = {(phase["step"], phase["name"]) for phase in phases}, self._kept
        level = self._session.storages.levels[gpu]
        level.peak = level.allocated

    def emptied(self) -> None:
        """The cached blocks are given back."""
        self._session.writer.event("empty_cache")
        self._at = -1

    def used(self, gpu: int = 0) -> int:
        """What the device has no more of: what is reserved now, and the context."""
        found = self._now() or {}
        held = self._session.storages.levels[gpu].allocated
        reserved = self._current("reserved_bytes") if self._session.gpus == 1 else self._figure("reserved_bytes", gpu)
        return max(reserved, held) + int(found.get("context_bytes", CONTEXT))

    def _current(self, name: str) -> int:
        """A figure at the end of the run so far; 0 where it is not known, or not of each of several GPUs."""
        return int((self._now() or {}).get("stats", {}).get(f"{name}.all.current", 0))

    def _figure(self, name: str, gpu: int) -> int:
        """A figure of the peak so far; 0 where it is not known."""
        found = self._now()
        return 0 if found is None else int((found["gpus"][gpu] if "gpus" in found else found["peak"])[name])

    def _now(self) -> dict[str, Any] | None:
        """What the program says of the run so far, or last said."""
        at = self._session.calls
        if at not in (0, self._at):
            found = self.answer("--stats")
            self._at, self._last = at, found or self._last
            if found is not None and self._session.gpus == 1:
                self._kept = max(self._current("allocated_bytes") - self._session.storages.levels[0].allocated, 0)
        return self._last

    def snapshot(self, path: str) -> bool:
        """Write the snapshot that PyTorch would dump; whether it was written."""
        return self.answer("--snapshot", path) is not None

    def answer(self, *flags: str, pending: Sequence[int] = (), gpu: int = 0) -> dict[str, Any] | None:
        """What the program says of the run so far, and of the newest storages, of these sizes; None if it cannot."""
        began = time.monotonic()
        if self._ask is None or self._took > max(_SECONDS, began - self._began - self._took):
            return None
        first = self._session.storages.numbered - len(pending)
        more: list[tuple[Any, ...]] = [
            ("alloc", first + i, size, gpu)[: 4 if gpu else 3] for i, size in enumerate(pending)
        ]
        with suppress(NoAnswerError):  # a note says so in the end
            more += self._session.part(Convolutions).answers()
        with tempfile.TemporaryDirectory(prefix="memestimate-") as folder:
            path = Path(folder) / "so-far.mrec"
            self._session.writer.copy(path, *more)
            try:
                found = self._ask([str(path), *flags])
            except (RuntimeError, OSError):
                return None
            finally:
                self._took += time.monotonic() - began
        return found if "peak" in found else None

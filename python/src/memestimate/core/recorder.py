"""The recorder: starts and stops a recording, and says where its training steps end."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from torch.utils._python_dispatch import _get_current_dispatch_mode

from .recording import Enough, Recording
from .shape_cache import Shared

if TYPE_CHECKING:
    from typing_extensions import Self


FEW = 3  # training steps, which are recorded again with other answers
_PATIENCE = 10  # times the limit, for a program that has not come so far: it compiles, or loads


class Recorder(Recording):
    """Records what happens on the pretended GPU between `start` and `stop`.

    Attributes
    ----------
    steps : int
        How many training steps have ended.
    notes : list of (str, str)
        Assumptions that were made, as pairs of a short code and a sentence.
    """

    wanted = 0  # steps, after which `Enough` is raised; 0 for never
    seconds = math.inf  # after which it ends
    _explicit = False  # the program says itself where its steps end
    _stopping = False
    _under_way: Recorder | None = None  # of the process
    _cached: Callable[[], Shared | None] = staticmethod(lambda: None)  # what fake tensors have cached is of these

    def start(self) -> Self:
        """Put everything in place and begin to record.

        Raises
        ------
        RuntimeError
            The process records already.
        """
        if Recorder._under_way is not None:
            self.writer.discard()
            raise RuntimeError("a recording is under way: a process cannot begin another within it")
        Recorder._under_way = self
        if Recorder._cached() is not self.shared:  # fake tensors cache for the process, whatever cuDNN's settings were
            self.fake.cache_clear()
            Recorder._cached = weakref.ref(self.shared)
        try:
            for install in self.rules.install:
                install(self)
            self.capture.__enter__()  # type: ignore[no-untyped-call]
            try:
                if self.why:
                    self.note("way", f"recorded on fake tensors of the host: {self.why}")
                for begin in self.rules.begin:
                    begin(self)
                self.capture.number = None
            except BaseException:
                self.capture.__exit__(None, None, None)  # type: ignore[no-untyped-call]
                raise
        except BaseException:
            self._undo()
            self.writer.discard()
            raise
        return self

    def _undo(self) -> None:
        """Put back all of PyTorch that was changed."""
        try:
            self.patches.undo()
        finally:
            Recorder._under_way = None

    def stop(self, *, keep: bool = True) -> None:
        """Take everything away again and complete the file, or leave none.

        Parameters
        ----------
        keep : bool
            Whether to complete the file.
        """
        self._stopping = True
        keep = keep and self.writer.is_own()
        try:
            self.capture.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            if self.phases.has_stepped():
                self.step_ended()
        except BaseException:  # of a signal's handler
            self.writer.discard()
            raise
        finally:
            if _get_current_dispatch_mode() is self.capture:
                self.capture.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self.storages.closed = True
            self._undo()
        if keep:
            try:
                for finish in self.rules.finish:
                    finish(self)
            except BaseException:
                self.writer.discard()
                raise
            self.writer.close()
        else:
            self.writer.discard()
        self.quiet = True  # threads of the program may go on

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self.explain(error)
        finally:
            self.stop(keep=kind is None)

    def explain(self, error: BaseException) -> None:
        """Add to an exception of the program what the recording has to do with it."""
        for explain in self.rules.explain:
            explain(self, error)

    def step(self) -> None:
        """Say that a training step ended.

        Without this, a step ends where the next forward begins after all optimizers have stepped.
        """
        if not self._explicit:
            for parted in self.rules.parted:
                parted(self)
        self._explicit = True
        self._end_step()

    def step_ended(self) -> None:
        """Take note that all optimizers have stepped and another forward begins."""
        if not self._explicit:
            self._end_step()
            if self.steps == self.wanted and not self._stopping:
                self.note(
                    "ended",
                    f"the script was ended after {self.steps} training steps: an evaluation, a longer batch or a "
                    "checkpoint behind them is not in these figures; --steps 0 records all of it",
                )
                raise Enough

    def late(self) -> None:
        """End a recording that takes too long; a program that goes on until it ends has said what there was to say."""
        if self._stopping:
            return
        if not self.goes_on:
            super().late()
        if self.steps < FEW and time.monotonic() < self.end + (_PATIENCE - 1) * self.seconds:
            return
        self.note(
            "ended", f"the script was ended after {self.seconds:g} s, {self.reached()}; --seconds gives it longer"
        )
        raise Enough

    def reached(self) -> str:
        """What of a program was seen, and what was not."""
        steps = "1 training step" if self.steps == 1 else f"{self.steps} training steps"
        seen = "and passes without gradients" if self.phases.evaluated else "and no evaluation"
        return f"{steps} {seen}"

    def _end_step(self) -> None:
        self.phases.step_ended()
        for stepped in self.rules.stepped:
            stepped(self)
        self.steps += 1
        if self.goes_on and self.steps == FEW:
            self.compared = self.storages.highest
        if not self.alike.step_ended(self.state):
            self.writer.event("step")
        self.alike.begin(self.state)

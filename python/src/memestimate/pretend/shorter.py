"""Loops that are made shorter, so that what a program does behind them is recorded.

A loop of thousands of steps takes hours on pretended tensors, too. Where three of its turns are alike and leave nothing
behind them, it goes on with its last ones.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

from ..core.alike import RECORDED, Part
from ..core.session import Session
from .imports import when_imported

_CALLS = 50_000  # that all turns which are left may make: some twenty seconds
_LITTLE = 1000  # the part of the peak that may be left behind


class Shorter:
    """Decides which loops are made shorter."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: set[int] = set()  # loaders that were left early
        self._first: tuple[int, int] | None = None  # step of a trainer, and calls when it had ended

    def is_time(self, steps: float, calls: float, again: bool = False) -> bool:
        """Whether so many training steps, of so many calls, can be left out: those before them were alike."""
        alike, session = self._session.alike, self._session
        if not session.goes_on or steps * calls <= _CALLS:
            return False
        enough = 1 if again else RECORDED
        if alike.run >= enough:
            return alike.more <= 0 or alike.growth * steps * _LITTLE <= session.storages.highest
        return alike.run_of_calls >= enough and alike.more <= 0

    def ends(self, step: int, left: float, of: str) -> bool:
        """Whether a trainer that has made a step, and has others left, is to end its training now."""
        calls = self._session.calls
        if self._first is None or step <= self._first[0]:
            self._first = step, calls
            return False
        first, began = self._first
        if left <= 0 or not self.is_time(left, (calls - began) / (step - first)):
            return False
        self.note(left, of)
        return True

    def note(self, left: float, of: str) -> None:
        """Say that turns were left out."""
        if not any(code == "cut" for code, _ in self._session.notes):
            count = f"{left:,}" if math.isfinite(left) else "all further"
            self._session.note(
                "cut",
                f"{count} {of} were left out, as those before them were alike: what the script does in some of them "
                "alone, as every so many steps, may be missing; --steps 0 records all of it",
            )

    def pass_over(self, loader: Any) -> Pass:
        """One pass over a loader that begins."""
        return Pass(self._session, self, id(loader) in self._known, lambda: self._known.add(id(loader)))


class Pass:
    """One pass over a loader."""

    def __init__(self, session: Session, shorter: Shorter, again: bool, leave: Any) -> None:
        self._session, self._shorter, self._again, self._leave = session, shorter, again, leave
        self._given = self._of_last_step = 0
        self._steps, self._backwards = self._ended(), session.phases.backwards
        self._calls = self._began = session.calls
        self._point = session.alike.point() if session.goes_on else None
        self._turn: tuple[Part, int] | None = None
        self._alike = 0  # turns in a row
        self._left = False

    def _ended(self) -> int:
        return self._session.steps + self._session.phases.has_stepped()

    def keep(self, left: float) -> int | None:
        """How many of the batches that are left are to be given, the next one included; None for all of them."""
        session, phases = self._session, self._session.phases
        if self._point is None or self._left:
            return None
        found = None
        if phases.backwards > self._backwards:
            if phases.has_stepped() and not phases.backward_depth:
                found = self._training(left)
        elif not phases.backward_depth:
            found = self._without_gradients(left)
        self._given += 1
        self._calls = session.calls
        if found is None or found >= left:
            return None
        self._left = True
        self._leave()
        self._shorter.note(left - found, "batches of a loader")
        return found

    def _training(self, left: float) -> int | None:
        each, self._of_last_step = self._given - self._of_last_step, self._given
        steps = self._ended() - self._steps
        if steps < RECORDED - self._again or not self._shorter.is_time(
            left / each, (self._session.calls - self._began) / steps, self._again
        ):
            return None
        return int((left - 1) % each) + 1 if math.isfinite(left) else 0

    def _without_gradients(self, left: float) -> int | None:
        session = self._session
        assert self._point is not None
        turn = session.alike.since(self._point), session.storages.allocated
        self._alike = self._alike + 1 if turn == self._turn else 1
        self._turn, self._point = turn, session.alike.point()
        calls = session.calls - self._calls
        if self._alike < RECORDED - self._again or not calls or left * calls <= _CALLS:
            return None
        return 1 if math.isfinite(left) else 0


def install(session: Session) -> None:
    """Let trainers end their training early, each in its own way: with the evaluation and the checkpoint due."""
    if not session.goes_on:
        return
    for name, shorten in (
        ("transformers.trainer_callback", _end_transformers),
        ("lightning.pytorch.loops.training_epoch_loop", _end_lightning),
        ("pytorch_lightning.loops.training_epoch_loop", _end_lightning),
    ):
        when_imported(session.patches, name, functools.partial(shorten, session))


def _end_transformers(session: Session, module: ModuleType) -> None:
    flow, shorter = module.DefaultFlowCallback, session.part(Shorter)
    stepped = flow.on_step_end

    def on_step_end(self: Any, args: Any, state: Any, control: Any, **others: Any) -> Any:
        if shorter.ends(state.global_step, state.max_steps - state.global_step, "steps of Trainer"):
            state.max_steps = state.global_step
        return stepped(self, args, state, control, **others)

    session.patches.set(flow, "on_step_end", on_step_end)


def _end_lightning(session: Session, module: ModuleType) -> None:
    loop, shorter = module._TrainingEpochLoop, session.part(Shorter)
    advanced = loop.on_advance_end

    def on_advance_end(self: Any, data_fetcher: Any) -> None:
        stepped = not self._should_accumulate()
        if stepped and shorter.ends(self.global_step, _left_of_lightning(self), "steps of Lightning"):
            self.trainer.should_stop = True  # as its EarlyStopping says
        advanced(self, data_fetcher)

    session.patches.set(loop, "on_advance_end", on_advance_end)


def _left_of_lightning(loop: Any) -> float:
    """How many optimizer steps of a run of Lightning's Trainer are left."""
    trainer = loop.trainer
    epochs = math.inf if trainer.max_epochs in (None, -1) else trainer.max_epochs - trainer.current_epoch
    batches = epochs * trainer.num_training_batches - loop.batch_idx - 1
    left: float = batches / trainer.accumulate_grad_batches
    left = left if trainer.max_steps == -1 else min(left, trainer.max_steps - loop.global_step)
    return math.ceil(left) if math.isfinite(left) else left

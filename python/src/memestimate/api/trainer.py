"""The callback of transformers' Trainer."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback as Callback

from .callbacks import Asks


class TrainerCallback(Asks, Callback):
    """Says before the first step of a transformers Trainer what the training will take.

    ``Trainer(..., callbacks=[memestimate.TrainerCallback()])``. The script is recorded in a process of its own, up to
    its third training step, on the GPU that PyTorch uses here: nothing of this process is changed, no random number is
    drawn, no memory of the GPU is used. What the script does before it trains it does there once more. In a job of
    several processes the first one asks, and the others wait for it.

    Parameters
    ----------
    gpu : str, optional
        The GPU to ask about, by default the one that PyTorch uses here.
    seconds : float
        How long the answer may take; the training goes on without one after that.
    must_fit : bool
        Raise `MemoryError` before the first step where the training does not fit.

    Attributes
    ----------
    estimate : Estimate or None
        The answer.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self._ask()

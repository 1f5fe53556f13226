"""The callback of Lightning."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .callbacks import Asks

if TYPE_CHECKING or "pytorch_lightning" not in sys.modules:
    from lightning.pytorch.callbacks import Callback
else:  # the same, under its older name
    from pytorch_lightning.callbacks import Callback


class LightningCallback(Asks, Callback):
    """Says before the first step of a Lightning Trainer what the training will take.

    ``Trainer(..., callbacks=[memestimate.LightningCallback()])``; otherwise as `TrainerCallback`.

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

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.is_global_zero:
            self._ask()

"""Several GPUs that train together, as the Trainer of transformers has accelerate wrap a model and its optimizer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from . import launchers

if TYPE_CHECKING:
    from .tuning import Way

__all__ = ["SCHEMES", "Together", "join", "on_host"]

SCHEMES = ("ddp", "fsdp")
_MIXED = {"amp-bf16": "bf16", "amp-fp16": "fp16"}  # TrainingArguments.mixed_precision


class Together:
    """What one of several processes does in place of a program on one GPU."""

    def __init__(self, accelerator: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._accelerator = accelerator
        self.model, self.optimizer = accelerator.prepare(model, optimizer)

    def backward(self, loss: torch.Tensor) -> None:
        """Run backward, on the scaled loss where there is a scaler."""
        self._accelerator.backward(loss)

    def step(self) -> None:
        """Step the optimizer, and let go of the gradients."""
        self.optimizer.step()
        self.optimizer.zero_grad()


@contextlib.contextmanager
def join(way: Way, library: Callable[[str], Any]) -> Iterator[Callable[[nn.Module, torch.optim.Optimizer], Together]]:
    """Be rank 0 of the GPUs that a way has; yields what wraps a model and its optimizer."""
    if torch.distributed.is_initialized():
        raise ValueError("this process has a process group of its own, which several GPUs would be added to")
    accelerate = library("accelerate")
    names = ("PartialState", "AcceleratorState", "GradientState")
    states = [getattr(accelerate.state, name)._shared_state for name in names]  # one for the process, as it was set up
    before, kept = dict(os.environ), [dict(state) for state in states]
    os.environ |= launchers.ranked(0, way.gpus, way.gpus)
    for state in states:
        state.clear()

    def wrap(model: nn.Module, optimizer: torch.optim.Optimizer) -> Together:
        return Together(_accelerator(accelerate, way), model, optimizer)

    try:
        yield wrap
    finally:
        os.environ.clear()
        os.environ |= before
        for state, own in zip(states, kept, strict=True):
            state.clear()
            state.update(own)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _accelerator(accelerate: Any, way: Way) -> Any:
    """The accelerator of `Trainer.create_accelerator_and_postprocess`, transformers 5.17.

    FSDP is its second version, wrapped by `_no_split_modules`, and shards are gathered anew for backward, as
    `TrainingArguments(fsdp=True)` has it (`_process_fsdp_args`). Without mixed precision shards have the types of the
    weights; with it accelerate keeps those that are trained in fp32 (`fsdp2_prepare_model`).
    """
    settings: dict[str, Any] = {"mixed_precision": _MIXED.get(way.precision, "no")}
    if way.parallel == "fsdp":
        settings["fsdp_plugin"] = accelerate.FullyShardedDataParallelPlugin(
            fsdp_version=2,
            auto_wrap_policy="transformer_based_wrap",
            reshard_after_forward=True,
            cpu_ram_efficient_loading=False,
            state_dict_type="FULL_STATE_DICT",
        )
    else:  # PEFT's 4-bit models checkpoint reentrantly, which fails while DDP looks for parameters that are not used
        unused = not way.checkpoint or way.lora is not None
        settings["kwargs_handlers"] = [accelerate.DistributedDataParallelKwargs(find_unused_parameters=unused)]
    return accelerate.Accelerator(**settings)


def on_host(model: nn.Module) -> nn.Module:
    """Give a model of the meta device memory of this machine, which nothing touches, so that FSDP moves each part.

    Buffers are zeros: that of a rotary embedding may be looked at.
    """
    model.to_empty(device="cpu")
    for buffer in model.buffers():
        buffer.zero_()
    model.tie_weights()  # type: ignore[operator]
    return model

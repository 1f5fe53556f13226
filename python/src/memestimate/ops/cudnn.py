"""Operators that have no rule of shapes because only a GPU has them (aten/src/ATen/native/cudnn and cuda)."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload

from ..core.handlers import Arguments, Composite, Handler, Keywords, Table
from ..core.session import Session
from ..values.values import Values

aten = torch.ops.aten
handles: Table[Handler] = Table("cudnn")
composes: Table[Composite] = Table("cudnn")


@composes(aten.ctc_loss.Tensor)
def ctc_loss(
    session: Session,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    inputs: torch.Tensor,
    outputs: torch.Tensor,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Any:
    """Take the loss of a GPU: ``aten::ctc_loss`` takes another way where tensors are fake (LossCTC.cpp)."""
    lengths: tuple[Any, Any] = _known(session, inputs), _known(session, outputs)
    if None in lengths or aten._use_cudnn_ctc_loss.Tensor(log_probs, targets, inputs, outputs, blank):
        lengths, overload = (inputs, outputs), aten.ctc_loss.Tensor
    else:
        overload = aten.ctc_loss.IntList
    return overload.decompose(log_probs, targets, *lengths, blank, reduction, zero_infinity)


def _known(session: Session, lengths: Any) -> list[int] | None:
    if not isinstance(lengths, torch.Tensor):
        return list(lengths)
    value = session.part(Values).get(lengths)
    return None if value is None else [int(n) for n in value.flatten().tolist()]


def prepared(session: Session, images: torch.Tensor, grid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with session.capture:  # copies that live as long as the kernel
        return images.contiguous() if 0 in images.stride() else images, grid.contiguous()


@handles(aten.cudnn_grid_sampler.default)
def sample(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    images, grid = prepared(session, *args)
    out = session.empty((*images.shape[:2], *grid.shape[1:3]), images.dtype)
    session.log(func, (images, grid), kwargs, out)
    return out


@handles(aten.cudnn_grid_sampler_backward.default)
def sample_backward(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    images, grid = prepared(session, *args[:2])
    with session.capture:
        gradient = args[2].contiguous() if 0 in args[2].stride() else args[2]
    out = session.empty(images.shape, images.dtype), session.empty(grid.shape, grid.dtype)
    session.log(func, (images, grid, gradient), kwargs, out)
    return out


@handles(aten._use_cudnn_ctc_loss.default, aten._use_cudnn_ctc_loss.Tensor)
def uses_cudnn(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> bool:
    log_probs, targets, inputs, outputs, blank = args
    is_tensor = isinstance(inputs, torch.Tensor)
    if (
        not torch.backends.cudnn.enabled
        or blank != 0
        or targets.dim() != 1
        or targets.dtype is not torch.int32
        or log_probs.dtype is not torch.float32
        or log_probs.dim() != 3
        or (is_tensor and not inputs.dtype == outputs.dtype == torch.int32)
        or (not is_tensor and targets.device.type != "cpu")
    ):
        return False
    of_inputs, of_targets = _known(session, inputs), _known(session, outputs)
    if of_targets is None or of_inputs is None:
        session.note("ctc", "lengths of unknown values were taken to be such that cuDNN computes the CTC loss")
        return True
    fit = all(m < 256 and m <= n for m, n in zip(of_targets, of_inputs, strict=False))
    return fit and (is_tensor or set(of_inputs) == {log_probs.shape[0]})


@handles(aten._cudnn_ctc_loss.default, aten._cudnn_ctc_loss.Tensor)
def with_cudnn(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    log_probs = args[0]
    out = session.empty((log_probs.shape[1],), log_probs.dtype), session.empty(log_probs.shape, log_probs.dtype)
    session.note("ctc", "cuDNN's workspace for the CTC loss is not known and was left out")
    session.log(func, args, kwargs, out)
    return out


def longest(session: Session, targets: torch.Tensor, lengths: Any, batch: int) -> int:
    of_targets = _known(session, lengths)
    if of_targets is not None:
        return max(of_targets, default=0)
    if targets.dim() > 1:
        session.note("ctc", f"the longest target of a CTC loss was taken to have {targets.shape[1]} labels: a bound")
        return targets.shape[1]
    mean = -(-targets.numel() // max(batch, 1))
    session.note("ctc", f"the longest target of a CTC loss was taken to be {mean} long: the mean")
    return mean


@handles(aten._ctc_loss.default, aten._ctc_loss.Tensor)
def forward(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    log_probs, targets, _, lengths = args[:4]
    steps, batch = log_probs.shape[:2]
    states = 2 * longest(session, targets, lengths, batch) + 1  # a blank around each label
    alpha = session.empty((batch, steps, states), log_probs.dtype)
    out = session.empty((batch,), log_probs.dtype), alpha
    session.log(func, args, kwargs, out)
    return out


@handles(aten._ctc_loss_backward.default, aten._ctc_loss_backward.Tensor)
def backward(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    log_probs, alpha = args[1], args[6]
    with session.capture:
        beta = torch.empty_like(alpha)  # lives as long as the kernels
    out = session.empty(log_probs.shape, log_probs.dtype)
    session.log(func, args, kwargs, out)
    del beta
    return out


def _no_miopen(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> bool:
    """AMD's, asked for in the same place by newer PyTorch."""
    return False


if hasattr(aten, "_use_miopen_ctc_loss"):
    handles(aten._use_miopen_ctc_loss.default, aten._use_miopen_ctc_loss.Tensor)(_no_miopen)

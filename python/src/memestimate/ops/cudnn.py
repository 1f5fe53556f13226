"""Operators that have no rule of shapes because only a GPU has them (aten/src/ATen/native/cudnn and cuda)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

if TYPE_CHECKING:
    from ..api.recorder import Recorder
    from ..core.dispatch import Handler

aten = torch.ops.aten


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """All operators of this file."""
    return _grid_sampler(recorder) | _ctc_loss(recorder)


def composites(recorder: Recorder) -> dict[OpOverload, Callable[..., Any]]:
    """What runs in place of ``aten::ctc_loss``, which takes another way where tensors are fake (LossCTC.cpp)."""

    def ctc_loss(
        log_probs: torch.Tensor,
        targets: torch.Tensor,
        inputs: torch.Tensor,
        outputs: torch.Tensor,
        blank: int = 0,
        reduction: int = 1,
        zero_infinity: bool = False,
    ) -> Any:
        lengths: tuple[Any, Any] = _known(recorder, inputs), _known(recorder, outputs)
        if None in lengths or aten._use_cudnn_ctc_loss.Tensor(log_probs, targets, inputs, outputs, blank):
            lengths, overload = (inputs, outputs), aten.ctc_loss.Tensor
        else:
            overload = aten.ctc_loss.IntList
        return overload.decompose(log_probs, targets, *lengths, blank, reduction, zero_infinity)

    return {aten.ctc_loss.Tensor: ctc_loss}


def _known(recorder: Recorder, lengths: Any) -> list[int] | None:
    if not isinstance(lengths, torch.Tensor):
        return list(lengths)
    value = recorder.values.get(lengths)
    return None if value is None else [int(n) for n in value.flatten().tolist()]


def _grid_sampler(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Sampling at points of a grid (GridSampler.cpp)."""

    def prepared(images: torch.Tensor, grid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with recorder.capture:  # copies that live as long as the kernel
            return images.contiguous() if 0 in images.stride() else images, grid.contiguous()

    def sample(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        images, grid = prepared(*args)
        out = recorder.empty((*images.shape[:2], *grid.shape[1:3]), images.dtype)
        recorder.log(func, (images, grid), kwargs, out)
        return out

    def sample_backward(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        images, grid = prepared(*args[:2])
        with recorder.capture:
            gradient = args[2].contiguous() if 0 in args[2].stride() else args[2]
        out = recorder.empty(images.shape, images.dtype), recorder.empty(grid.shape, grid.dtype)
        recorder.log(func, (images, grid, gradient), kwargs, out)
        return out

    return {aten.cudnn_grid_sampler.default: sample, aten.cudnn_grid_sampler_backward.default: sample_backward}


def _ctc_loss(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Connectionist temporal classification: cuDNN's (cudnn/LossCTC.cpp) and PyTorch's own (cuda/LossCTC.cu)."""

    def uses_cudnn(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
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
        of_inputs, of_targets = _known(recorder, inputs), _known(recorder, outputs)
        if of_targets is None or of_inputs is None:
            recorder.note("ctc", "lengths of unknown values were taken to be such that cuDNN computes the CTC loss")
            return True
        fit = all(m < 256 and m <= n for m, n in zip(of_targets, of_inputs, strict=False))
        return fit and (is_tensor or set(of_inputs) == {log_probs.shape[0]})

    def with_cudnn(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        log_probs = args[0]
        out = recorder.empty((log_probs.shape[1],), log_probs.dtype), recorder.empty(log_probs.shape, log_probs.dtype)
        recorder.note("ctc", "cuDNN's workspace for the CTC loss is not known and was left out")
        recorder.log(func, args, kwargs, out)
        return out

    def longest(targets: torch.Tensor, lengths: Any, batch: int) -> int:
        of_targets = _known(recorder, lengths)
        if of_targets is not None:
            return max(of_targets, default=0)
        if targets.dim() > 1:
            recorder.note(
                "ctc", f"the longest target of a CTC loss was taken to have {targets.shape[1]} labels: a bound"
            )
            return targets.shape[1]
        mean = -(-targets.numel() // max(batch, 1))
        recorder.note("ctc", f"the longest target of a CTC loss was taken to be {mean} long: the mean")
        return mean

    def forward(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        log_probs, targets, _, lengths = args[:4]
        steps, batch = log_probs.shape[:2]
        states = 2 * longest(targets, lengths, batch) + 1  # a blank around each label
        alpha = recorder.empty((batch, steps, states), log_probs.dtype)
        out = recorder.empty((batch,), log_probs.dtype), alpha
        recorder.log(func, args, kwargs, out)
        return out

    def backward(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        log_probs, alpha = args[1], args[6]
        with recorder.capture:
            beta = torch.empty_like(alpha)  # lives as long as the kernels
        out = recorder.empty(log_probs.shape, log_probs.dtype)
        recorder.log(func, args, kwargs, out)
        del beta
        return out

    found: dict[OpOverload, Handler] = {}
    for overload in ("default", "Tensor"):
        found[getattr(aten._use_cudnn_ctc_loss, overload)] = uses_cudnn
        found[getattr(aten._cudnn_ctc_loss, overload)] = with_cudnn
        if hasattr(aten, "_use_miopen_ctc_loss"):  # AMD's, asked for in the same place by newer PyTorch
            found[getattr(aten._use_miopen_ctc_loss, overload)] = lambda *_: False
        found[getattr(aten._ctc_loss, overload)] = forward
        found[getattr(aten._ctc_loss_backward, overload)] = backward
    return found

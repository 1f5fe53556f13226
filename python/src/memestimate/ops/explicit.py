"""Operators that PyTorch puts together of others below autograd, where fake tensors see the result alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

if TYPE_CHECKING:
    from ..api.recorder import Recorder

aten = torch.ops.aten


def handlers(recorder: Recorder) -> dict[OpOverload, Callable[..., Any]]:
    """What a GPU runs of each: its kernel is one for all devices, and calls operators that are recorded."""

    def opened(parts: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def run(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
            with recorder.capture:
                return parts(*args, **kwargs)

        return run

    def repeated(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Places, each as often as is said: the numbers are summed up, and their sum asked for (Repeat.cpp)."""
        repeats, asks = args[0], kwargs.get("output_size") is None
        if not repeats.shape[0]:
            return NotImplemented
        with recorder.capture:
            sums = repeats.contiguous().cumsum(0)
            _ = (repeats >= 0).all() if asks else None
        error = RuntimeError(f"{func} cannot be recorded: its tensors are too large to be tried")
        out = recorder.try_out(func, args, kwargs, error)
        del sums
        return out

    def observed(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What fake quantization observes: the range of all or of each row, looked up first (FusedObsFakeQuant.cu)."""
        by_row = kwargs.get("per_row_fake_quant", args[11] if len(args) > 11 else False)
        with recorder.capture:
            x = args[0].contiguous()
            _ = torch.aminmax(x.flatten(1), dim=1) if by_row else torch.aminmax(x)
        return NotImplemented

    def chosen(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A choice among two types, or by bytes: copies in one type, and of the bytes as bool (TensorCompare.cpp)."""
        condition, one, other = args
        if condition.dtype is not torch.uint8 and one.dtype is other.dtype:
            return NotImplemented
        dtype = torch.result_type(one, other)
        with recorder.capture:
            return aten.where.self(condition.bool(), one.to(dtype), other.to(dtype))

    return {
        aten._is_all_true.default: opened(torch.all),  # ReduceOps.cpp
        aten._is_any_true.default: opened(torch.any),
        aten._euclidean_dist.default: opened(euclidean_dist),
        aten.repeat_interleave.Tensor: repeated,
        aten._fused_moving_avg_obs_fq_helper.default: observed,
        aten.where.self: chosen,
    }


def euclidean_dist(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """`_euclidean_dist` (Distance.cpp), which `cdist` takes where there are more than 25 rows.

    It moves the norms into each `cat`, after which they are gone.
    """
    norm1 = x1.pow(2).sum(-1, True)
    pad1 = torch.ones_like(norm1)
    norm2 = x2.pow(2).sum(-1, True)
    pad2 = torch.ones_like(norm2)
    left = torch.cat([x1.mul(-2), norm1, pad1], -1)
    del norm1, pad1
    right = torch.cat([x2, pad2, norm2], -1)
    del norm2, pad2
    return left.matmul(right.mT).clamp_min_(0).sqrt_()

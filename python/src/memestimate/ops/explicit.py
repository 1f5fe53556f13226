"""Operators that PyTorch puts together of others below autograd, where fake tensors see the result alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session
from . import fallback

aten = torch.ops.aten
handles: Table[Handler] = Table("explicit")


def _opened(parts: Callable[..., torch.Tensor]) -> Handler:
    """Run what a GPU runs: a kernel that is one for all devices, and calls operators that are recorded."""

    def run(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> torch.Tensor:
        with session.capture:
            return parts(*args, **kwargs)

    return run


@handles(aten.repeat_interleave.Tensor)
def repeated(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Places, each as often as is said: the numbers are summed up, and their sum asked for (Repeat.cpp)."""
    repeats, asks = args[0], kwargs.get("output_size") is None
    if not repeats.shape[0]:
        return NotImplemented
    with session.capture:
        sums = repeats.contiguous().cumsum(0)
        _ = (repeats >= 0).all() if asks else None
    error = RuntimeError(f"{func} cannot be recorded: its tensors are too large to be tried")
    out = fallback.try_out(session, func, args, kwargs, error)
    del sums
    return out


@handles(aten._fused_moving_avg_obs_fq_helper.default)
def observed(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """What fake quantization observes: the range of all or of each row, looked up first (FusedObsFakeQuant.cu)."""
    by_row = kwargs.get("per_row_fake_quant", args[11] if len(args) > 11 else False)
    with session.capture:
        x = args[0].contiguous()
        _ = torch.aminmax(x.flatten(1), dim=1) if by_row else torch.aminmax(x)
    return NotImplemented


@handles(aten.where.self)
def chosen(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """A choice among two types, or by bytes: copies in one type, and of the bytes as bool (TensorCompare.cpp)."""
    condition, one, other = args
    if condition.dtype is not torch.uint8 and one.dtype is other.dtype:
        return NotImplemented
    dtype = torch.result_type(one, other)
    with session.capture:
        return aten.where.self(condition.bool(), one.to(dtype), other.to(dtype))


def scattered_back(grad: torch.Tensor, mask: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """`masked_scatter_backward` (TensorAdvancedIndexing.cpp): what is chosen, and zeros for what was not used.

    No more is chosen than there was to scatter, which a mask whose values are unknown may be taken to have.
    """
    picked, count = grad.masked_select(mask), math.prod(sizes)
    if picked.numel() > count:
        picked = picked[:count].clone()
    elif picked.numel() < count:
        picked = torch.cat([picked, grad.new_zeros(count - picked.numel())])
    return picked.view(sizes)


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


handles(aten._is_all_true.default)(_opened(torch.all))  # ReduceOps.cpp
handles(aten._is_any_true.default)(_opened(torch.any))
handles(aten._euclidean_dist.default)(_opened(euclidean_dist))
handles(aten.masked_scatter_backward.default)(_opened(scattered_back))

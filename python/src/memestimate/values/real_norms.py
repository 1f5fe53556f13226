"""Batch norm across processes with real values: on the CPU in place of the GPU's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _by_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2))


def _over_samples(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).flatten(1).sum(1)


def _stats(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, ...]:
    samples = x.transpose(0, 1).flatten(1).float()
    return samples.mean(1), (samples.var(1, correction=0) + eps).rsqrt()


def _gathered(x: Any, means: Any, invstds: Any, mean: Any, var: Any, momentum: float, eps: float, counts: Any) -> Any:
    weights = (counts / counts.sum()).view(-1, 1)
    found = (means * weights).sum(0)
    spread = ((invstds.pow(-2) - eps + (means - found).square()) * weights).sum(0)
    for running, now in ((mean, found), (var, spread)):
        if running is not None:
            running.lerp_(now.to(running.dtype), momentum)
    return found, (spread + eps).rsqrt()


def _normalized(x: torch.Tensor, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> torch.Tensor:
    out = (x - _by_channel(mean, x)) * _by_channel(invstd, x)
    if weight is not None:
        out = out * _by_channel(weight, x) + _by_channel(bias, x)
    return out.to(x.dtype)


def _reduced(grad: Any, x: Any, mean: Any, invstd: Any, weight: Any, *asked: bool) -> Any:
    sums = _over_samples(grad), _over_samples(grad * (x - _by_channel(mean, x)))
    return *sums, sums[1] * invstd, sums[0]


def _spread_back(
    grad: Any, x: Any, mean: Any, invstd: Any, weight: Any, sum_dy: Any, sum_dy_xmu: Any, counts: Any
) -> Any:
    total = counts.sum()
    along = (x - _by_channel(mean, x)) * _by_channel(sum_dy_xmu / total * invstd.square(), x)
    scale = invstd if weight is None else invstd * weight
    return ((grad - _by_channel(sum_dy / total, x) - along) * _by_channel(scale, x)).to(x.dtype)


STAND_INS: dict[str, Callable[..., Any]] = {
    "batch_norm_stats": _stats,
    "batch_norm_gather_stats_with_counts": _gathered,
    "batch_norm_elemt": _normalized,
    "batch_norm_backward_reduce": _reduced,
    "batch_norm_backward_elemt": _spread_back,
}

"""Batch norm across processes, whose operators only a GPU has (SyncBatchNorm; cuda/Normalization.cu)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from .patches import Patches

if TYPE_CHECKING:
    from .capture import Handler
    from .recorder import Recorder

aten = torch.ops.aten


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """The operators concerned: statistics are of one number a channel, [C], and of float32 for half types."""

    def statistics(like: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
        wide = torch.float64 if like.dtype is torch.float64 else torch.float32
        return tuple(recorder.empty((like.shape[1],), wide) for _ in range(count))

    def answered(make: Callable[[tuple[Any, ...]], Any]) -> Handler:
        def answer(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            out = make(args)
            recorder.log(func, args, kwargs, out)
            return out

        return answer

    def reduced(args: tuple[Any, ...]) -> Any:
        """Sums of the gradient and of its product with the input, and the gradients of weight and bias."""
        weight, for_input, for_weight, for_bias = args[4:8]
        sums = statistics(args[1], 2) if for_input else (None, None)
        like = [weight if weight is not None and asked else None for asked in (for_weight, for_bias)]
        return (*sums, *[None if t is None else recorder.empty(t.shape, t.dtype) for t in like])

    return {
        aten.batch_norm_stats.default: answered(lambda args: statistics(args[0], 2)),
        aten.batch_norm_gather_stats_with_counts.default: answered(lambda args: statistics(args[0], 2)),
        aten.batch_norm_elemt.default: answered(lambda args: recorder.pretend(args[0])),
        aten.batch_norm_backward_reduce.default: answered(reduced),
        aten.batch_norm_backward_elemt.default: answered(lambda args: recorder.pretend(args[1])),
    }


def install(recorder: Recorder, patches: Patches) -> None:
    """Let SyncBatchNorm ask which processes had samples without an answer being taken: each has."""
    from torch.nn.modules._functions import SyncBatchNorm

    forward: Callable[..., Any] = SyncBatchNorm.forward

    def with_samples(*args: Any, **kwargs: Any) -> Any:
        recorder.values.all_set = True
        try:
            return forward(*args, **kwargs)
        finally:
            recorder.values.all_set = False

    patches.set(SyncBatchNorm, "forward", staticmethod(with_samples))


# On the CPU, for values beside the recording.


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

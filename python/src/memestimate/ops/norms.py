"""Batch norm across processes, whose operators only a GPU has (SyncBatchNorm; cuda/Normalization.cu)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ..core.patches import Patches

if TYPE_CHECKING:
    from ..api.recorder import Recorder
    from ..core.dispatch import Handler

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

"""Batch norm across processes, whose operators only a GPU has (SyncBatchNorm; cuda/Normalization.cu)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.nn.modules._functions import SyncBatchNorm

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session
from ..values.values import Values

aten = torch.ops.aten
handles: Table[Handler] = Table("norms")


def _statistics(session: Session, like: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
    """Statistics are of one number a channel, [C], and of float32 for half types."""
    wide = torch.float64 if like.dtype is torch.float64 else torch.float32
    return tuple(session.empty((like.shape[1],), wide) for _ in range(count))


def _answered(make: Callable[[Session, Arguments], Any]) -> Handler:
    def answer(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
        out = make(session, args)
        session.log(func, args, kwargs, out)
        return out

    return answer


def _reduced(session: Session, args: Arguments) -> Any:
    """Sums of the gradient and of its product with the input, and the gradients of weight and bias."""
    weight, for_input, for_weight, for_bias = args[4:8]
    sums = _statistics(session, args[1], 2) if for_input else (None, None)
    like = [weight if weight is not None and asked else None for asked in (for_weight, for_bias)]
    return (*sums, *[None if t is None else session.empty(t.shape, t.dtype) for t in like])


handles(aten.batch_norm_stats.default)(_answered(lambda session, args: _statistics(session, args[0], 2)))
handles(aten.batch_norm_gather_stats_with_counts.default)(
    _answered(lambda session, args: _statistics(session, args[0], 2))
)
handles(aten.batch_norm_elemt.default)(_answered(lambda session, args: session.pretend(args[0])))
handles(aten.batch_norm_backward_reduce.default)(_answered(_reduced))
handles(aten.batch_norm_backward_elemt.default)(_answered(lambda session, args: session.pretend(args[1])))


def install(session: Session) -> None:
    """Let SyncBatchNorm ask which processes had samples without an answer being taken: each has."""
    forward: Callable[..., Any] = SyncBatchNorm.forward

    def with_samples(*args: Any, **kwargs: Any) -> Any:
        session.part(Values).all_set = True
        try:
            return forward(*args, **kwargs)
        finally:
            session.part(Values).all_set = False

    session.patches.set(SyncBatchNorm, "forward", staticmethod(with_samples))

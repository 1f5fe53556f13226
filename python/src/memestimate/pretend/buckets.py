"""Buckets of DDP that are there for longer than its reducer needs them.

NCCL's watchdog holds what a collective works on until it has seen it finish, for which it looks every 100 ms, and
another collective is enqueued (WorkNCCL's stash in torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp). So the buckets
that the reducer makes anew may be there twice for a forward and a backward pass. Measured, those of a static graph were
in nine of ten ranks, and are taken to be; others were in ten of 48, and are not.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from ..core.session import Session


class Buckets:
    """What was reduced over all processes, and what of it is held."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reduced: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._held: list[torch.UntypedStorage] = []

    def reduced(self, tensors: list[torch.Tensor]) -> None:
        """Take note of an all-reduce."""
        self._reduced = {key: ref for key, ref in self._reduced.items() if ref() is not None}
        for tensor in tensors:
            storage = tensor.untyped_storage()
            self._reduced[storage._cdata] = weakref.ref(storage)

    def backward_ended(self) -> None:
        """Let go of what was held."""
        self._held.clear()


def install(session: Session) -> None:
    """Look at each model before its forward pass: there the reducer makes its buckets anew, once."""
    if not torch.distributed.is_available():
        return
    buckets = session.part(Buckets)
    session.phases.backward_ended.append(buckets.backward_ended)
    before_forward: Any = DistributedDataParallel._pre_forward

    def pre_forward(model: Any, *inputs: Any, **kwargs: Any) -> Any:
        alive = [storage for ref in buckets._reduced.values() if (storage := ref()) is not None]
        had = model._has_rebuilt_buckets
        out = before_forward(model, *inputs, **kwargs)
        if model.static_graph and model._has_rebuilt_buckets and not had:
            buckets._held += alive
            text = "with a static graph DDP's old buckets were taken to be there until the third backward pass is over"
            session.note("buckets", text)
        return out

    session.patches.set(DistributedDataParallel, "_pre_forward", pre_forward)

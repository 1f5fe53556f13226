"""NCCL's communicators: which of the program's process groups make one, and what is connected in each.

A communicator takes memory on the device, and so does each connection, when a group first runs what needs it
(NCCL_RUNTIME_CONNECT): a ring for collectives, a pair for what one process sends another. simulate/gpu has the sizes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..core.session import Session

_BY_PAIRS = {"alltoall_", "alltoall_base_", "all_to_all_single", "shard_dim_alltoall"}
_TO_ONE = {"send", "recv_"}
_OF_ROOT = {"gather_", "scatter_"}
_ASIDE = {"wait_tensor", "monitored_barrier_", "recv_any_source_"}  # by no connection, or it is not known by which


@dataclass(frozen=True)
class _Group:
    ranks: list[int]
    backend: str  # that the program asked for: nothing, "nccl", "cpu:gloo,cuda:nccl"

    @property
    def by_nccl(self) -> bool:
        return not self.backend or "nccl" in self.backend


class Communicators:
    """What the program's process groups made of NCCL."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._groups: dict[str, _Group] = {}  # by name
        self._seen: set[tuple[object, ...]] = set()
        self._default = ""
        self._at_once = False  # init_process_group was given a device_id
        self._batched = False

    def begin(self, backend: str, at_once: bool) -> None:
        """Take note of the default group, which is made next."""
        self._default, self._at_once = backend, at_once
        names = ("NCCL_BUFFSIZE",), ("NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS"), ("NCCL_P2P_DISABLE",)
        buffer, channels, disabled = (next((n for name in of if (n := _number(name)) >= 0), -1) for of in names)
        host = _number("LOCAL_WORLD_SIZE")
        host = host if host > 0 else self._session.world_size
        self._session.writer.define("nccl", (), host, buffer, channels, disabled <= 0)

    def grouped(self, name: str, ranks: list[int], backend: str, at_once: bool) -> None:
        """Take note of a group that the program made."""
        self._groups[name] = _Group(ranks, self._default if backend == "fake" else backend)
        if (at_once or self._at_once) and self._groups[name].by_nccl:
            self._communicator(name)

    def collective(self, name: str, group: str, args: Sequence[Any] = ()) -> None:
        """Take note of an operator of c10d that runs on the pretended GPU."""
        at = 2 if name in _TO_ONE else 3 if name in _OF_ROOT else -1
        self._run(name, group, args[at] if at >= 0 else -1, self._batched, *_sent(name, args))

    def objects(self, name: str, group: Any, peer: int = -1, batched: bool = False) -> None:
        """Take note of a collective of Python objects, which go to the GPU where NCCL is the group's only backend.

        `peer` is the rank in the job of the root, or of who sends or receives.
        """
        group = group if group is not None else torch.distributed.group.WORLD
        of = self._groups.get(group.group_name) if group is not None else None
        if of is not None and of.backend in ("nccl", "cuda:nccl"):
            self._run(name, group.group_name, of.ranks.index(peer) if peer >= 0 else -1, batched)

    def _run(
        self, name: str, group: str, peer: int, batched: bool, ins: tuple[bool, ...] = (), outs: tuple[bool, ...] = ()
    ) -> None:
        """
        Define what an operator needs.

        `peer` is a rank in the group; of an all-to-all `ins` and `outs` say for each rank whether something goes there
        or comes from there, and nothing where as much goes everywhere.
        """
        key = group, name, peer, batched, ins, outs
        if key in self._seen or name in _ASIDE or self._session.quiet or group not in self._groups:
            return
        self._seen.add(key)
        if not self._groups[group].by_nccl:
            return
        ranks, own = self._groups[group].ranks, self._session.rank
        others = [rank for rank in ranks if rank != own]
        if name in _TO_ONE:  # one by one they have a communicator of the two: ProcessGroupNCCL::pointToPoint
            of = [] if batched or self._at_once else sorted((own, ranks[peer]))
            self._connect(self._communicator(group, of), "send" if name == "send" else "receive", [ranks[peer]])
            return
        made = self._communicator(group)
        if name in _OF_ROOT:
            is_root = ranks[peer] == own
            sends = is_root == (name == "scatter_")
            self._connect(made, "send" if sends else "receive", others if is_root else [ranks[peer]])
        elif name in _BY_PAIRS:
            self._connect(made, "send", [rank for rank in others if not ins or ins[ranks.index(rank)]])
            self._connect(made, "receive", [rank for rank in others if not outs or outs[ranks.index(rank)]])
        else:
            self._connect(made, "ring", [])

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Within it, what is sent and received goes together."""
        before, self._batched = self._batched, True
        try:
            yield
        finally:
            self._batched = before

    def _communicator(self, group: str, ranks: Sequence[int] = ()) -> int:
        """Define a communicator: of a group, or of two of its processes."""
        of = list(ranks or self._groups[group].ranks)
        return self._session.writer.define("communicator", (group, *ranks), of)

    def _connect(self, made: int, how: str, peers: list[int]) -> None:
        self._session.writer.define("connect", (made, how, *peers), made, how, peers)


def _sent(name: str, args: Sequence[Any]) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """To and from which ranks an all-to-all sends anything, as ring attention does to its neighbour alone."""
    outs: Sequence[Any] = ()
    ins: Sequence[Any] = ()
    if name == "alltoall_base_":
        outs, ins = args[3], args[4]
    elif name == "all_to_all_single" and len(args) > 2:
        outs, ins = args[1], args[2]
    elif name == "alltoall_":
        outs, ins = ([t.numel() for t in tensors] for tensors in (args[0], args[1]))
    return tuple(bool(n) for n in ins), tuple(bool(n) for n in outs)


def install(session: Session) -> None:
    """Look at each group that is made; those of any backend are fake."""
    if not torch.distributed.is_available():
        return
    import torch.distributed as dist

    c10d: Any = dist.distributed_c10d
    communicators = session.part(Communicators)
    helper: Callable[..., Any] = c10d._new_process_group_helper
    batch: Callable[..., Any] = dist.batch_isend_irecv

    def new_process_group_helper(
        group_size: int, group_rank: int, global_ranks_in_group: Any, backend: Any, *args: Any, **kwargs: Any
    ) -> Any:
        at_once = kwargs.pop("device_id", None) is not None
        out = helper(group_size, group_rank, global_ranks_in_group, "fake", *args, **kwargs)
        if isinstance(out[0], dist.ProcessGroup):
            ranks = list(global_ranks_in_group) or list(range(group_size))  # of the default group it is empty
            communicators.grouped(out[0].group_name, ranks, str(backend), at_once)
        return out

    def batch_isend_irecv(p2p_op_list: Any) -> Any:
        with communicators.batch():
            return batch(p2p_op_list)

    session.patches.set(c10d, "_new_process_group_helper", new_process_group_helper)
    for module in (dist, c10d):
        session.patches.set(module, "batch_isend_irecv", batch_isend_irecv)


def _number(name: str) -> int:
    """A setting of the environment, -1 where it is none."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else -1

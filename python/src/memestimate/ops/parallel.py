"""Process groups of which only this process exists: PyTorch's own fake one.

A distributed program runs as rank 0 (or another) as it was written: DDP's buckets, ZeRO's shards and
FSDP's gathered parameters are PyTorch's own. Only the collectives do nothing.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._ops import OpOverload

from ..core.session import Session
from ..core.tensors import tensors
from ..pretend.buckets import Buckets
from ..pretend.communicators import Communicators
from ..values.values import Values


def install(session: Session) -> None:
    """Answer `init_process_group` with a fake group of the size asked for."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    c10d: Any = torch._C._distributed_c10d
    from torch.testing._internal.distributed.fake_pg import FakeStore

    original = dist.init_process_group
    communicators = session.part(Communicators)

    def init_process_group(backend: str | None = None, *_: Any, **kwargs: Any) -> None:
        world = session.world_size
        if kwargs.get("world_size", -1) > 0 and world == 1:
            world = kwargs["world_size"]
        communicators.begin(str(backend or ""), kwargs.get("device_id") is not None)
        original(backend="fake", store=FakeStore(), rank=session.rank, world_size=world)
        session.note("distributed", f"a process group of {world} in which only rank {session.rank} runs")

    def verify(*_: Any, **__: Any) -> None:
        """There is no other process whose parameters could differ."""

    def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
        communicators.objects("allgather_", group)
        object_list[:] = [obj] * len(object_list)  # as bytes on the GPU they would have no values

    def gather_object(
        obj: Any,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: Any = None,
        group_dst: int | None = None,
    ) -> None:
        communicators.objects("allgather_", group)  # of their sizes
        root = (
            dst or 0
            if group_dst is None
            else dist.get_global_rank(group or dist.distributed_c10d._get_default_group(), group_dst)
        )
        communicators.objects("gather_", group, root)
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def broadcast_object_list(
        object_list: list[Any], src: int | None = None, group: Any = None, *_: Any, **__: Any
    ) -> None:
        """What this process has is taken to be what the others have."""
        communicators.objects("broadcast_", group)

    for gather in (all_gather_object, gather_object, broadcast_object_list):
        for module in (dist, dist.distributed_c10d):
            session.patches.set(module, gather.__name__, gather)
    session.patches.set(dist, "init_process_group", init_process_group)
    session.patches.set(dist.distributed_c10d, "init_process_group", init_process_group)
    session.patches.set(dist, "is_nccl_available", lambda: True)
    # The reducer times the first iterations with events that need a driver, and counts them here. Only its log goes by
    # that number: a static graph goes by the number of backward passes (Reducer::static_graph_first_iteration).
    session.patches.set(c10d.Reducer, "prepare_for_forward", lambda reducer: None)
    # A collective that nobody waits for is a wrapper around its result: fake tensors make a copy of it.
    import torch.distributed._functional_collectives as functional

    session.patches.set(functional, "_maybe_wrap_tensor", lambda result: result)
    for module in (dist, torch.distributed.utils, torch.nn.parallel.distributed):
        if hasattr(module, "_verify_param_shape_across_processes"):
            session.patches.set(module, "_verify_param_shape_across_processes", verify)


def collective(session: Session, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Log a collective of c10d that writes into its arguments, and say that it is done.

    Each returns what its schema says: the tensors that it writes, if any, and a piece of work.
    """
    c10d: Any = torch._C._distributed_c10d
    returns = func._schema.returns
    done: torch.futures.Future[Any] = torch.futures.Future()
    done.set_result(list(tensors(args[0])))  # DDP's reducer takes its bucket from there
    work = c10d._create_work_from_future(done).boxed()
    if len(returns) == 1:
        out: Any = work
    else:
        first = args[0]
        if str(returns[0].type) == "Tensor" and not isinstance(first, torch.Tensor):
            first = first[0]
        out = first, work
    session.log(func, _tensors_only(args), {}, ())
    group = next(torch.distributed.ProcessGroup.unbox(a) for a in args if isinstance(a, torch.ScriptObject))
    session.part(Communicators).collective(func._schema.name.partition("::")[2], group.group_name, args)
    if func._schema.name == "c10d::allreduce_":
        session.part(Buckets).reduced(list(tensors(args[0])))
    _follow(session, func._schema.name, args)
    if session.part(Values).real is not None:
        with torch.no_grad():
            _move(session, func._schema.name, args)
    return out


def functional(session: Session, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Take note of a collective that makes its result, as DTensor calls them; it runs by its rule of shapes."""
    groups = [a for a in (*args, *kwargs.values()) if isinstance(a, str)]
    if groups:
        session.part(Communicators).collective(func._schema.name.partition("::")[2], groups[-1], args)
    return NotImplemented


def _follow(session: Session, name: str, args: tuple[Any, ...]) -> None:
    """Say what a collective's results hold: each process is taken to have sent what this one has."""
    values = session.part(Values)
    if name == "c10d::broadcast_":
        root = args[2]
        if root != torch.distributed.ProcessGroup.unbox(args[1]).rank():
            session.part(_Foreign).broadcast = root
            for result in tensors(args[0]):
                values.written(result, None)
    elif name == "c10d::allgather_":
        for results, given in zip(args[0], args[1], strict=False):
            for result in results:
                values.written(result, values.get(given))
    elif name == "c10d::_allgather_base_":
        known = values.get(args[1])
        values.written(args[0], None if known is None else _repeated(known, args[0]))
    elif name == "c10d::alltoall_base_" and values.get(args[1]) is not None:  # how many tokens go where
        received = torch.zeros(args[0].shape, dtype=args[0].dtype, device="cpu")
        _exchange(session, received, values.get(args[1]), args)
        values.written(args[0], received)
    elif name in ("c10d::reduce_scatter_", "c10d::_reduce_scatter_base_", "c10d::alltoall_", "c10d::alltoall_base_"):
        for result in tensors(args[0]):
            values.written(result, None)


class _Foreign:
    """What another process sent, which only that one knows."""

    def __init__(self, session: Session) -> None:
        self.broadcast: int | None = None  # the rank that sent it, within its group


def explain(session: Session, error: BaseException) -> None:
    """Say to an exception of the program that it may come of what another process sent."""
    root = session.part(_Foreign).broadcast
    if root is not None and isinstance(error, Exception) and sys.version_info >= (3, 11):
        error.add_note(
            f"memestimate: rank {root} broadcast values that rank {session.rank}, which is recorded, does not know. If "
            "it compares them with its own, as DeepSpeed's ZeRO-3 does, record rank 0, whose shards are as large."
        )


def _move(session: Session, name: str, args: tuple[Any, ...]) -> None:
    """Do with real values what `_follow` says; a sum over processes is this one's."""
    real = session.part(Values).real
    assert real is not None
    of, rank, world = real.of, session.rank, session.world_size
    if name == "c10d::allgather_":
        for results, given in zip(args[0], args[1], strict=False):
            for result in results:
                of(result).copy_(of(given))
    elif name == "c10d::_allgather_base_":
        of(args[0]).copy_(_repeated(of(args[1]), args[0]))
    elif name in ("c10d::reduce_scatter_", "c10d::alltoall_"):
        pairs = (
            zip(args[0], args[1], strict=False) if name == "c10d::reduce_scatter_" else ((t, args[1]) for t in args[0])
        )
        for result, parts in pairs:
            _put(of(result), of(parts[rank]))
    elif name == "c10d::_reduce_scatter_base_":
        of(args[0]).copy_(of(args[1]).chunk(world)[rank].reshape(args[0].shape))
    elif name == "c10d::alltoall_base_":
        _exchange(session, of(args[0]), of(args[1]), args)


def _exchange(session: Session, result: torch.Tensor, given: Any, args: tuple[Any, ...]) -> None:
    """`all_to_all_single` on the host: each process sends what this one sends itself."""
    outs, ins, world = args[3], args[4], session.world_size
    sent = (given.split(ins) if ins else given.chunk(world))[session.rank]
    for part in result.split(outs) if outs else result.chunk(world):
        _put(part, sent)


def _put(result: torch.Tensor, given: torch.Tensor) -> None:
    """Write as many rows as there are of both."""
    rows = min(len(result), len(given)) if result.dim() else 1
    (result[:rows] if result.dim() else result).copy_(given[:rows] if given.dim() else given)


def _repeated(known: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    copies = like.numel() // max(known.numel(), 1)
    return known.reshape(1, -1).expand(copies, -1).reshape(like.shape).to(like.dtype)


def _tensors_only(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a recording can hold of arguments: lists of lists, which scatter and gather take, as one list."""

    def known(a: Any) -> Any:
        if isinstance(a, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in a):
            return [item for part in a for item in part]
        return a if isinstance(a, (torch.Tensor, list, tuple, int, float, bool)) else None

    return tuple(known(a) for a in args)

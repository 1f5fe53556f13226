"""What the layers say of calls, in the order in which it is asked: the one place that knows them all."""

from __future__ import annotations

from torch._ops import OpOverload

from ..compiled import compiler
from ..core import kinds, phases, subclasses
from ..core.handlers import Composite, Table, merged
from ..core.session import Rules, Session
from ..ops import (
    attention,
    bilinear,
    bitsandbytes,
    checks,
    composites,
    copies,
    cudnn,
    deepspeed,
    explicit,
    extensions,
    fallback,
    flex,
    grouped,
    host,
    layouts,
    norms,
    optimizers,
    parallel,
    products,
    rnn,
    sums,
    zeros,
)
from ..ops.sparse import compressed, coo, scaled, shapes
from ..pretend import (
    addresses,
    batches,
    buckets,
    communicators,
    convolutions,
    data_parallel,
    device,
    engine,
    messages,
    nvml,
    out_of_memory,
    processes,
    python_side,
    saving,
    shorter,
    threads,
    torchscript,
    triton,
)
from ..pretend import host as build
from ..pretend.device_numbers import DeviceNumbers
from ..values import chance, questions, unknown, values
from ..values.decisions import Decisions

_HANDLERS = merged(
    family.handles
    for family in (
        *(attention, bilinear, compressed, coo, copies, cudnn, explicit, grouped, layouts, norms, products, questions),
        *(rnn, scaled, shapes, sums, zeros),
    )
)


def _composites(session: Session) -> dict[OpOverload, Composite]:
    tables: list[Table[Composite]] = [composites.composes, rnn.composes, cudnn.composes]
    if session.by_host:
        tables.append(host.composes)
    return {row.op: row.answers for table in tables for row in table.rows}


def _engine(session: Session) -> None:
    """Tell PyTorch's engine, or a build that has none for GPUs, of the pretended one."""
    if session.by_host:
        build.install(session)
        session.patches.enter(DeviceNumbers())
    else:
        engine.install(session)


RULES = Rules(
    handlers=_HANDLERS,
    namespaces={
        "bitsandbytes": bitsandbytes.run,
        "_c10d_functional": parallel.functional,
        "_dtensor": parallel.functional,
    },
    composites=_composites,
    on_host=unknown.on_host,
    no_shape=fallback.try_out,
    collective=parallel.collective,
    higher_order=flex.higher_order,
    install=(
        _engine,
        *(device.install, phases.install, copies.install, optimizers.install, python_side.install, saving.install),
        kinds.install,
        compiler.install,
        *(torchscript.install, addresses.install, unknown.install, threads.install, processes.install),
        data_parallel.install,
        *(
            parallel.install,
            communicators.install,
            messages.install,
            buckets.install,
            norms.install,
            rnn.install,
            flex.install,
            attention.install,
        ),
        *(
            composites.install,
            zeros.install,
            subclasses.install,
            bitsandbytes.install,
            deepspeed.install,
            triton.install,
        ),
        *(batches.install, nvml.install),
        shorter.install,
    ),
    begin=(sums.begin, threads.begin, checks.check),
    allocate=out_of_memory.allocate,
    logged=(convolutions.logged, values.logged, sums.logged),
    followed=values.followed,
    launched=values.launched,
    parted=(chance.parted,),
    stepped=(chance.stepped,),
    finish=(lambda session: session.part(Decisions).write(), convolutions.finish, chance.finish, bitsandbytes.finish),
    explain=(
        kinds.explain,
        extensions.explain,
        parallel.explain,
        lambda session, error: session.part(Decisions).explain(error),
    ),
)

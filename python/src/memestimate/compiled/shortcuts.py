"""What the compiler does that takes time and decides no memory, done once or not at all."""

from __future__ import annotations

import importlib
import os
from typing import Any

from torch import fx

from ..core.session import Session

_LOGS = ("TORCH_LOGS", "TORCH_TRACE")  # where somebody reads what it writes about its graphs


def install(session: Session) -> None:
    """Take them from now on, for the compiler of 2.11."""
    sizevars: Any = importlib.import_module("torch._inductor.sizevars")
    expand: Any = importlib.import_module("sympy").expand
    scheduler: Any = importlib.import_module("torch._inductor.scheduler")
    virtualized: Any = importlib.import_module("torch._inductor.virtualized").V
    cache: Any = importlib.import_module("torch._inductor.codecache").CacheBase
    repro: Any = importlib.import_module("torch._dynamo.repro.after_aot")
    readable: Any = fx.GraphModule.print_readable
    inputs = scheduler.Scheduler.get_graph_partition_symbol_inputs
    expanded: dict[tuple[type, Any], Any] = {}

    def simplified(sizes: Any, expr: Any) -> Any:
        """An index or size multiplied out, of which the same few are asked for again and again."""
        key = type(expr), expr
        found = expanded.get(key)
        if found is None:
            found = expanded[key] = expand(expr)
        return found.xreplace(sizes.replacements) if sizes.replacements else found

    def symbols(partitioned: Any, *args: Any, **kwargs: Any) -> Any:
        """The sizes that are symbols in a part of a graph: none where all sizes are numbers."""
        if virtualized.graph.sizevars.shape_env.var_to_range:
            return inputs(partitioned, *args, **kwargs)
        return scheduler.OrderedSet()

    def written(graph: fx.GraphModule, print_output: bool = True, *args: Any, **kwargs: Any) -> str:
        """A graph as text, which is kept beside compiled code for caches and logs."""
        if session.phases.compiling and not print_output:
            return ""
        return str(readable(graph, print_output, *args, **kwargs))

    def nothing(*_: Any, **__: Any) -> None:
        """What a graph is written out for that fails."""

    # A hash of all files of Triton, by which caches know it. There are none here.
    session.patches.set(cache, "get_system", staticmethod(lambda: {"hash": ""}))
    session.patches.set(sizevars.SizeVarAllocator, "simplify", simplified)
    session.patches.set(scheduler.Scheduler, "get_graph_partition_symbol_inputs", symbols)
    if not any(map(os.environ.get, _LOGS)):
        session.patches.set(fx.GraphModule, "print_readable", written)
        session.patches.set(repro, "save_graph_repro", nothing)

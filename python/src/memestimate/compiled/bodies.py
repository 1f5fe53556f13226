"""The text of kernels, which nobody runs: what decides memory of it is kept, most of the rest is not written.

Of a kernel its arguments count, which of them it changes, and whether its text is another's, since each text is timed
once. So an operation is one line of its name and its operands. Inductor's own would write the addresses and masks of
each load and store, look for operations that are there twice, and find out between which bounds each value lies.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx.node import map_arg

from ..core.patches import Patches

_AS_IT_IS = {"masked", "frexp", "load_seed"}  # takes a function; returns two values; reads a buffer


def install(patches: Patches) -> None:
    """Write short texts from now on."""
    upcast = importlib.import_module("torch._inductor.utils").upcast_compute_type
    common: Any = importlib.import_module("torch._inductor.codegen.common")
    codegen: Any = importlib.import_module("torch._inductor.codegen.triton")
    dtypes = importlib.import_module("torch._inductor.dtype_propagation").DtypePropagationOpsHandler()
    kind, virtualized = codegen.TritonKernel, importlib.import_module("torch._inductor.virtualized").V
    load, store, operate = kind.load, kind.store, common.CSEProxy._default
    expression: Any = importlib.import_module("sympy").Expr
    written: dict[Any, str] = {}

    def named(value: Any) -> str:
        """An operand; an index, which takes long to write out, once for all that are the same."""
        if not isinstance(value, expression):
            return str(value)
        found = written.get(value)
        if found is None:
            found = written[value] = str(value)
        return found

    def loaded(kernel: Any, name: str, index: Any) -> Any:
        if type(kernel) is not kind:  # a template, which reads its text again
            return load(kernel, name, index)
        dtype = virtualized.graph.get_dtype(name)
        wide = upcast(dtype)
        return _variable(kernel, kernel.loads, f"load({kernel.args.input(name)}, {named(index)})", wide)

    def stored(kernel: Any, name: str, index: Any, value: Any, mode: Any = None) -> None:
        if type(kernel) is not kind:
            store(kernel, name, index, value, mode)
            return
        kernel.atomic_add_found |= mode == "atomic_add"
        line = f"store({kernel.args.output(name)}, {named(index)}, {value}, {mode!r})"
        kernel.stores.writeline(common.DeferredLine(name, line))

    def operated(proxy: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kernel = virtualized.kernel
        if type(kernel) is not kind or name in _AS_IT_IS:
            return operate(proxy, name, args, kwargs)
        dtype = getattr(dtypes, name)(*args, **kwargs)
        text = f"{name}({', '.join(map(named, (*args, *kwargs.values())))})"
        return _variable(kernel, kernel.compute, text, dtype)

    @contextmanager
    def current(kernel: Any, node: Any) -> Iterator[None]:
        before, kernel.current_node, kernel.node_to_bounds = kernel.current_node, node, {}
        try:
            yield
        finally:
            kernel.current_node = before

    class Walk:
        """What is asked, while a body runs, which of its nodes does."""

        current_node: Any = None

    def called(block: Any) -> Any:
        """Run the body of a loop, without what `fx.Interpreter` keeps of each node for messages."""
        walk, modules = Walk(), block.body.submodules
        values: dict[Any, Any] = {}
        with virtualized.set_interpreter_handler(walk):
            for node in block.graph.nodes:
                walk.current_node, target = node, node.target
                args: Any = map_arg(node.args, values.__getitem__)
                kwargs: Any = map_arg(node.kwargs, values.__getitem__)
                match node.op:
                    case "placeholder":
                        values[node] = virtualized.get_ops_handler()
                    case "call_method":
                        values[node] = getattr(args[0], target)(*args[1:], **kwargs)
                    case "call_module":
                        values[node] = modules[target](*args, **kwargs)
                    case "call_function":
                        values[node] = target(*args, **kwargs)
                    case "get_attr":
                        values[node] = modules[target]
                    case "output":
                        return args[0]
        return None

    patches.set(kind, "load", loaded)
    patches.set(kind, "store", stored)
    patches.set(common.CSEProxy, "_default", operated)
    patches.set(common.Kernel, "set_current_node", current)
    patches.set(codegen.TritonScheduling, "codegen_comment", lambda *_: None)
    patches.set(importlib.import_module("torch._inductor.loop_body").LoopBodyBlock, "__call__", called)
    patches.set(importlib.import_module("torch._inductor.async_compile"), "_load_triton_kernel_from_source", _read)


def _variable(kernel: Any, lines: Any, text: str, dtype: Any) -> Any:
    return kernel.cse.generate(lines, text, dtype=dtype, shape=tuple(kernel.dense_size_list()))


class _Function:
    """What ``triton.jit`` would make of a function, whose text nobody compiles."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.fn, self.__name__ = function, function.__name__
        self.arg_names = list(inspect.signature(function).parameters)


def _jit(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    return _Function if function is None else _Function(function)


def _read(name: str, source: str) -> Any:
    """Run the source of a kernel, for what Inductor's heuristics make of it, without a file for it."""
    found: dict[str, Any] = {"__file__": f"{name}.py"}
    triton: Any = importlib.import_module("triton")
    jit, triton.jit = triton.jit, _jit
    try:
        exec(source, found)
    finally:
        triton.jit = jit
    return found[name]

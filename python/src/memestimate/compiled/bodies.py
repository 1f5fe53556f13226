"""The text of kernels, which nobody runs: what decides memory of it is kept, most of the rest is not written.

Of a kernel its arguments count, which of them it changes, and whether its text is another's, since each text is timed
once. So an operation is one line of its name and its operands. Inductor's own would write the addresses and masks of
each load and store, and look for operations that are there twice.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

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

    def loaded(kernel: Any, name: str, index: Any) -> Any:
        if type(kernel) is not kind:  # a template, which reads its text again
            return load(kernel, name, index)
        dtype = virtualized.graph.get_dtype(name)
        wide = upcast(dtype)
        return _variable(kernel, kernel.loads, f"load({kernel.args.input(name)}, {index})", wide)

    def stored(kernel: Any, name: str, index: Any, value: Any, mode: Any = None) -> None:
        if type(kernel) is not kind:
            store(kernel, name, index, value, mode)
            return
        kernel.atomic_add_found |= mode == "atomic_add"
        line = f"store({kernel.args.output(name)}, {index}, {value}, {mode!r})"
        kernel.stores.writeline(common.DeferredLine(name, line))

    def operated(proxy: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kernel = virtualized.kernel
        if type(kernel) is not kind or name in _AS_IT_IS:
            return operate(proxy, name, args, kwargs)
        dtype = getattr(dtypes, name)(*args, **kwargs)
        text = f"{name}({', '.join(map(str, (*args, *kwargs.values())))})"
        return _variable(kernel, kernel.compute, text, dtype, proxy._bound_variable(name, *args, **kwargs))

    patches.set(kind, "load", loaded)
    patches.set(kind, "store", stored)
    patches.set(common.CSEProxy, "_default", operated)
    patches.set(importlib.import_module("torch._inductor.async_compile"), "_load_triton_kernel_from_source", _read)


def _variable(kernel: Any, lines: Any, text: str, dtype: Any, bounds: Any = None) -> Any:
    known = {} if bounds is None else {"bounds": bounds}
    return kernel.cse.generate(lines, text, dtype=dtype, shape=tuple(kernel.dense_size_list()), **known)


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

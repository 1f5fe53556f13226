"""TorchScript: its functions are recorded operator by operator, for a fuser's kernels need a GPU.

One thing of the fuser is kept. Under autocast the executor casts what elementwise operators of a scripted function take
(torch/csrc/jit/passes/autocast.cpp), and such a cast gives its operand itself where that is float32 already. From the
run after the one that is profiled, operators with a symbolic gradient are a graph of their own, which is fused
(torch/csrc/jit/passes/tensorexpr_fuser.cpp names the cast among the operators that it takes). What the backward pass of
that graph needs are results of the fused kernel: a cast has memory of its own there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from ..core.session import Session

aten = torch.ops.aten

_PROFILED = 1  # runs of each function (getNumProfiledRuns, profiling_graph_executor_impl.cpp)


class TorchScript:
    """The scripted functions of the program."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._calls: Counter[tuple[str, bool]] = Counter()
        self._is_optimized = False  # the function that runs, if one does, was profiled before

    def _noting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(function: Any, *args: Any, **kwargs: Any) -> Any:
            text = f"TorchScript's {function.name} was recorded operator by operator; on a GPU some may be fused"
            self._session.note("script", text)
            owner = getattr(function, "owner", None)
            within = function.qualified_name if owner is None else owner._type().qualified_name()
            key = f"{within}.{function.name}", torch.is_autocast_enabled()
            self._calls[key] += 1
            before, self._is_optimized = self._is_optimized, self._calls[key] > _PROFILED
            try:
                return call(function, *args, **kwargs)
            finally:
                self._is_optimized = before

        return noting

    def _to_full_precision(self, session: Session, x: torch.Tensor, cuda_enabled: bool, cpu_enabled: bool) -> Any:
        # Within the graph that has a gradient of its own, no tensor has one of autograd's.
        fused = self._is_optimized and torch.is_grad_enabled() and not x.requires_grad
        if fused and cuda_enabled and x.dtype is torch.float32:
            return x.clone()
        return aten._autocast_to_full_precision.default.decompose(x, cuda_enabled, cpu_enabled)


def install(session: Session) -> None:
    """Record what scripted functions run."""
    torchscript = session.part(TorchScript)
    fuses_on_gpu = torch._C._jit_can_fuse_on_gpu()
    fuses = torch._C._jit_texpr_fuser_enabled()
    torch._C._jit_override_can_fuse_on_gpu(False)
    torch._C._jit_set_texpr_fuser_enabled(False)
    session.patches.later(lambda: torch._C._jit_override_can_fuse_on_gpu(fuses_on_gpu))
    session.patches.later(lambda: torch._C._jit_set_texpr_fuser_enabled(fuses))
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        session.patches.set(kind, "__call__", torchscript._noting(kind.__call__))
    if fuses and fuses_on_gpu and hasattr(aten, "_autocast_to_full_precision"):
        session.composites[aten._autocast_to_full_precision.default] = torchscript._to_full_precision

"""DeepSpeed's fused optimizers on the pretended GPU: kernels that update lists of tensors in place and take no memory.

DeepSpeed compiles them when an optimizer is made (op_builder/builder.py), for which it wants CUDA's compiler, and they
read tensors by their addresses. What the optimizers keep is made by their Python, which runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace

import torch

from ..core.session import Session
from ..pretend.imports import when_imported

_BUILDER = "deepspeed.ops.op_builder.builder"
# Of each extension the function: csrc/adam/multi_tensor_adam.cu, csrc/lion/multi_tensor_lion.cu. It is given a list of
# gradients, then lists of what is updated.
_KERNELS = {"fused_adam": "multi_tensor_adam", "fused_lion": "multi_tensor_lion"}

Kernel = Callable[..., None]


def install(session: Session) -> None:
    """Take the place of the extensions, when the program imports DeepSpeed."""
    when_imported(session.patches, _BUILDER, lambda module: _take_place(session, module))


def _take_place(session: Session, module: ModuleType) -> None:
    loaded = module.OpBuilder._loaded_ops
    before = dict(loaded)
    loaded.update((name, SimpleNamespace(**{kernel: _kernel(session, kernel)})) for name, kernel in _KERNELS.items())

    def give_back() -> None:
        for name in _KERNELS:
            loaded.pop(name, None)
        loaded.update((name, before[name]) for name in _KERNELS if name in before)

    session.patches.later(give_back)


def _kernel(session: Session, name: str) -> Kernel:
    def run(_chunk: int, _overflow: torch.Tensor, lists: Sequence[Sequence[torch.Tensor]], *_: object) -> None:
        given = [tensor for tensors in lists for tensor in tensors]
        session.launch(f"deepspeed::{name}", given, given[len(lists[0]) :])

    return run

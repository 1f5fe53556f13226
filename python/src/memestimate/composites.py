"""Operators made of others that are put together differently on a GPU than on fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from . import attention
from .patches import Patches

if TYPE_CHECKING:
    from .recorder import Recorder

aten = torch.ops.aten
Composite = Callable[..., Any]


def table(recorder: Recorder) -> dict[OpOverload, Composite]:
    """What runs in place of each operator's own C++ for tensors on the GPU."""

    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
        out, kernel = attention.attend(recorder, *args, **kwargs)
        recorder.note("sdpa", f"{kernel} attention for {str(args[0].dtype)[6:]} {list(args[0].shape)}")
        return out

    def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
        # Linear.cpp adds the bias in place, but not where anybody looks on (isTensorSubclassLike).
        with recorder.sums.in_place(bias):
            return aten.linear.default.decompose(x, weight, bias)

    def einsum(equation: str, operands: list[torch.Tensor], *, path: list[int] | None = None) -> Any:
        # torch.functional.einsum asks opt_einsum, where that is installed, in which order to contract.
        if len(operands) > 2 and path is None:
            order = "from left to right; where opt_einsum is installed PyTorch takes the cheapest order instead"
            recorder.note("einsum", f"the {len(operands)} operands of einsum {equation!r} were contracted {order}")
        return aten.einsum.default.decompose(equation, operands, path=path)

    return {
        aten.einsum.default: einsum,
        aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
        aten.linear.default: linear,
    }


def install(table: dict[OpOverload, Composite], patches: Patches) -> None:
    """Register the functions where autograd would take the operators apart."""
    library = torch.library.Library("aten", "IMPL")
    patches.later(library._destroy)
    for op, function in table.items():
        library.impl(op, function, "AutogradCUDA")

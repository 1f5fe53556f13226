"""Operators made of others that are put together differently on a GPU than on fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ..core.patches import Patches
from . import attention

if TYPE_CHECKING:
    from ..api.recorder import Recorder

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

    def one_hot(index: torch.Tensor, num_classes: int = -1) -> Any:
        # Onehot.cpp compares with all classes where anybody looks on, and scatters into zeros where nobody does.
        if index.numel() == 0 or index.dtype != torch.int64:
            return aten.one_hot.default.decompose(index, num_classes)
        classes = int(index.max().item()) + 1 if num_classes == -1 else num_classes
        return index.new_zeros([*index.shape, classes]).scatter_(-1, index.unsqueeze(-1), 1)

    def cumprod_backward(grad: torch.Tensor, x: torch.Tensor, dim: int, out: torch.Tensor) -> Any:
        # FunctionsManual.cpp looks for a zero, and has a formula for none; where anybody looks on it takes one for all.
        if x.dim() == 0 or x.shape[dim] == 1 or x.is_complex() or torch.is_grad_enabled():
            return aten.cumprod_backward.default.decompose(grad, x, dim, out)
        recorder.note("cumprod", "what cumprod multiplies was taken to have no zero")
        weighted, zeros = out * grad, x == 0
        zeros.any()
        flipped = weighted.flip(dim)
        summed = flipped.cumsum(dim)
        back = summed.flip(dim)
        del flipped, summed
        return back / x

    return {
        aten.cumprod_backward.default: cumprod_backward,
        aten.einsum.default: einsum,
        aten.one_hot.default: one_hot,
        aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
        aten.linear.default: linear,
    }


def install(table: dict[OpOverload, Composite], patches: Patches) -> None:
    """Register the functions where autograd would take the operators apart."""
    library = torch.library.Library("aten", "IMPL")
    patches.later(library._destroy)
    for op, function in table.items():
        library.impl(op, function, "AutogradCUDA")

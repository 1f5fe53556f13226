"""Operators made of others that are put together differently on a GPU than on fake tensors."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..core.handlers import Composite, Table
from ..core.session import Session
from . import attention
from .sums import Sums

aten = torch.ops.aten
composes: Table[Composite] = Table("composites")


@composes(aten.scaled_dot_product_attention.default)
def scaled_dot_product_attention(session: Session, *args: Any, **kwargs: Any) -> torch.Tensor:
    out, kernel = attention.attend(session, *args, **kwargs)
    session.note("sdpa", f"{kernel} attention for {str(args[0].dtype)[6:]} {list(args[0].shape)}")
    return out


@composes(aten.linear.default)
def linear(session: Session, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    # Linear.cpp adds the bias in place, but not where anybody looks on (isTensorSubclassLike).
    with session.part(Sums).in_place(bias):
        return aten.linear.default.decompose(x, weight, bias)


@composes(aten.einsum.default)
def einsum(session: Session, equation: str, operands: list[torch.Tensor], *, path: list[int] | None = None) -> Any:
    # torch.functional.einsum asks opt_einsum, where that is installed, in which order to contract.
    if len(operands) > 2 and path is None:
        order = "from left to right; where opt_einsum is installed PyTorch takes the cheapest order instead"
        session.note("einsum", f"the {len(operands)} operands of einsum {equation!r} were contracted {order}")
    return aten.einsum.default.decompose(equation, operands, path=path)


@composes(aten.one_hot.default)
def one_hot(session: Session, index: torch.Tensor, num_classes: int = -1) -> Any:
    # Onehot.cpp compares with all classes where anybody looks on, and scatters into zeros where nobody does.
    if index.numel() == 0 or index.dtype != torch.int64:
        return aten.one_hot.default.decompose(index, num_classes)
    classes = int(index.max().item()) + 1 if num_classes == -1 else num_classes
    return index.new_zeros([*index.shape, classes]).scatter_(-1, index.unsqueeze(-1), 1)


@composes(aten.cumprod_backward.default)
def cumprod_backward(session: Session, grad: torch.Tensor, x: torch.Tensor, dim: int, out: torch.Tensor) -> Any:
    # FunctionsManual.cpp looks for a zero, and has a formula for none; where anybody looks on it takes one for all.
    if x.dim() == 0 or x.shape[dim] == 1 or x.is_complex() or torch.is_grad_enabled():
        return aten.cumprod_backward.default.decompose(grad, x, dim, out)
    session.note("cumprod", "what cumprod multiplies was taken to have no zero")
    weighted, zeros = out * grad, x == 0
    zeros.any()
    flipped = weighted.flip(dim)
    summed = flipped.cumsum(dim)
    back = summed.flip(dim)
    del flipped, summed
    return back / x


def install(session: Session) -> None:
    """Register what runs in place of operators where autograd would take them apart."""
    library = torch.library.Library("aten", "IMPL")
    session.patches.later(library._destroy)
    for op, function in session.composites.items():
        library.impl(op, functools.partial(function, session), "AutogradCUDA")

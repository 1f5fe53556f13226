"""Matrix products whose result has another type than their factors: `torch.addmm(..., out_dtype=)`.

PyTorch has no rule for what they give. Their kernels are those of the same products without that (CUDABlas.cpp).
"""

from __future__ import annotations

import torch
from torch._ops import OpOverload

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session
from ..values.values import Values

aten = torch.ops.aten
handles: Table[Handler] = Table("products")
_NAMES = ("dtype", "dtype_out")  # since PyTorch 2.8
_OPS = [getattr(op, name) for op in (aten.addmm, aten.baddbmm) for name in _NAMES if hasattr(op, name)]


@handles(*_OPS)
def product(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> torch.Tensor:
    """Make a result of a type of its own."""
    _, left, right, dtype = args[:4]
    out: torch.Tensor | None = kwargs.get("out")
    if out is None:
        out = session.empty((*left.shape[:-1], right.shape[-1]), dtype)
    session.log(func, args, kwargs, out)
    session.part(Values).follow(func, args, kwargs, out)
    return out

"""Sparse tensors times or divided by dense ones: value by value, where each place has what the other says.

Sources: SparseTensorMath.cpp (intersection_binary_op_sparse_dense_out, div_out_sparse_zerodim), which CUDA runs, too
(mul_out_sparse_cuda of SparseCUDATensorMath.cu).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ...core.handlers import Arguments, Handler, Keywords, Table
from ...core.held import held, hold, is_coalesced
from ...core.session import Session
from . import coo

aten = torch.ops.aten
handles: Table[Handler] = Table("scaled")


def like(session: Session, whole: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Another tensor for the same places."""
    out = coo.made(session, list(whole.shape), indices, values, is_coalesced(whole))
    hold(out, (values, indices), whole)
    return out


@handles(aten.mul.Tensor, before="sums")
@handles(aten.mul_.Tensor)
def multiply(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    whole, dense = args if _is_sparse(args[0]) else args[::-1]
    if not _is_sparse(whole):
        return NotImplemented
    if not _goes_into(dense, whole):
        raise RuntimeError(f"{func} of a sparse tensor cannot be recorded: by dense ones that it holds can")
    with session.capture:
        values, indices = held(whole)
        if isinstance(dense, torch.Tensor) and dense.dim() > whole.dense_dim():
            taken = [indices[i] for i in range(whole.dim() - dense.dim(), whole.sparse_dim())]
            kept = whole.shape[whole.dim() - dense.dim() :]
            dense = dense.expand(kept)[tuple(taken)]
        indices = indices.clone()
        values = dense * values
    if func is not aten.mul_.Tensor:
        return like(session, whole, values, indices)
    hold(whole, (values, indices), whole)
    return whole


@handles(aten.div.Tensor, aten.div_.Tensor)
def divide(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    whole, number = args
    if not _is_sparse(whole):
        return NotImplemented
    values, indices = held(whole)
    with session.capture:
        if func is aten.div_.Tensor:
            values.div_(number)
            return whole
        indices = indices.clone()
        values = values / number
    return like(session, whole, values, indices)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.layout is torch.sparse_coo


def _goes_into(dense: Any, whole: torch.Tensor) -> bool:
    """Whether a number or a dense tensor is spread over a sparse one, which gets no more values."""
    if not isinstance(dense, torch.Tensor):
        return True
    if dense.layout is not torch.strided:
        return False
    return dense.dim() <= whole.dim() and torch.broadcast_shapes(dense.shape, whole.shape) == whole.shape

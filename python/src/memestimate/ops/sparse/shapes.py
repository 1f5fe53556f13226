"""Sparse tensors on the pretended GPU in other shapes, types and layouts, and products of batches of them.

Sources: TensorShape.cpp (unsqueeze_sparse, select_sparse, sparse_transpose_, permute_sparse_coo, cat_sparse_impl,
stack), TensorConversions.cpp (sparse_to_dense, dense_to_sparse), SparseTensor.cpp (copy_into_sparse),
SparseUnaryOps.cpp (coalesced_unary_ufunc), SparseTensorMath.cpp (_sparse_sum) and SparseCUDATensorMath.cu
(bmm_out_sparse_cuda).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ...core.handlers import Arguments, Handler, Keywords, Table
from ...core.held import held, is_coalesced, tell_distinct, told_distinct
from ...core.session import Session
from ...values.values import Values
from . import coo

aten = torch.ops.aten
handles: Table[Handler] = Table("shapes")

# Functions of each value that leave zero zero.
_EACH = (
    *("abs", "asin", "asinh", "atan", "atanh", "ceil", "erf", "expm1", "floor", "log1p", "neg", "relu", "round", "sgn"),
    *("sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)


def _rule(
    *ops: OpOverload, before: str = "", dense: bool = False, of_values: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a handler of a function of an operator's own arguments; one is sparse unless `dense` ones are taken.

    With `of_values` the CPU's operator gives real values.
    """

    def add(rule: Callable[..., Any]) -> Callable[..., Any]:
        def handler(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
            given = args[0] if isinstance(args[0], (list, tuple)) else args[:2]
            if not dense and not any(map(_is_sparse, given)):
                return NotImplemented
            with session.capture:
                out = rule(session, *args, **kwargs)
            real = session.part(Values).real
            if of_values and real is not None:
                real.fill((out,), lambda: (func(*map(real.of, args), **kwargs),))
            return out

        handles(*ops, before=before)(handler)
        return rule

    return add


@_rule(aten.unsqueeze.default)
def unsqueeze(session: Session, whole: torch.Tensor, dim: int) -> torch.Tensor:
    values, indices = held(whole)
    dim %= whole.dim() + 1
    shape = [*whole.shape[:dim], 1, *whole.shape[dim:]]
    if dim > whole.sparse_dim():
        return _made(session, shape, indices, values.unsqueeze(dim - whole.sparse_dim() + 1), whole)
    zeros = torch.zeros((1, indices.shape[1]), dtype=torch.int64, device="cuda")
    return _made(session, shape, torch.cat((indices[:dim], zeros, indices[dim:])), values, whole)


@_rule(aten.select.int)
def select(session: Session, whole: torch.Tensor, dim: int, index: int) -> torch.Tensor:
    values, indices = held(whole)
    dim %= whole.dim()
    shape = [*whole.shape[:dim], *whole.shape[dim + 1 :]]
    if dim >= whole.sparse_dim():
        return _made(session, shape, indices, values.select(dim - whole.sparse_dim() + 1, index), whole)
    index %= whole.shape[dim]
    there = indices[dim] == index
    if whole.shape[dim] == 1:
        session.part(Values).set(there, torch.ones(there.shape, dtype=torch.bool, device="cpu"))
    places = there.nonzero().view(-1)
    del there
    values = values.index_select(0, places)
    if whole.sparse_dim() == 1:
        return values[0] if values.shape[0] == 1 else values.sum(0, dtype=values.dtype)
    rows = (torch.arange(0, whole.sparse_dim(), device="cuda") != dim).nonzero().view(-1)
    out = _made(session, shape, indices.index_select(1, places).index_select(0, rows), values, None)
    if is_coalesced(whole) or whole.shape[dim] == 1:
        tell_distinct(out, values.shape[0] if is_coalesced(whole) else told_distinct(whole))
    return out


@_rule(aten.transpose.int)
def transpose(session: Session, whole: torch.Tensor, dim0: int, dim1: int) -> torch.Tensor:
    dim0, dim1 = dim0 % whole.dim(), dim1 % whole.dim()
    if dim0 == dim1:
        return whole.clone()
    if max(dim0, dim1) >= whole.sparse_dim():
        raise RuntimeError("a sparse tensor is transposed in its sparse dimensions alone")
    values, indices = (part.clone() for part in held(whole))
    spare = torch.zeros_like(indices[dim0])
    spare.copy_(indices[dim0])
    indices[dim0].copy_(indices[dim1])
    indices[dim1].copy_(spare)
    shape = list(whole.shape)
    shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
    return _made(session, shape, indices, values, whole)


@_rule(aten.permute.default)
def permute(session: Session, whole: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    values, indices = held(whole)
    count = whole.sparse_dim()
    dims = [dim % whole.dim() for dim in dims]
    if sorted(dims[:count]) != list(range(count)):
        raise RuntimeError("a sparse tensor is permuted in its sparse and its dense dimensions, not between both")
    if dims[:count] != list(range(count)):
        indices = indices.index_select(0, torch.tensor(dims[:count]).cuda())
    if dims[count:] != list(range(count, whole.dim())):
        values = values.permute([0, *(dim - count + 1 for dim in dims[count:])])
    coalesced = is_coalesced(whole) and dims[0] == 0
    return _made(session, [whole.shape[dim] for dim in dims], indices, values, whole, coalesced)


@_rule(aten.cat.default)
def _cat(session: Session, parts: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    first = parts[0]
    dim %= first.dim()
    if dim >= first.sparse_dim():
        raise RuntimeError("sparse tensors are joined along a sparse dimension when they are recorded")
    pairs = [held(part) for part in parts]
    indices, values = torch.cat([i for _, i in pairs], 1), torch.cat([v for v, _ in pairs])
    begin = moved = 0
    for part, (some, _) in zip(parts, pairs, strict=True):
        if moved:
            indices[dim, begin : begin + some.shape[0]] += moved
        begin, moved = begin + some.shape[0], moved + part.shape[dim]
    out = _made(session, [*first.shape[:dim], moved, *first.shape[dim + 1 :]], indices, values, None)
    places = [told_distinct(part) for part in parts]
    if None not in places:  # none of one part is in another
        tell_distinct(out, sum(count for count in places if count is not None))
    return out


@_rule(aten.stack.default)
def stack(session: Session, parts: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    joined: torch.Tensor = _cat(session, [unsqueeze(session, part, dim) for part in parts], dim % (parts[0].dim() + 1))
    return joined


@_rule(aten._to_dense.default)
def _to_dense(session: Session, whole: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    dense = torch.zeros(whole.shape, dtype=whole.dtype, device="cuda").add_(whole)
    return dense if dtype is None else dense.to(dtype)


@_rule(aten._to_sparse.default, aten._to_sparse.sparse_dim, dense=True)
def _to_sparse(session: Session, dense: torch.Tensor, sparse_dim: int | None = None, **_: Any) -> Any:
    if dense.layout is not torch.strided or sparse_dim not in (None, dense.dim()):
        return NotImplemented
    indices = dense.nonzero().t().clone()
    return _made(session, list(dense.shape), indices, dense[tuple(indices)], None, True)


@_rule(aten._to_copy.default, before="copies")
def to_copy(session: Session, whole: torch.Tensor, **kwargs: Any) -> Any:
    values, indices = held(whole)
    dtype, device = kwargs.get("dtype") or values.dtype, kwargs.get("device")
    if device is not None and torch.device(device).type != "cuda":
        known = session.part(Values).get(indices)
        places = torch.zeros(indices.shape, dtype=torch.int64, device="cpu") if known is None else known.clone()
        ordered = is_coalesced(whole)
        return aten._sparse_coo_tensor_unsafe(places, values.to(device, dtype), whole.shape, is_coalesced=ordered)
    values = values.to(dtype, copy=True)
    return _made(session, list(whole.shape), indices.clone(), values, whole, is_coalesced(whole))


@_rule(aten.zeros_like.default)
def _zeros_like(session: Session, whole: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    values, indices = held(whole)
    return _made(session, list(whole.shape), indices[:, :0].clone(), values[:0].to(dtype or values.dtype), None, True)


@_rule(aten.add.Tensor, before="sums")
def _add(session: Session, dense: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> Any:
    if dense.layout is not torch.strided or not isinstance(other, torch.Tensor):
        return NotImplemented
    return torch.empty_like(dense).copy_(dense).add_(other, alpha=alpha)


@_rule(aten._sparse_sum.dim, aten.sum.dim_IntList)
def _sum(
    session: Session,
    whole: torch.Tensor,
    dim: Sequence[int] = (),
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    values, indices = held(whole)
    values = values if dtype is None else values.to(dtype)
    count = whole.sparse_dim()
    gone = {d % whole.dim() for d in dim} or set(range(whole.dim()))
    dense = [d - count + 1 for d in sorted(gone) if d >= count]
    values = values.sum(dense) if dense else values.clone(memory_format=torch.contiguous_format)
    kept = [d for d in range(count) if d not in gone]
    if not kept:
        return values.sum(0)
    if len(kept) < count:
        places = torch.empty((len(kept), indices.shape[1]), dtype=torch.int64, device="cuda")
        for row, d in enumerate(kept):
            places[row].copy_(indices[d])
    else:
        places = indices.clone()
    shape = [n for d, n in enumerate(whole.shape) if d not in gone]
    out = _made(session, shape, places, values, None).coalesce()
    for d in sorted(gone) if keepdim else ():
        out = unsqueeze(session, out, d)
    return out


def _each(session: Session, whole: torch.Tensor, *rest: Any, func: OpOverload) -> torch.Tensor:
    ordered = whole.coalesce()
    values, indices = held(ordered)
    return _made(session, list(whole.shape), indices.clone(), func(values, *rest), ordered, True)


@_rule(aten.bmm.default, of_values=True)
def products(session: Session, whole: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """A product for each matrix of a batch, of which all share the largest buffer of cuSPARSE."""
    if dense.layout is not torch.strided:
        raise RuntimeError("products of batches of two sparse tensors cannot be recorded")
    out = torch.empty((whole.shape[0], whole.shape[1], dense.shape[2]), dtype=dense.dtype, device="cuda")
    dense = dense.contiguous()
    values, _ = held(whole.coalesce())
    coo.cusparse_buffer(session, values[: -(-values.shape[0] // max(whole.shape[0], 1))])
    return out


def _made(
    session: Session,
    shape: list[int],
    indices: torch.Tensor,
    values: torch.Tensor,
    like: torch.Tensor | None,
    coalesced: bool = False,
) -> torch.Tensor:
    out = coo.made(session, shape, indices, values, coalesced)
    if like is not None:
        tell_distinct(out, told_distinct(like))
    return out


for _op in [*(getattr(aten, _name).default for _name in _EACH), aten.pow.Tensor_Scalar]:
    _rule(_op)(functools.partial(_each, func=_op))


def _is_sparse(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.layout is torch.sparse_coo

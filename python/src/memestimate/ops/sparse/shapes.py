"""Sparse tensors on the pretended GPU in other shapes, types and layouts, and products of batches of them.

Sources: TensorShape.cpp (unsqueeze_sparse, select_sparse, sparse_transpose_, permute_sparse_coo, cat_sparse_impl,
stack), TensorConversions.cpp (sparse_to_dense, dense_to_sparse), SparseTensor.cpp (copy_into_sparse),
SparseUnaryOps.cpp (coalesced_unary_ufunc), SparseTensorMath.cpp (_sparse_sum) and SparseCUDATensorMath.cu
(bmm_out_sparse_cuda).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ...core.held import held, is_coalesced, tell_distinct, told_distinct
from . import coo, scaled

if TYPE_CHECKING:
    from ...api.recorder import Recorder
    from ...core.dispatch import Handler

aten = torch.ops.aten

# Functions of each value that leave zero zero.
_EACH = (
    *("abs", "asin", "asinh", "atan", "atanh", "ceil", "erf", "expm1", "floor", "log1p", "neg", "relu", "round", "sgn"),
    *("sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
_Rule = Callable[..., Any]


class _Shapes:
    """Rules, each with the arguments of its operator; NotImplemented where nothing is sparse."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def unsqueeze(self, whole: torch.Tensor, dim: int) -> torch.Tensor:
        values, indices = held(whole)
        dim %= whole.dim() + 1
        shape = [*whole.shape[:dim], 1, *whole.shape[dim:]]
        if dim > whole.sparse_dim():
            return self._made(shape, indices, values.unsqueeze(dim - whole.sparse_dim() + 1), whole)
        zeros = torch.zeros((1, indices.shape[1]), dtype=torch.int64, device="cuda")
        return self._made(shape, torch.cat((indices[:dim], zeros, indices[dim:])), values, whole)

    def select(self, whole: torch.Tensor, dim: int, index: int) -> torch.Tensor:
        values, indices = held(whole)
        dim %= whole.dim()
        shape = [*whole.shape[:dim], *whole.shape[dim + 1 :]]
        if dim >= whole.sparse_dim():
            return self._made(shape, indices, values.select(dim - whole.sparse_dim() + 1, index), whole)
        index %= whole.shape[dim]
        there = indices[dim] == index
        if whole.shape[dim] == 1:
            self._recorder.values.set(there, torch.ones(there.shape, dtype=torch.bool, device="cpu"))
        places = there.nonzero().view(-1)
        del there
        values = values.index_select(0, places)
        if whole.sparse_dim() == 1:
            return values[0] if values.shape[0] == 1 else values.sum(0, dtype=values.dtype)
        rows = (torch.arange(0, whole.sparse_dim(), device="cuda") != dim).nonzero().view(-1)
        out = self._made(shape, indices.index_select(1, places).index_select(0, rows), values, None)
        if is_coalesced(whole) or whole.shape[dim] == 1:
            tell_distinct(out, values.shape[0] if is_coalesced(whole) else told_distinct(whole))
        return out

    def transpose(self, whole: torch.Tensor, dim0: int, dim1: int) -> torch.Tensor:
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
        return self._made(shape, indices, values, whole)

    def permute(self, whole: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
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
        return self._made([whole.shape[dim] for dim in dims], indices, values, whole, coalesced)

    def cat(self, parts: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
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
        out = self._made([*first.shape[:dim], moved, *first.shape[dim + 1 :]], indices, values, None)
        places = [told_distinct(part) for part in parts]
        if None not in places:  # none of one part is in another
            tell_distinct(out, sum(count for count in places if count is not None))
        return out

    def stack(self, parts: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
        return self.cat([self.unsqueeze(part, dim) for part in parts], dim % (parts[0].dim() + 1))

    def to_dense(self, whole: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
        dense = torch.zeros(whole.shape, dtype=whole.dtype, device="cuda").add_(whole)
        return dense if dtype is None else dense.to(dtype)

    def to_sparse(self, dense: torch.Tensor, sparse_dim: int | None = None, **_: Any) -> Any:
        if dense.layout is not torch.strided or sparse_dim not in (None, dense.dim()):
            return NotImplemented
        indices = dense.nonzero().t().clone()
        return self._made(list(dense.shape), indices, dense[tuple(indices)], None, True)

    def to_copy(self, whole: torch.Tensor, **kwargs: Any) -> Any:
        values, indices = held(whole)
        dtype, device = kwargs.get("dtype") or values.dtype, kwargs.get("device")
        if device is not None and torch.device(device).type != "cuda":
            known = self._recorder.values.get(indices)
            places = torch.zeros(indices.shape, dtype=torch.int64, device="cpu") if known is None else known.clone()
            ordered = is_coalesced(whole)
            return aten._sparse_coo_tensor_unsafe(places, values.to(device, dtype), whole.shape, is_coalesced=ordered)
        values = values.to(dtype, copy=True)
        return self._made(list(whole.shape), indices.clone(), values, whole, is_coalesced(whole))

    def zeros_like(self, whole: torch.Tensor, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
        values, indices = held(whole)
        return self._made(list(whole.shape), indices[:, :0].clone(), values[:0].to(dtype or values.dtype), None, True)

    def add(self, dense: torch.Tensor, other: torch.Tensor, *, alpha: float = 1) -> Any:
        if dense.layout is not torch.strided or not isinstance(other, torch.Tensor):
            return NotImplemented
        return torch.empty_like(dense).copy_(dense).add_(other, alpha=alpha)

    def sum(
        self, whole: torch.Tensor, dim: Sequence[int] = (), keepdim: bool = False, *, dtype: torch.dtype | None = None
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
        out = self._made(shape, places, values, None).coalesce()
        for d in sorted(gone) if keepdim else ():
            out = self.unsqueeze(out, d)
        return out

    def each(self, func: OpOverload, whole: torch.Tensor, *rest: Any) -> torch.Tensor:
        ordered = whole.coalesce()
        values, indices = held(ordered)
        return self._made(list(whole.shape), indices.clone(), func(values, *rest), ordered, True)

    def products(self, whole: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        """A product for each matrix of a batch, of which all share the largest buffer of cuSPARSE."""
        if dense.layout is not torch.strided:
            raise RuntimeError("products of batches of two sparse tensors cannot be recorded")
        out = torch.empty((whole.shape[0], whole.shape[1], dense.shape[2]), dtype=dense.dtype, device="cuda")
        dense = dense.contiguous()
        values, _ = held(whole.coalesce())
        coo.cusparse_buffer(self._recorder, values[: -(-values.shape[0] // max(whole.shape[0], 1))])
        return out

    def _made(
        self,
        shape: list[int],
        indices: torch.Tensor,
        values: torch.Tensor,
        like: torch.Tensor | None,
        coalesced: bool = False,
    ) -> torch.Tensor:
        out = coo.made(self._recorder, shape, indices, values, coalesced)
        if like is not None:
            tell_distinct(out, told_distinct(like))
        return out


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Sparse tensors in other shapes, or scaled."""
    shapes = _Shapes(recorder)

    def ruled(rule: _Rule, *, with_func: bool = False, of_values: bool = False) -> Handler:
        def handler(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            given = args[0] if isinstance(args[0], (list, tuple)) else args[:2]
            if not dense_too and not any(map(_is_sparse, given)):
                return NotImplemented
            with recorder.capture:
                out = rule(func, *args, **kwargs) if with_func else rule(*args, **kwargs)
            if of_values and recorder.values.real is not None:
                real = recorder.values.real
                real.fill((out,), lambda: (func(*map(real.of, args), **kwargs),))
            return out

        dense_too = rule == shapes.to_sparse
        return handler

    rules: dict[OpOverload, _Rule] = {
        aten.unsqueeze.default: shapes.unsqueeze,
        aten.select.int: shapes.select,
        aten.transpose.int: shapes.transpose,
        aten.permute.default: shapes.permute,
        aten.cat.default: shapes.cat,
        aten.stack.default: shapes.stack,
        aten._to_dense.default: shapes.to_dense,
        aten._to_sparse.default: shapes.to_sparse,
        aten._to_sparse.sparse_dim: shapes.to_sparse,
        aten._to_copy.default: shapes.to_copy,
        aten.zeros_like.default: shapes.zeros_like,
        aten.add.Tensor: shapes.add,
        aten._sparse_sum.dim: shapes.sum,
        aten.sum.dim_IntList: shapes.sum,
    }
    found = {op: ruled(rule) for op, rule in rules.items()}
    found[aten.bmm.default] = ruled(shapes.products, of_values=True)
    each = [getattr(aten, name).default for name in _EACH] + [aten.pow.Tensor_Scalar]
    found |= dict.fromkeys(each, ruled(shapes.each, with_func=True))
    return found | scaled.handlers(recorder)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, FakeTensor) and value.layout is torch.sparse_coo

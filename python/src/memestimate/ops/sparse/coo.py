"""Sparse tensors on the pretended GPU: fake ones forget how many values they have.

Products of a sparse matrix [m, k] with a dense one are put together of tensors as the CUDA kernels do:
SparseCUDATensorMath.cu (s_addmm_out_sparse_dense_cuda, s_addmm_out_csr_sparse_dense_cuda_worker),
SparseCUDATensor.cu (_coalesce_sparse_cuda), SparseTensorMath.cpp (_sparse_mm, mv_sparse) and
TensorShape.cpp (sparse_transpose_).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ...core.handlers import Arguments, Handler, Keywords, Table
from ...core.held import COALESCED, DISTINCT, HELD, held, hold, is_coalesced, tell_distinct
from ...core.session import Session
from ...values.decisions import Decisions
from ...values.unknown import Unknown
from ...values.values import Values

aten = torch.ops.aten
handles: Table[Handler] = Table("coo")
_MAKE = aten._sparse_coo_tensor_with_dims_and_tensors.default


def made(
    session: Session, shape: list[int], indices: torch.Tensor, values: torch.Tensor, coalesced: bool
) -> torch.Tensor:
    """A sparse tensor of indices and values."""
    options = {"dtype": values.dtype, "layout": torch.sparse_coo, "device": values.device, "is_coalesced": coalesced}
    dims = indices.shape[0], values.dim() - 1
    out = session.fake.__torch_dispatch__(_MAKE, (FakeTensor,), (*dims, shape, indices, values), options)
    assert isinstance(out, torch.Tensor)
    out.__dict__.update({HELD: (values, indices), COALESCED: coalesced or indices.shape[1] < 2})
    return out


@handles(_MAKE)
def build(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    out: Any = session.fake.__torch_dispatch__(_MAKE, (FakeTensor,), args, kwargs)
    out.__dict__[HELD] = args[4], args[3]
    out.__dict__[COALESCED] = bool(kwargs.get("is_coalesced")) or args[3].shape[1] < 2
    return out


@handles(aten._values.default)
def values(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    return held(args[0])[0]


@handles(aten._indices.default)
def indices(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    return held(args[0])[1]


@handles(aten.detach.default, aten.clone.default)
def same(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Another tensor of the same parts."""
    whole = args[0]
    if whole.layout is not torch.sparse_coo or not isinstance(whole, FakeTensor):
        return NotImplemented
    parts = held(whole)
    if func is aten.clone.default:
        # AccumulateGrad keeps a sparse gradient of dense parts as it comes; here it copies one because Python
        # refers to it (torch/csrc/autograd/functions/accumulate_grad.h).
        node = torch._C._current_autograd_node() if session.phases.backward_depth else None
        kept = node is not None and node.name().endswith("AccumulateGrad")
        if not kept or not all(part.is_contiguous() for part in parts):
            with session.capture:
                parts = tuple(part.clone(memory_format=torch.contiguous_format) for part in parts)
    out = made(session, list(whole.shape), parts[1], parts[0], is_coalesced(whole))
    hold(out, parts, whole)
    return out


@handles(aten._embedding_bag_backward.default)
def bags(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """The gradient of bags of embeddings, which is put together from other operators (EmbeddingBag.cpp)."""
    grad, indices, offsets, bag_of, sizes, _, count, scale, mode, is_sparse, weights, *padding = args
    if not is_sparse or kwargs:
        return NotImplemented
    with session.capture:
        return aten._embedding_bag_sparse_backward(
            grad, indices, offsets, bag_of, sizes, count, scale, mode, weights, *padding
        )


@handles(aten.sparse_mask.default)
def mask(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """A dense tensor's values where a sparse one has some: its ones times what is gathered (SparseTensor.cpp)."""
    dense, like = args
    if dense.layout is not torch.strided or like.layout is not torch.sparse_coo or not isinstance(like, FakeTensor):
        return NotImplemented
    values, indices = held(like)
    with session.capture:
        ones = torch.ones((1,), dtype=values.dtype, device="cuda").expand(values.shape)
        gathered = dense[tuple(indices.unbind())]
        indices = indices.clone()
        values = ones * gathered
        del gathered
    return made(session, list(like.shape), indices, values, is_coalesced(like))


@handles(aten.is_coalesced.default)
def asked(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    return is_coalesced(args[0]) if isinstance(args[0], FakeTensor) else NotImplemented


@handles(aten._coalesced_.default)
def told(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    args[0].__dict__[COALESCED] = args[1]
    return args[0]


@handles(aten.add_.Tensor)
def add(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """A sparse tensor added to a dense one: row by row where places come twice (add_out_dense_sparse_cuda)."""
    dense, other = args[:2]
    if not isinstance(other, FakeTensor) or other.layout is not torch.sparse_coo:
        return NotImplemented
    values, indices = held(other)
    if dense.layout is torch.sparse_coo:  # as gradients of several backward passes are (add_out_sparse_cuda)
        with session.capture:
            more = values if kwargs.get("alpha", 1) == 1 else values.mul(kwargs["alpha"])
            indices, more = torch.cat((held(dense)[1], indices), 1), torch.cat((held(dense)[0], more))
        dense.__dict__.pop(DISTINCT, None)
        dense.__dict__.update({HELD: (more, indices), COALESCED: False})
        return dense
    if dense.layout is not torch.strided:
        return NotImplemented
    with session.capture:
        if is_coalesced(other):
            values.contiguous()
        else:
            places = indices[0] if indices.shape[0] == 1 else _keys(indices)
            if kwargs.get("alpha", 1) != 1:
                values = values.contiguous().mul(kwargs["alpha"])
            first = math.prod(dense.shape[: indices.shape[0]])
            dense.view(first, -1).index_add_(0, places, values.reshape(indices.shape[1], -1))
    if is_coalesced(other):
        known = session.part(Values)
        real, known.real = known.real, None  # which has no operator of these arguments
        session.log(func, (dense, values, indices), {}, dense)
        known.real = real
        if real is not None:
            real.of(dense).add_(real.of(other), alpha=kwargs.get("alpha", 1))
    return dense


@handles(aten.isnan.default)
def not_numbers(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """What autograd asks of gradients where it looks for anomalies (SparseUnaryOps.cpp, coalesced_unary_ufunc)."""
    if args[0].layout is not torch.sparse_coo:
        return NotImplemented
    with session.capture:
        whole = args[0].coalesce()
        found = held(whole)[0].isnan()
        return made(session, list(whole.shape), held(whole)[1].clone(), found, coalesced=True)


@handles(aten.any.default)
def is_any(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Whether a value is set (SparseTensorMath.cpp, any_sparse)."""
    if args[0].layout is not torch.sparse_coo:
        return NotImplemented
    with session.capture:
        return held(args[0])[0].any()


@handles(aten._nnz.default)
def count(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """How many values it has: fake tensors that were copied say none."""
    return held(args[0])[0].shape[0] if args[0].layout is torch.sparse_coo else NotImplemented


def copied(session: Session, source: torch.Tensor, func: OpOverload, kwargs: dict[str, Any]) -> torch.Tensor:
    """A sparse tensor that comes from the host: its indices and its values are copied."""
    parts = []
    for part, dtype in zip(held(source), (kwargs.get("dtype"), None), strict=True):
        parts.append(session.pretend(part, dtype=dtype))
        session.log(func, (part,), {"device": kwargs["device"]}, parts[-1])
        if not session.part(Unknown).has(part):
            session.part(Values).copied(parts[-1], part)
    values, indices = parts
    out = made(session, list(source.shape), indices, values, source.is_coalesced())
    out.__dict__[DISTINCT] = source.coalesce()._nnz()
    return out


def sum_of(session: Session, a: torch.Tensor, b: torch.Tensor) -> Any:
    """The sum of two sparse tensors, one's values after the other's (add_out_sparse_cuda); NotImplemented of others.

    Gradients that meet are added like that, however many own them (torch/csrc/autograd/input_buffer.cpp).
    """
    sparse = [t for t in (a, b) if isinstance(t, FakeTensor) and t.layout is torch.sparse_coo]
    if len(sparse) < 2 or a.shape != b.shape or a.dtype != b.dtype or a.sparse_dim() != b.sparse_dim():
        return NotImplemented
    (values, indices), (more, places) = held(a), held(b)
    with session.capture:
        indices, values = torch.cat((indices, places), 1), torch.cat((values, more))
    return made(session, list(a.shape), indices, values, False)


def cusparse_buffer(session: Session, values: torch.Tensor) -> None:
    """What cuSPARSE takes for the time of a product; `values` are those of the sparse matrix."""
    # It has no published size: 32 bits for each 256 values fit two models on an H200 (CUDA 13.0).
    session.note("sparse", "cuSPARSE's buffer is guessed: 4 bytes for each 256 values of a sparse matrix")
    buffer = torch.empty((-(-values.shape[0] // 256),), dtype=torch.int32, device="cuda")
    del buffer


def transposed(session: Session, sparse: torch.Tensor) -> torch.Tensor:
    """A copy with the two rows of its indices exchanged, and in no order therefore."""
    values, indices = (part.clone() for part in held(sparse))
    spare = torch.zeros_like(indices[0])
    spare.copy_(indices[0])
    indices[0].copy_(indices[1])
    indices[1].copy_(spare)
    out = made(session, [sparse.shape[1], sparse.shape[0]], indices, values, False)
    tell_distinct(out, distinct(session, sparse))
    return out


def distinct(session: Session, sparse: torch.Tensor) -> int:
    """For how many places a tensor has values, which decides its size when coalesced."""
    count: int | None = sparse.__dict__.get(DISTINCT)
    if count is None:
        count = held(sparse)[0].shape[0]
        if not is_coalesced(sparse):
            count = _counted(session, sparse, count)
    return count


def coalesced(session: Session, sparse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and indices in order: a merge sort by key, whose buffers hold keys and places once more."""
    values, indices = held(sparse)
    if is_coalesced(sparse):
        return values, indices
    count = distinct(session, sparse)
    keys = indices[0].clone() if indices.shape[0] == 1 else _keys(indices)
    places, offsets = torch.empty_like(keys), torch.empty_like(keys)
    buffers = [torch.empty_like(keys), torch.empty_like(keys)]
    del buffers
    values = torch.empty((count, *values.shape[1:]), dtype=values.dtype, device="cuda")
    if indices.shape[0] == 1:
        indices = keys[:count].unsqueeze(0)
    else:
        indices = torch.empty((indices.shape[0], count), dtype=torch.int64, device="cuda")
    del keys, places, offsets
    return values, indices


def product(
    session: Session, start: torch.Tensor, sparse: torch.Tensor, dense: torch.Tensor, beta: float
) -> torch.Tensor:
    rows, columns = sparse.shape[0], dense.shape[1]
    out = torch.empty((rows, columns), dtype=start.dtype, device="cuda")
    values, indices = coalesced(session, sparse)
    compressed = torch.empty((rows + 1,), dtype=torch.int32, device="cuda")
    narrow = torch.empty_like(indices[0], dtype=torch.int32)
    narrow.copy_(indices[0])
    del narrow
    places = torch.empty_like(indices[1], dtype=torch.int32)
    places.copy_(indices[1])
    _ = out.zero_() if beta == 0 else out.copy_(start)
    by_columns = out.stride() == (1, rows)
    result = out if by_columns else out.t().clone(memory_format=torch.contiguous_format).t()
    if not dense.is_contiguous() and not dense.t().is_contiguous():
        dense = dense.contiguous()
    cusparse_buffer(session, values)
    if not by_columns:
        out.copy_(result)
    del compressed, places
    return out


@handles(aten._coalesce.default)
def in_order(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    whole = args[0]
    if not isinstance(whole, FakeTensor) or whole.layout is not torch.sparse_coo:
        return NotImplemented
    with session.capture:
        values, indices = coalesced(session, whole)
    real = session.part(Values).real
    if real is not None:
        ordered = real.of(whole).coalesce()
        real.fill((values, indices), lambda: (ordered._values(), ordered._indices()))
    return made(session, list(whole.shape), indices, values, True)


def _with_values(handler: Handler) -> Handler:
    """Compute real values beside, by the CPU's own operator."""

    @functools.wraps(handler)
    def answer(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
        out, real = handler(session, func, args, kwargs), session.part(Values).real
        if real is not None and out is not NotImplemented:
            given = [real.of(a) if isinstance(a, torch.Tensor) else a for a in args]
            real.fill((out,), lambda: (func(*given, **kwargs),))
        return out

    return answer


@handles(aten.mm.default)
@_with_values
def multiply(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    a, b = args
    if a.layout is torch.strided and b.layout is torch.strided:
        return NotImplemented
    return _multiplied(session, a, b)


def _multiplied(session: Session, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    _need(a, b)
    with session.capture:
        if b.layout is torch.strided:
            return product(session, torch.zeros((a.shape[0], b.shape[1]), dtype=b.dtype, device="cuda"), a, b, 0)
        start = torch.zeros((a.shape[0], b.shape[1]), dtype=a.dtype, device="cuda")
        return product(session, start.t(), transposed(session, b), a.t(), 0).t()


@handles(aten.addmm.default, aten._sparse_addmm.default)
@_with_values
def add_product(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    start, a, b = args[:3]
    if a.layout is torch.strided and b.layout is torch.strided:
        return NotImplemented
    _need(a, b)
    if b.layout is not torch.strided:
        raise RuntimeError(f"{func} of a dense and a sparse matrix: PyTorch has a kernel for the reverse only")
    beta = kwargs["beta"] if "beta" in kwargs else args[3] if len(args) > 3 else 1
    with session.capture:
        return product(session, start.expand(a.shape[0], b.shape[1]), a, b, beta)


@handles(aten.mv.default)
@_with_values
def vector(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    if args[0].layout is torch.strided:
        return NotImplemented
    return _multiplied(session, args[0], args[1].unsqueeze(-1)).squeeze(-1)


@handles(aten.t.default)
def transpose(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    if args[0].layout is not torch.sparse_coo or args[0].sparse_dim() != 2 or args[0].dense_dim():
        return NotImplemented
    with session.capture:
        return transposed(session, args[0])


def _keys(indices: torch.Tensor) -> torch.Tensor:
    """Places as single numbers (flatten_indices of SparseTensorUtils.cpp)."""
    return indices.mul(torch.empty((indices.shape[0], 1), dtype=torch.int64, device="cuda")).sum(0)


def _counted(session: Session, sparse: torch.Tensor, count: int) -> int:
    """For how many places an uncoalesced tensor has values, all of them if nobody knows."""
    indices = held(sparse)[1]
    count = min(count, math.prod(sparse.shape[: indices.shape[0]]))
    known = session.part(Values).get(indices)
    if known is not None:
        found = int(known.unique(dim=1).shape[1])
        if not session.part(Values).likely(indices):
            return found
        text = f"{found} of {count} values of a sparse tensor have places of their own"
        return session.part(Decisions).size(found, min(2 * found, count), text, count)
    session.note("sparse", f"all of {count} values of a sparse tensor were taken to be in other places")
    taken = f"all of {count} values of a sparse tensor have places of their own"
    return session.part(Decisions).size(count, 1, taken, count)


def _need(a: torch.Tensor, b: torch.Tensor) -> None:
    """Refuse products for which nothing is known."""
    layouts = {a.layout, b.layout}
    if layouts != {torch.sparse_coo, torch.strided}:
        names = " and ".join(str(t.layout).removeprefix("torch.") for t in (a, b))
        raise RuntimeError(f"a product of {names} matrices cannot be recorded: sparse_coo and strided ones can")

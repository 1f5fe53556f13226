"""Sparse tensors on the pretended GPU: fake ones forget how many values they have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ...core.held import COALESCED, DISTINCT, HELD, held, hold, is_coalesced, tell_distinct

if TYPE_CHECKING:
    from ...api.recorder import Recorder
    from ...core.dispatch import Handler

aten = torch.ops.aten


def made(
    recorder: Recorder, shape: list[int], indices: torch.Tensor, values: torch.Tensor, coalesced: bool
) -> torch.Tensor:
    """A sparse tensor of indices and values."""
    options = {"dtype": values.dtype, "layout": torch.sparse_coo, "device": values.device, "is_coalesced": coalesced}
    dims = indices.shape[0], values.dim() - 1
    make = aten._sparse_coo_tensor_with_dims_and_tensors.default
    out = recorder.fake.__torch_dispatch__(make, (FakeTensor,), (*dims, shape, indices, values), options)
    assert isinstance(out, torch.Tensor)
    out.__dict__.update({HELD: (values, indices), COALESCED: coalesced or indices.shape[1] < 2})
    return out


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Making a sparse tensor of indices and values, and taking it apart."""
    make = aten._sparse_coo_tensor_with_dims_and_tensors.default

    def build(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = recorder.fake.__torch_dispatch__(make, (FakeTensor,), args, kwargs)
        out.__dict__[HELD] = args[4], args[3]
        out.__dict__[COALESCED] = bool(kwargs.get("is_coalesced")) or args[3].shape[1] < 2
        return out

    def values(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return held(args[0])[0]

    def indices(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return held(args[0])[1]

    def same(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Another tensor of the same parts."""
        whole = args[0]
        if whole.layout is not torch.sparse_coo or not isinstance(whole, FakeTensor):
            return NotImplemented
        parts = held(whole)
        if func is aten.clone.default:
            # AccumulateGrad keeps a sparse gradient of dense parts as it comes; here it copies one because Python
            # refers to it (torch/csrc/autograd/functions/accumulate_grad.h).
            node = torch._C._current_autograd_node() if recorder.phases.backward_depth else None
            kept = node is not None and node.name().endswith("AccumulateGrad")
            if not kept or not all(part.is_contiguous() for part in parts):
                with recorder.capture:
                    parts = tuple(part.clone(memory_format=torch.contiguous_format) for part in parts)
        out = made(recorder, list(whole.shape), parts[1], parts[0], is_coalesced(whole))
        hold(out, parts, whole)
        return out

    def bags(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The gradient of bags of embeddings, which is put together from other operators (EmbeddingBag.cpp)."""
        grad, indices, offsets, bag_of, sizes, _, count, scale, mode, is_sparse, weights, *padding = args
        if not is_sparse or kwargs:
            return NotImplemented
        with recorder.capture:
            return aten._embedding_bag_sparse_backward(
                grad, indices, offsets, bag_of, sizes, count, scale, mode, weights, *padding
            )

    found: dict[OpOverload, Handler] = {make: build, aten._values.default: values, aten._indices.default: indices}

    def mask(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A dense tensor's values where a sparse one has some: its ones times what is gathered (SparseTensor.cpp)."""
        dense, like = args
        if dense.layout is not torch.strided or like.layout is not torch.sparse_coo or not isinstance(like, FakeTensor):
            return NotImplemented
        values, indices = held(like)
        with recorder.capture:
            ones = torch.ones((1,), dtype=values.dtype, device="cuda").expand(values.shape)
            gathered = dense[tuple(indices.unbind())]
            indices = indices.clone()
            values = ones * gathered
            del gathered
        return made(recorder, list(like.shape), indices, values, is_coalesced(like))

    def asked(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return is_coalesced(args[0]) if isinstance(args[0], FakeTensor) else NotImplemented

    def told(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args[0].__dict__[COALESCED] = args[1]
        return args[0]

    def add(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A sparse tensor added to a dense one: row by row where places come twice (add_out_dense_sparse_cuda)."""
        dense, other = args[:2]
        if not isinstance(other, FakeTensor) or other.layout is not torch.sparse_coo:
            return NotImplemented
        values, indices = held(other)
        if dense.layout is torch.sparse_coo:  # as gradients of several backward passes are (add_out_sparse_cuda)
            with recorder.capture:
                more = values if kwargs.get("alpha", 1) == 1 else values.mul(kwargs["alpha"])
                indices, more = torch.cat((held(dense)[1], indices), 1), torch.cat((held(dense)[0], more))
            dense.__dict__.pop(DISTINCT, None)
            dense.__dict__.update({HELD: (more, indices), COALESCED: False})
            return dense
        if dense.layout is not torch.strided:
            return NotImplemented
        with recorder.capture:
            if is_coalesced(other):
                values.contiguous()
            else:
                places = indices[0] if indices.shape[0] == 1 else _keys(indices)
                if kwargs.get("alpha", 1) != 1:
                    values = values.contiguous().mul(kwargs["alpha"])
                first = math.prod(dense.shape[: indices.shape[0]])
                dense.view(first, -1).index_add_(0, places, values.reshape(indices.shape[1], -1))
        if is_coalesced(other):
            real, recorder.values.real = recorder.values.real, None  # which has no operator of these arguments
            recorder.log(func, (dense, values, indices), {}, dense)
            recorder.values.real = real
            if real is not None:
                real.of(dense).add_(real.of(other), alpha=kwargs.get("alpha", 1))
        return dense

    def count(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """How many values it has: fake tensors that were copied say none."""
        return held(args[0])[0].shape[0] if args[0].layout is torch.sparse_coo else NotImplemented

    found[aten._nnz.default] = count
    found |= {aten.is_coalesced.default: asked, aten._coalesced_.default: told, aten.add_.Tensor: add}
    found[aten.sparse_mask.default] = mask
    found[aten._embedding_bag_backward.default] = bags
    found |= _products(recorder)
    return found | dict.fromkeys((aten.detach.default, aten.clone.default), same)


def copied(recorder: Recorder, source: torch.Tensor, func: OpOverload, kwargs: dict[str, Any]) -> torch.Tensor:
    """A sparse tensor that comes from the host: its indices and its values are copied."""
    parts = []
    for part, dtype in zip(held(source), (kwargs.get("dtype"), None), strict=True):
        parts.append(recorder.pretend(part, dtype=dtype))
        recorder.log(func, (part,), {"device": kwargs["device"]}, parts[-1])
        recorder.values.copied(parts[-1], part)
    values, indices = parts
    out = made(recorder, list(source.shape), indices, values, source.is_coalesced())
    out.__dict__[DISTINCT] = source.coalesce()._nnz()
    return out


def sum_of(recorder: Recorder, a: torch.Tensor, b: torch.Tensor) -> Any:
    """The sum of two sparse tensors, one's values after the other's (add_out_sparse_cuda); NotImplemented of others.

    Gradients that meet are added like that, however many own them (torch/csrc/autograd/input_buffer.cpp).
    """
    sparse = [t for t in (a, b) if isinstance(t, FakeTensor) and t.layout is torch.sparse_coo]
    if len(sparse) < 2 or a.shape != b.shape or a.dtype != b.dtype or a.sparse_dim() != b.sparse_dim():
        return NotImplemented
    (values, indices), (more, places) = held(a), held(b)
    with recorder.capture:
        indices, values = torch.cat((indices, places), 1), torch.cat((values, more))
    return made(recorder, list(a.shape), indices, values, False)


def cusparse_buffer(recorder: Recorder, values: torch.Tensor) -> None:
    """What cuSPARSE takes for the time of a product; `values` are those of the sparse matrix."""
    # It has no published size: 32 bits for each 256 values fit two models on an H200 (CUDA 13.0).
    recorder.note("sparse", "cuSPARSE's buffer is guessed: 4 bytes for each 256 values of a sparse matrix")
    buffer = torch.empty((-(-values.shape[0] // 256),), dtype=torch.int32, device="cuda")
    del buffer


def _products(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Products of a sparse matrix [m, k] with a dense one, as the CUDA kernels put them together of tensors.

    Sources: SparseCUDATensorMath.cu (s_addmm_out_sparse_dense_cuda, s_addmm_out_csr_sparse_dense_cuda_worker),
    SparseCUDATensor.cu (_coalesce_sparse_cuda), SparseTensorMath.cpp (_sparse_mm, mv_sparse) and
    TensorShape.cpp (sparse_transpose_).
    """

    def transposed(sparse: torch.Tensor) -> torch.Tensor:
        """A copy with the two rows of its indices exchanged, and in no order therefore."""
        values, indices = (part.clone() for part in held(sparse))
        spare = torch.zeros_like(indices[0])
        spare.copy_(indices[0])
        indices[0].copy_(indices[1])
        indices[1].copy_(spare)
        out = made(recorder, [sparse.shape[1], sparse.shape[0]], indices, values, False)
        tell_distinct(out, distinct(sparse))
        return out

    def distinct(sparse: torch.Tensor) -> int:
        """For how many places a tensor has values, which decides its size when coalesced."""
        count: int | None = sparse.__dict__.get(DISTINCT)
        if count is None:
            count = held(sparse)[0].shape[0]
            if not is_coalesced(sparse):
                count = _counted(recorder, sparse, count)
        return count

    def coalesced(sparse: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Values and indices in order: a merge sort by key, whose buffers hold keys and places once more."""
        values, indices = held(sparse)
        if is_coalesced(sparse):
            return values, indices
        count = distinct(sparse)
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

    def product(start: torch.Tensor, sparse: torch.Tensor, dense: torch.Tensor, beta: float) -> torch.Tensor:
        rows, columns = sparse.shape[0], dense.shape[1]
        out = torch.empty((rows, columns), dtype=start.dtype, device="cuda")
        values, indices = coalesced(sparse)
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
        cusparse_buffer(recorder, values)
        if not by_columns:
            out.copy_(result)
        del compressed, places
        return out

    def in_order(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        whole = args[0]
        if not isinstance(whole, FakeTensor) or whole.layout is not torch.sparse_coo:
            return NotImplemented
        with recorder.capture:
            values, indices = coalesced(whole)
        real = recorder.values.real
        if real is not None:
            ordered = real.of(whole).coalesce()
            real.fill((values, indices), lambda: (ordered._values(), ordered._indices()))
        return made(recorder, list(whole.shape), indices, values, True)

    def multiply(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        a, b = args
        if a.layout is torch.strided and b.layout is torch.strided:
            return NotImplemented
        _need(a, b)
        with recorder.capture:
            if b.layout is torch.strided:
                return product(torch.zeros((a.shape[0], b.shape[1]), dtype=b.dtype, device="cuda"), a, b, 0)
            start = torch.zeros((a.shape[0], b.shape[1]), dtype=a.dtype, device="cuda")
            return product(start.t(), transposed(b), a.t(), 0).t()

    def add(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        start, a, b = args[:3]
        if a.layout is torch.strided and b.layout is torch.strided:
            return NotImplemented
        _need(a, b)
        if b.layout is not torch.strided:
            raise RuntimeError(f"{func} of a dense and a sparse matrix: PyTorch has a kernel for the reverse only")
        beta = kwargs.get("beta", args[3] if len(args) > 3 else 1)
        with recorder.capture:
            return product(start.expand(a.shape[0], b.shape[1]), a, b, beta)

    def vector(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args[0].layout is torch.strided:
            return NotImplemented
        return multiply(func, (args[0], args[1].unsqueeze(-1)), kwargs).squeeze(-1)

    def with_values(handler: Handler) -> Handler:
        """Beside which real values are computed by the CPU's own operator."""

        def answer(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            out, real = handler(func, args, kwargs), recorder.values.real
            if real is not None and out is not NotImplemented:
                given = [real.of(a) if isinstance(a, torch.Tensor) else a for a in args]
                real.fill((out,), lambda: (func(*given, **kwargs),))
            return out

        return answer

    def transpose(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args[0].layout is not torch.sparse_coo or args[0].sparse_dim() != 2 or args[0].dense_dim():
            return NotImplemented
        with recorder.capture:
            return transposed(args[0])

    return {
        aten.mm.default: with_values(multiply),
        aten.mv.default: with_values(vector),
        aten.addmm.default: with_values(add),
        aten._sparse_addmm.default: with_values(add),
        aten.t.default: transpose,
        aten._coalesce.default: in_order,
    }


def _keys(indices: torch.Tensor) -> torch.Tensor:
    """Places as single numbers (flatten_indices of SparseTensorUtils.cpp)."""
    return indices.mul(torch.empty((indices.shape[0], 1), dtype=torch.int64, device="cuda")).sum(0)


def _counted(recorder: Recorder, sparse: torch.Tensor, count: int) -> int:
    """For how many places an uncoalesced tensor has values, all of them if nobody knows."""
    indices = held(sparse)[1]
    count = min(count, math.prod(sparse.shape[: indices.shape[0]]))
    known = recorder.values.get(indices)
    if known is not None:
        found = int(known.unique(dim=1).shape[1])
        if not recorder.values.likely(indices):
            return found
        text = f"{found} of {count} values of a sparse tensor have places of their own"
        return recorder.decisions.size(found, min(2 * found, count), text, count)
    recorder.note("sparse", f"all of {count} values of a sparse tensor were taken to be in other places")
    taken = f"all of {count} values of a sparse tensor have places of their own"
    return recorder.decisions.size(count, 1, taken, count)


def _need(a: torch.Tensor, b: torch.Tensor) -> None:
    """Refuse products for which nothing is known."""
    layouts = {a.layout, b.layout}
    if layouts != {torch.sparse_coo, torch.strided}:
        names = " and ".join(str(t.layout).removeprefix("torch.") for t in (a, b))
        raise RuntimeError(f"a product of {names} matrices cannot be recorded: sparse_coo and strided ones can")

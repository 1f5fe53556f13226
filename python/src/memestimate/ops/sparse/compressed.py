"""Sparse matrices in CSR and CSC on the pretended GPU: their parts, and their products with dense ones.

Sources: SparseCsrTensor.cpp, SparseCsrTensorMath.cpp (_sparse_csr_mm), cuda/SparseBlasImpl.cpp (spmm) and
TensorConversions.cpp (sparse_compressed_to_flipped, coo_to_sparse_csr).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ...core.handlers import Arguments, Handler, Keywords, Table
from ...core.held import HELD, held
from ...core.session import Session
from . import coo

aten = torch.ops.aten
handles: Table[Handler] = Table("compressed")
_MAKERS = (aten.sparse_compressed_tensor, aten._sparse_compressed_tensor_unsafe)
_BUILDS = [getattr(op, "comp_plain_value_size", None) or op.default for op in _MAKERS]
_LAYOUTS = (torch.sparse_csr, torch.sparse_csc)


def is_compressed(value: Any) -> bool:
    """Whether a value is a matrix in CSR or CSC."""
    return isinstance(value, torch.Tensor) and value.layout in _LAYOUTS


def made(session: Session, parts: tuple[torch.Tensor, ...], shape: list[int], layout: torch.layout) -> torch.Tensor:
    options = {"dtype": parts[0].dtype, "layout": layout, "device": torch.device("cuda", 0)}
    out = session.fake.__torch_dispatch__(aten.empty.memory_format, (FakeTensor,), (shape,), options)
    assert isinstance(out, torch.Tensor)
    out.__dict__[HELD] = parts
    return out


@handles(*_BUILDS)
def build(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    pointers, plain, values, *size = args
    layout = kwargs.get("layout", torch.sparse_csr)
    if not size or layout not in _LAYOUTS:
        raise RuntimeError(f"{func} cannot be recorded: CSR and CSC of a stated size can")
    return made(session, (values, pointers, plain), list(size[0]), layout)


@handles(aten._to_copy.default, before="shapes")
def to_copy(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    source = args[0]
    if not is_compressed(source) or isinstance(source, FakeTensor):
        return NotImplemented
    parts = []
    for part, dtype in zip(held(source), (kwargs.get("dtype"), None, None), strict=True):
        parts.append(session.pretend(part, dtype=dtype))
        session.log(func, (part,), {"device": kwargs["device"]}, parts[-1])
    return made(session, tuple(parts), list(source.shape), source.layout)


def _part(number: int, layout: torch.layout | None) -> Handler:
    def find(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
        if layout is not None and args[0].layout is not layout:
            raise RuntimeError(f"{func} of a tensor of layout {str(args[0].layout).removeprefix('torch.')}")
        # Another tensor each time (SparseTensor.cpp, SparseCsrTensor.cpp): autograd makes it a view of the sparse one,
        # which would hold itself otherwise.
        with session.capture:
            return aten.alias(held(args[0])[number])

    return find


handles(aten.values.default)(_part(0, None))
handles(aten.crow_indices.default)(_part(1, torch.sparse_csr))
handles(aten.col_indices.default)(_part(2, torch.sparse_csr))
handles(aten.ccol_indices.default)(_part(1, torch.sparse_csc))
handles(aten.row_indices.default)(_part(2, torch.sparse_csc))


@handles(aten.detach.default, aten.clone.default, before="coo")
def same(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    whole = args[0]
    if not is_compressed(whole) or not isinstance(whole, FakeTensor):
        return NotImplemented
    parts = held(whole)
    if func is aten.clone.default:
        with session.capture:
            parts = tuple(p.clone() for p in parts)
    return made(session, parts, list(whole.shape), whole.layout)


@handles(aten.t.default, before="coo")
@handles(aten.transpose.int, before="shapes")
def transpose(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """The same parts, read as columns where they were rows."""
    if not is_compressed(args[0]):
        return NotImplemented
    other = _LAYOUTS[args[0].layout is torch.sparse_csr]
    return made(session, held(args[0]), list(args[0].shape)[::-1], other)


def by_rows(session: Session, matrix: torch.Tensor) -> torch.Tensor:
    """CSC as CSR: by coordinates, which are sorted."""
    if matrix.layout is torch.sparse_csr:
        return matrix
    values, pointers, plain = held(matrix)
    columns = torch.empty((2, plain.shape[0]), dtype=plain.dtype, device="cuda")
    order = torch.argsort(columns[0] * matrix.shape[1] + columns[1])
    rows = torch.empty((matrix.shape[0] + 1,), dtype=pointers.dtype, device="cuda")
    return made(session, (values[order], rows, columns[1][order]), list(matrix.shape), torch.sparse_csr)


def product(session: Session, start: torch.Tensor, matrix: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    out = torch.empty((matrix.shape[0], dense.shape[1]), dtype=start.dtype, device="cuda").copy_(start)
    if not dense.is_contiguous() and not dense.t().is_contiguous():
        dense = dense.contiguous()
    coo.cusparse_buffer(session, held(matrix)[0])
    return out


@handles(aten.mm.default, before="coo")
@handles(aten.mv.default, before="coo")
@handles(aten.addmm.default, aten._sparse_addmm.default, before="coo")
def multiply(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    if not any(map(is_compressed, args)):
        return NotImplemented
    matrix, dense = args[-2:] if func is aten._sparse_addmm.default else args[1:3] if len(args) > 2 else args
    if not is_compressed(matrix) or dense.layout is not torch.strided:
        names = " and ".join(str(t.layout).removeprefix("torch.") for t in (matrix, dense))
        raise RuntimeError(f"a product of {names} matrices cannot be recorded: sparse_csr and strided ones can")
    with session.capture:
        if func is aten.mv.default:
            return multiply(session, aten.mm.default, (matrix, dense.unsqueeze(-1)), kwargs).squeeze(-1)
        matrix = by_rows(session, matrix)
        if func is aten.mm.default:
            start = torch.zeros((matrix.shape[0], dense.shape[1]), dtype=dense.dtype, device="cuda")
        else:
            start = args[0].expand(matrix.shape[0], dense.shape[1])
        return product(session, start, matrix, dense)


@handles(aten._to_sparse_csr.default)
def from_coordinates(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    matrix = args[0]
    if matrix.layout is not torch.sparse_coo or not isinstance(matrix, FakeTensor):
        return matrix if matrix.layout is torch.sparse_csr else NotImplemented
    with session.capture:
        values, indices = held(matrix.coalesce())
        rows = torch.empty((matrix.shape[0] + 1,), dtype=torch.int64, device="cuda")
        return made(session, (values, rows, indices[1]), list(matrix.shape), torch.sparse_csr)

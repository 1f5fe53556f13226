"""Sparse matrices in CSR and CSC on the pretended GPU: their parts, and their products with dense ones.

Sources: SparseCsrTensor.cpp, SparseCsrTensorMath.cpp (_sparse_csr_mm), cuda/SparseBlasImpl.cpp (spmm) and
TensorConversions.cpp (sparse_compressed_to_flipped, coo_to_sparse_csr).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ...core.held import HELD, held
from . import coo

if TYPE_CHECKING:
    from ...api.recorder import Recorder
    from ...core.dispatch import Handler

aten = torch.ops.aten
_LAYOUTS = (torch.sparse_csr, torch.sparse_csc)


def is_compressed(value: Any) -> bool:
    """Whether a value is a matrix in CSR or CSC."""
    return isinstance(value, torch.Tensor) and value.layout in _LAYOUTS


def handlers(recorder: Recorder, others: Mapping[OpOverload, Handler]) -> dict[OpOverload, Handler]:
    """Making such matrices, taking them apart and multiplying; `others` answer for other layouts."""

    def made(parts: tuple[torch.Tensor, ...], shape: list[int], layout: torch.layout) -> torch.Tensor:
        options = {"dtype": parts[0].dtype, "layout": layout, "device": torch.device("cuda", 0)}
        out = recorder.fake.__torch_dispatch__(aten.empty.memory_format, (FakeTensor,), (shape,), options)
        assert isinstance(out, torch.Tensor)
        out.__dict__[HELD] = parts
        return out

    def build(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pointers, plain, values, *size = args
        layout = kwargs.get("layout", torch.sparse_csr)
        if not size or layout not in _LAYOUTS:
            raise RuntimeError(f"{func} cannot be recorded: CSR and CSC of a stated size can")
        return made((values, pointers, plain), list(size[0]), layout)

    def to_copy(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[0]
        if not is_compressed(source) or isinstance(source, FakeTensor):
            return others[func](func, args, kwargs)
        parts = []
        for part, dtype in zip(held(source), (kwargs.get("dtype"), None, None), strict=True):
            parts.append(recorder.pretend(part, dtype=dtype))
            recorder.log(func, (part,), {"device": kwargs["device"]}, parts[-1])
        return made(tuple(parts), list(source.shape), source.layout)

    def part(number: int, layout: torch.layout | None) -> Handler:
        def find(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if layout is not None and args[0].layout is not layout:
                raise RuntimeError(f"{func} of a tensor of layout {str(args[0].layout).removeprefix('torch.')}")
            return held(args[0])[number]

        return find

    def same(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        whole = args[0]
        if not is_compressed(whole) or not isinstance(whole, FakeTensor):
            return others[func](func, args, kwargs)
        parts = held(whole)
        if func is aten.clone.default:
            with recorder.capture:
                parts = tuple(p.clone() for p in parts)
        return made(parts, list(whole.shape), whole.layout)

    def transpose(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same parts, read as columns where they were rows."""
        if not is_compressed(args[0]):
            return others[func](func, args, kwargs) if func in others else NotImplemented
        other = _LAYOUTS[args[0].layout is torch.sparse_csr]
        return made(held(args[0]), list(args[0].shape)[::-1], other)

    def by_rows(matrix: torch.Tensor) -> torch.Tensor:
        """CSC as CSR: by coordinates, which are sorted."""
        if matrix.layout is torch.sparse_csr:
            return matrix
        values, pointers, plain = held(matrix)
        columns = torch.empty((2, plain.shape[0]), dtype=plain.dtype, device="cuda")
        order = torch.argsort(columns[0] * matrix.shape[1] + columns[1])
        rows = torch.empty((matrix.shape[0] + 1,), dtype=pointers.dtype, device="cuda")
        return made((values[order], rows, columns[1][order]), list(matrix.shape), torch.sparse_csr)

    def product(start: torch.Tensor, matrix: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        out = torch.empty((matrix.shape[0], dense.shape[1]), dtype=start.dtype, device="cuda").copy_(start)
        if not dense.is_contiguous() and not dense.t().is_contiguous():
            dense = dense.contiguous()
        coo.cusparse_buffer(recorder, held(matrix)[0])
        return out

    def multiply(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not any(map(is_compressed, args)):
            return others[func](func, args, kwargs)
        matrix, dense = args[-2:] if func is aten._sparse_addmm.default else args[1:3] if len(args) > 2 else args
        if not is_compressed(matrix) or dense.layout is not torch.strided:
            names = " and ".join(str(t.layout).removeprefix("torch.") for t in (matrix, dense))
            raise RuntimeError(f"a product of {names} matrices cannot be recorded: sparse_csr and strided ones can")
        with recorder.capture:
            if func is aten.mv.default:
                return multiply(aten.mm.default, (matrix, dense.unsqueeze(-1)), kwargs).squeeze(-1)
            matrix = by_rows(matrix)
            if func is aten.mm.default:
                start = torch.zeros((matrix.shape[0], dense.shape[1]), dtype=dense.dtype, device="cuda")
            else:
                start = args[0].expand(matrix.shape[0], dense.shape[1])
            return product(start, matrix, dense)

    def from_coordinates(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        matrix = args[0]
        if matrix.layout is not torch.sparse_coo or not isinstance(matrix, FakeTensor):
            return matrix if matrix.layout is torch.sparse_csr else NotImplemented
        with recorder.capture:
            values, indices = held(matrix.coalesce())
            rows = torch.empty((matrix.shape[0] + 1,), dtype=torch.int64, device="cuda")
            return made((values, rows, indices[1]), list(matrix.shape), torch.sparse_csr)

    found: dict[OpOverload, Handler] = {aten._to_copy.default: to_copy, aten.values.default: part(0, None)}
    for names, layout in (
        (("crow_indices", "col_indices"), torch.sparse_csr),
        (("ccol_indices", "row_indices"), torch.sparse_csc),
    ):
        found |= {getattr(aten, name).default: part(i + 1, layout) for i, name in enumerate(names)}
    found |= dict.fromkeys((aten.detach.default, aten.clone.default), same)
    found |= dict.fromkeys((aten.t.default, aten.transpose.int), transpose)
    found |= dict.fromkeys((aten.mm.default, aten.mv.default), multiply)
    found |= dict.fromkeys((aten.addmm.default, aten._sparse_addmm.default), multiply)
    found[aten._to_sparse_csr.default] = from_coordinates
    for op in (aten.sparse_compressed_tensor, aten._sparse_compressed_tensor_unsafe):
        found[getattr(op, "comp_plain_value_size", None) or op.default] = build
    return found

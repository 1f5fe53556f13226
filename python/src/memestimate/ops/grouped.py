"""Products of groups of rows with a matrix each, as mixtures of experts make: one kernel, or one product a group."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session
from ..values.shares import spread
from ..values.values import Values

aten = torch.ops.aten
handles: Table[Handler] = Table("grouped")
_VERSION = tuple(int(n) for n in torch.__version__.split(".")[:2])
_OPS = (aten._grouped_mm.default,) if hasattr(aten, "_grouped_mm") else ()  # where this PyTorch has it

_SINCE = (2, 9)  # versions before have the kernel alone
_KERNEL = (9, 10)  # compute capabilities that it is built for, by their first number


@handles(*_OPS)
def grouped(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    a, b, offs, _, dtype = [*args, None, None, None][:5]
    offs, dtype = kwargs.get("offs", offs), kwargs.get("out_dtype", dtype) or a.dtype
    # _grouped_mm_cuda (aten/src/ATen/native/cuda/GroupedBlas.cpp) takes its kernel for bfloat16 alone.
    narrow = a.dtype is b.dtype is dtype is torch.bfloat16
    if _VERSION < _SINCE and session.gpu.capability != (9, 0):
        raise RuntimeError("torch._grouped_mm is only supported on CUDA devices with compute capability = 9.0")
    if _VERSION < _SINCE or (narrow and session.gpu.capability[0] in _KERNEL):
        return NotImplemented
    size, stride = _layout(a, b, offs, dtype)
    out = session.empty(size, dtype, stride)
    session.log(func, args, kwargs, out)
    with session.capture:
        if offs is None:
            torch.bmm(a, b, out=out)
        else:
            _multiply(a, b, out, _ends(session, a, b, offs))
    return out


def _layout(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """Shape and strides of the result: rows begin at multiples of 16 bytes (create_grouped_gemm_output_tensor)."""
    aligned = 16 // dtype.itemsize
    row = -(-b.shape[-1] // aligned) * aligned
    if a.dim() != b.dim():
        return (a.shape[-2], b.shape[-1]), (row, 1)
    groups = a.shape[0] if offs is None else offs.shape[0]
    return (groups, a.shape[-2], b.shape[-1]), (a.shape[-2] * row, row, 1)


def _ends(session: Session, a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> list[int]:
    """Where each group ends; evenly spread where nobody knows."""
    total = a.shape[0] if b.dim() == 3 else a.shape[1] if a.dim() == 2 else b.shape[1]
    known = session.part(Values).get(offs)
    if known is not None and not session.part(Values).likely(offs):
        return [int(n) for n in known]
    session.note("routing", f"{total} rows were taken to be spread evenly over {offs.numel()} groups")
    each = spread(total, torch.empty(offs.numel(), dtype=torch.int64, device="cpu"))
    return [int(n) for n in each.cumsum(0)]


def _multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, ends: list[int]) -> None:
    """One product for each group, into its part of the result (_grouped_mm_fallback of GroupedMMUtils.h)."""
    start = 0
    for group, end in enumerate(ends):
        if a.dim() == 3:
            torch.mm(a[group], b[:, start:end], out=out[:, start:end])
        elif b.dim() == 3:
            torch.mm(a[start:end], b[group], out=out[start:end])
        else:
            torch.mm(a[:, start:end], b[start:end], out=out[group])
        start = end

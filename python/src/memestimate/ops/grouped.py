"""Products of groups of rows with a matrix each, as mixtures of experts make: one kernel, or one product a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ..core.dispatch import Handler
from ..values.shares import spread

if TYPE_CHECKING:
    from ..api.recorder import Recorder

aten = torch.ops.aten

_SINCE = (2, 9)  # versions before have the kernel alone
_KERNEL = (9, 10)  # compute capabilities that it is built for, by their first number


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Grouped products where there is no kernel for them, which fake tensors refuse."""
    version = tuple(int(n) for n in torch.__version__.split(".")[:2])

    def grouped(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        a, b, offs, _, dtype = [*args, None, None, None][:5]
        offs, dtype = kwargs.get("offs", offs), kwargs.get("out_dtype", dtype) or a.dtype
        # _grouped_mm_cuda (aten/src/ATen/native/cuda/GroupedBlas.cpp) takes its kernel for bfloat16 alone.
        narrow = a.dtype is b.dtype is dtype is torch.bfloat16
        if version < _SINCE and recorder.gpu.capability != (9, 0):
            raise RuntimeError("torch._grouped_mm is only supported on CUDA devices with compute capability = 9.0")
        if version < _SINCE or (narrow and recorder.gpu.capability[0] in _KERNEL):
            return NotImplemented
        size, stride = _layout(a, b, offs, dtype)
        out = recorder.empty(size, dtype, stride)
        recorder.log(func, args, kwargs, out)
        with recorder.capture:
            if offs is None:
                torch.bmm(a, b, out=out)
            else:
                _multiply(a, b, out, _ends(recorder, a, b, offs))
        return out

    found = getattr(aten, "_grouped_mm", None)
    return {} if found is None else {found.default: grouped}


def _layout(a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor | None, dtype: torch.dtype) -> tuple[Any, Any]:
    """Shape and strides of the result: rows begin at multiples of 16 bytes (create_grouped_gemm_output_tensor)."""
    aligned = 16 // dtype.itemsize
    row = -(-b.shape[-1] // aligned) * aligned
    if a.dim() != b.dim():
        return (a.shape[-2], b.shape[-1]), (row, 1)
    groups = a.shape[0] if offs is None else offs.shape[0]
    return (groups, a.shape[-2], b.shape[-1]), (a.shape[-2] * row, row, 1)


def _ends(recorder: Recorder, a: torch.Tensor, b: torch.Tensor, offs: torch.Tensor) -> list[int]:
    """Where each group ends; evenly spread where nobody knows."""
    total = a.shape[0] if b.dim() == 3 else a.shape[1] if a.dim() == 2 else b.shape[1]
    known = recorder.values.get(offs)
    if known is not None and not recorder.values.likely(offs):
        return [int(n) for n in known]
    recorder.note("routing", f"{total} rows were taken to be spread evenly over {offs.numel()} groups")
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

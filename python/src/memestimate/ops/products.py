"""Matrix products whose result has another type than their factors: `torch.addmm(..., out_dtype=)`.

PyTorch has no rule for what they give. Their kernels are those of the same products without that (CUDABlas.cpp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from ..core.dispatch import Handler

if TYPE_CHECKING:
    from ..api.recorder import Recorder

aten = torch.ops.aten


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """The results of `addmm` and `baddbmm` with a type of their own; versions before 2.8 have none."""

    def product(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        _, left, right, dtype = args[:4]
        out: torch.Tensor | None = kwargs.get("out")
        if out is None:
            out = recorder.empty((*left.shape[:-1], right.shape[-1]), dtype)
        recorder.log(func, args, kwargs, out)
        recorder.values.follow(func, args, kwargs, out)
        return out

    found = (getattr(op, name, None) for op in (aten.addmm, aten.baddbmm) for name in ("dtype", "dtype_out"))
    return {func: product for func in found if func is not None}

"""Results whose strides fake tensors give otherwise than the CUDA kernel does."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session

aten = torch.ops.aten
handles: Table[Handler] = Table("layouts")
# layer_norm_kernel.cu and group_norm.cpp make the results row by row; the decompositions that fake tensors
# take follow the strides of what comes in.
_NORMS = (
    aten.native_layer_norm.default,
    aten.native_layer_norm_backward.default,
    aten.native_group_norm.default,
    aten.native_group_norm_backward.default,
)
_WEIGHTS = {aten.native_layer_norm.default: 2, aten.native_group_norm.default: 1}  # where they stand


@handles(*_NORMS)
def first_contiguous(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    refuse_mixed(args[0], args[_WEIGHTS[func]] if func in _WEIGHTS else None)
    out: Any = session.fake.__torch_dispatch__(func, (FakeTensor,), args, kwargs)
    if out is NotImplemented or out[0] is None or out[0].is_contiguous():
        return NotImplemented
    out = (session.empty(out[0].shape, out[0].dtype), *out[1:])
    session.log(func, args, kwargs, out)
    return out


@handles(aten._transformer_encoder_layer_fwd.default, aten._native_multi_head_attention.default)
def like_input(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Transformer layers that inference takes whole: they have no rule of shapes."""
    x = args[0]
    out: Any = session.empty(x.shape, x.dtype)
    if func is aten._native_multi_head_attention.default:
        need_weights = kwargs.get("need_weights", args[10] if len(args) > 10 else True)
        average = kwargs.get("average_attn_weights", args[11] if len(args) > 11 else True)
        heads, length, keys = args[4], x.shape[1], args[1].shape[1]
        scores = (x.shape[0], length, keys) if average else (x.shape[0], heads, length, keys)
        out = out, session.empty(scores, x.dtype) if need_weights else None
    session.log(func, args, kwargs, out)
    return out


def refuse_mixed(x: torch.Tensor, weight: torch.Tensor | None) -> None:
    """Raise what CUDA's norms do when their weights have another type than their input.

    They read both as one type (`gamma.const_data_ptr<T>()` in layer_norm_kernel.cu and group_norm_kernel.cu); the
    decompositions that fake tensors take, and the CPU's kernels, promote.
    """
    if weight is not None and weight.dtype != x.dtype:
        names = {torch.float32: "Float", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float64: "Double"}
        wanted, found = (names.get(t.dtype, str(t.dtype)) for t in (x, weight))
        raise RuntimeError(f"expected scalar type {wanted} but found {found}")

"""The CPU's operators in place of a GPU's, for values beside a recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from ..core.tensors import tensors
from . import real_attention, real_norms, real_rnn

aten = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)


def run(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a call of the GPU gives, by the CPU: its own kernel, what it is made of, or its kernel for float32."""
    try:
        return of(func)(*args, **kwargs)
    except RuntimeError:
        if func._schema.is_mutable:
            raise
        if func in decomposition_table and not _on_cpu(func):
            return decomposition_table[func](*args, **kwargs)
        if not any(t.dtype in HALF for t in tensors([list(args), list(kwargs.values())])):
            raise
        return in_float32(of(func), args, kwargs)


def in_float32(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function with half types as float32, for which the CPU has a kernel of everything."""
    return function(*_wide(list(args)), **{key: _wide(value) for key, value in kwargs.items()})


def _on_cpu(func: OpOverload) -> bool:
    keys = torch._C.DispatchKey
    return any(func.has_kernel_for_dispatch_key(k) for k in (keys.CPU, keys.CompositeExplicitAutograd))


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in HALF else value
    if isinstance(value, (list, tuple)):
        return [_wide(item) for item in value]
    return torch.float32 if isinstance(value, torch.dtype) and value in HALF else value


def of(func: OpOverload) -> Callable[..., Any]:
    """The CPU's operator for one that only a GPU has."""
    name = func._schema.name.removeprefix("aten::")
    return real_attention.stand_in(func) or _STAND_INS.get(name, func)


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    return aten.native_batch_norm(x, weight, bias, mean, var, training, momentum, eps)


def _batch_norm_backward(
    x: Any, grad: Any, weight: Any, mean: Any, var: Any, saved_mean: Any, saved_var: Any, eps: float, reserve: Any
) -> Any:
    return aten.native_batch_norm_backward(
        grad, x, weight, mean, var, saved_mean, saved_var, True, eps, [True, True, True]
    )


def _embedding_bag(weight: Any, indices: Any, offsets: Any, *more: Any, **named: Any) -> Any:
    """What the CPU leaves out, and a GPU does not: to which bag each row belongs, and how large bags are."""
    out, _, _, highest = aten._embedding_bag(weight, indices, offsets, *more, **named)
    places = torch.arange(indices.numel(), dtype=offsets.dtype, device="cpu")
    starts = offsets[: out.shape[0]]
    bag_of = torch.bucketize(places, starts, right=True) - 1
    return out, bag_of, torch.bincount(bag_of, minlength=out.shape[0]), highest


def _log_sigmoid_backward(grad: Any, x: Any, _: Any) -> Any:
    """A GPU keeps nothing beside the input; the CPU keeps an exponential of it."""
    return grad * torch.sigmoid(-x)


def _softmax(func: Callable[..., Any]) -> Callable[..., Any]:
    """A GPU's kernel reads half types and writes float32 where it is asked to."""
    return lambda x, dim, half_to_float: func(x.float() if half_to_float else x, dim, False)


def _softmax_backward(func: Callable[..., Any]) -> Callable[..., Any]:
    return lambda grad, out, dim, dtype: func(grad, out, dim, grad.dtype)


_STAND_INS: dict[str, Callable[..., Any]] = {
    "cudnn_batch_norm": _batch_norm,
    "cudnn_batch_norm_backward": _batch_norm_backward,
    "cudnn_grid_sampler": lambda x, grid: aten.grid_sampler_2d(x, grid, 0, 0, True),
    "cudnn_grid_sampler_backward": lambda x, grid, grad: aten.grid_sampler_2d_backward(
        grad, x, grid, 0, 0, True, [True, True]
    ),
    "_embedding_bag": _embedding_bag,
    "log_sigmoid_backward": _log_sigmoid_backward,
    "_softmax": _softmax(aten._softmax),
    "_log_softmax": _softmax(aten._log_softmax),
    "_softmax_backward_data": _softmax_backward(aten._softmax_backward_data),
    "_log_softmax_backward_data": _softmax_backward(aten._log_softmax_backward_data),
    **real_norms.STAND_INS,
    **real_rnn.STAND_INS,
}

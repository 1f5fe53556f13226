"""Which kernel scaled dot product attention takes: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, by version."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

_HALF = (torch.float16, torch.bfloat16)
_DEFAULT_ORDER = ("flash", "efficient", "math", "cudnn")
# The first versions of PyTorch with rules that nothing in Python shows, by the wheels' libtorch_cuda.so.
_PREFERRED = (2, 10)  # check_prefer_cudnn_attention
_SIXTEENTHS = (2, 12)  # check_cudnn_dropout
_ALIGNED = (2, 13)  # check_data_ptr_alignment_mem_efficient
_SHARED = (2, 14)  # keys of fewer heads in every kernel, is_cudnn_attention_decode_disabled
_WIDE = (2, 14)  # check_cudnn_d256_bprop_head_dim
_FINITE = (2, 15)  # check_cudnn_tensor_shapes asks for the number of keys


@dataclass(frozen=True)
class Query:
    """What the rules look at; sizes are those of queries [.., Hq, Lq, D] and keys, values."""

    dtype: torch.dtype
    dims: int
    batches: tuple[int, int, int]
    heads: tuple[int, int, int]
    lengths: tuple[int, int]
    widths: tuple[int, int, int]
    last_strides: tuple[int, int, int]
    mask: bool
    mask_stride: int  # of the mask's last dimension
    mask_grad: bool
    dropout: float
    causal: bool
    gqa: bool
    training: bool  # some input requires a gradient
    offsets: tuple[int, int, int]  # where each begins in its storage


def query(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    causal: bool,
    gqa: bool,
) -> Query:
    """Look at the arguments of a call."""
    heads = tuple(_number(t.shape[-3]) if t.dim() > 2 else 1 for t in (q, k, v))
    offsets = [0 if t.is_nested else int(t.storage_offset()) for t in (q, k, v)]
    return Query(
        dtype=q.dtype,
        dims=q.dim(),
        batches=(_number(q.shape[0]), _number(k.shape[0]), _number(v.shape[0])),
        heads=(heads[0], heads[1], heads[2]),
        lengths=(_number(q.shape[-2]), _number(k.shape[-2])),
        widths=(q.shape[-1], k.shape[-1], v.shape[-1]),
        last_strides=(q.stride(-1), k.stride(-1), v.stride(-1)),
        mask=mask is not None,
        mask_stride=1 if mask is None else mask.stride(-1),
        mask_grad=mask is not None and mask.requires_grad,
        dropout=dropout,
        causal=causal,
        gqa=gqa,
        training=torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad),
        offsets=(offsets[0], offsets[1], offsets[2]),
    )


def _number(size: int | torch.SymInt) -> int:
    """A size; of one that compiled code leaves open the number that it was traced with."""
    if isinstance(size, torch.SymInt) and not size.node.is_nested_int() and size.node.hint is not None:
        return int(size.node.hint)
    return size  # type: ignore[return-value]


@dataclass(frozen=True)
class Libraries:
    """What the rules hang on beside the call: the GPU's compute capability, and cuDNN and PyTorch by version."""

    capability: tuple[int, int]
    cudnn: int  # as `torch.backends.cudnn.version` gives it
    torch: tuple[int, int]


def choose(query: Query, device: Libraries) -> str:
    """The kernel taken: "cudnn", "flash", "efficient" or "math"."""
    return next((name for name in _order(device) if takes(name, query, device)), "math")


def takes(kernel: str, query: Query, device: Libraries) -> bool:
    """Whether a kernel is not switched off, and takes the call."""
    rules = {"cudnn": _cudnn, "flash": _flash, "efficient": _efficient, "math": _math}
    return _enabled(kernel) and rules[kernel](query, device)


def _order(device: Libraries) -> tuple[str, ...]:
    """`priority_order` and `check_prefer_cudnn_attention`, and what the user set by `sdpa_kernel`."""
    numbers = {
        0: "math",
        1: "flash",
        2: "efficient",
        3: "cudnn",
    }  # SDPBackend (ATen/native/transformers/sdp_utils_cpp.h)
    get = getattr(torch._C, "_get_sdp_priority_order", None)
    order: tuple[str, ...] = _DEFAULT_ORDER
    if get is not None:
        order = tuple(dict.fromkeys(numbers[int(n)] for n in get() if int(n) in numbers))  # 2.8 has math twice
    if order != _DEFAULT_ORDER or device.torch < _PREFERRED or os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1":
        return order
    if device.cudnn > 91500 and device.capability in ((9, 0), (9, 3), (10, 0), (10, 3)):
        return ("cudnn", "flash", "efficient", "math")
    return order


def _enabled(name: str) -> bool:
    flags: dict[str, Any] = {
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled,
        "flash": torch.backends.cuda.flash_sdp_enabled,
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled,
        "math": torch.backends.cuda.math_sdp_enabled,
    }
    return bool(flags[name]())


def _common(query: Query) -> bool:
    """What all kernels check of tensors that are not nested (sdp_utils_cpp.h).

    `check_tensor_shapes`, `check_nonzero_sequence_lengths_dense`, `check_last_dim_stride_equals_1_dense`, and the first
    half of `check_batch_size_and_num_heads_dense`: no kernel spreads keys of one batch over queries of many.
    """
    return (
        query.dims == 4
        and len(set(query.batches)) == 1
        and 0 not in query.lengths
        and query.last_strides == (1, 1, 1)
        and query.mask_stride == 1
    )


def _same_heads(query: Query, device: Libraries, grouped: bool = True) -> bool:
    """`check_batch_size_and_num_heads_dense`: from 2.14 on one head of keys serves all without being asked."""
    hq, hk, hv = query.heads
    if hq == hk == hv or (device.torch >= _SHARED and hk == hv == 1 <= hq):
        return True
    return grouped and query.gqa and hk == hv and hk > 0 and hq % hk == 0


def _cudnn(query: Query, device: Libraries) -> bool:
    """`use_cudnn_attention`... `can_use_cudnn_attention`."""
    _, width, value_width = query.widths
    return (
        (8, 0) <= device.capability <= (12, 1)
        and query.dtype in _HALF
        and _common(query)
        and _same_heads(query, device)
        and not query.mask_grad
        and width % 8 == 0
        and value_width % 8 == 0
        and max(width, value_width) <= _widest(query, device)
        and not (query.dropout > 0 and 91100 <= device.cudnn < 91400)
        and query.lengths[1] != 1
        and not (query.lengths[0] == 1 and query.dropout > 0)
        and _sound(query, device)
        and not (
            torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
        )
    )


def _widest(query: Query, device: Libraries) -> int:
    """The widest heads that cuDNN takes (`check_cudnn_tensor_shapes`, `check_cudnn_d256_bprop_head_dim`)."""
    major, (_, width, value_width) = device.capability[0], query.widths
    large = device.capability == (9, 0) or major == 10
    if device.torch >= _WIDE:
        if large and device.cudnn > 92200:
            trained = not query.training or max(width, value_width) <= 128
            return 256 if trained or (width, value_width) in ((192, 128), (256, 256)) else 128
    elif device.capability == (9, 0) and device.cudnn >= 91000:
        return 256
    else:
        large = major == 10
    return 192 if large and device.cudnn >= 91100 and (width, value_width) == (192, 128) else 128


def _sound(query: Query, device: Libraries) -> bool:
    """Whether cuDNN is free of the faults that PyTorch knows of, each of some versions and GPUs."""
    queries, keys = query.lengths
    version, torch_version = device.cudnn, device.torch
    fine = torch_version >= _SIXTEENTHS and not (query.dropout * 16).is_integer()
    decodes = torch_version >= _SHARED and queries == 1 and device.capability[0] in (10, 11)
    infinite = torch_version >= _FINITE and query.training and not query.causal and device.capability == (9, 0)
    return (
        not fine
        and not (decodes and 91900 <= version <= 92500 and not 92401 <= version < 92500)
        and not (infinite and version < 92600 and keys % 128 == 64)
    )


def _flash(query: Query, device: Libraries) -> bool:
    """`can_use_flash_attention`."""
    width, capability = query.widths[0], device.capability
    consumer = (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)
    if query.training and consumer and (192 < width <= 224 or (width > 224 and query.dropout > 0)):
        return False  # check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120
    return (
        (8, 0) <= capability <= (12, 1)
        and query.dtype in _HALF
        and _common(query)
        and _same_heads(query, device)
        and not query.mask
        and query.widths == (width,) * 3
        and width <= 256
        and not (query.causal and query.lengths[0] != query.lengths[1])
    )


def _efficient(query: Query, device: Libraries) -> bool:
    """`can_use_mem_efficient_attention`."""
    capability = device.capability
    half, full = (8 if capability >= (7, 0) else 4), (4 if capability >= (8, 0) else 1)
    alignment = half if query.dtype in _HALF else full
    return (
        (5, 0) <= capability <= (12, 1)
        and (query.dtype in (torch.float16, torch.float32) or (query.dtype is torch.bfloat16 and capability >= (8, 0)))
        and _common(query)
        and _same_heads(query, device, device.torch >= _SHARED)
        and query.widths[0] == query.widths[1]
        and query.widths[0] % alignment == 0
        and query.widths[2] % alignment == 0
        and not (device.torch >= _ALIGNED and capability >= (8, 0) and any(n % alignment for n in query.offsets))
    )


def _math(query: Query, device: Libraries) -> bool:
    return True

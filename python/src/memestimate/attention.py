"""Which kernel scaled dot product attention runs on the pretended GPU.

`scaled_dot_product_attention` is made of other operators, and which of them it takes is decided
in C++ by looking at the real device: without one it always writes the scores out. So the choice
is made here, by the rules of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, and the
operator is put together as aten/src/ATen/native/transformers/attention.cpp does.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from .host import cudnn_version

if TYPE_CHECKING:
    from .capture import Handler
    from .patches import Patches
    from .recorder import Recorder

aten = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)
_DEFAULT_ORDER = ("flash", "efficient", "math", "cudnn")


@dataclass(frozen=True)
class Query:
    """What the rules look at; sizes are those of queries [.., Hq, Lq, D] and keys, values."""

    dtype: torch.dtype
    dims: int
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
    heads = tuple(t.shape[-3] if t.dim() > 2 else 1 for t in (q, k, v))
    return Query(
        dtype=q.dtype,
        dims=q.dim(),
        heads=(heads[0], heads[1], heads[2]),
        lengths=(q.shape[-2], k.shape[-2]),
        widths=(q.shape[-1], k.shape[-1], v.shape[-1]),
        last_strides=(q.stride(-1), k.stride(-1), v.stride(-1)),
        mask=mask is not None,
        mask_stride=1 if mask is None else mask.stride(-1),
        mask_grad=mask is not None and mask.requires_grad,
        dropout=dropout,
        causal=causal,
        gqa=gqa,
        training=torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad),
    )


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Results of the kernels that fake tensors have on the GPU and CUDA on the host."""

    def efficient(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        fake: Any = recorder.fake.__torch_dispatch__(func, (FakeTensor,), args, kwargs)
        out = list(fake)
        for i in (2, 3):  # seed and offset of the dropout (attention.cu, _scaled_dot_product_efficient_attention_cuda)
            out[i] = torch.zeros((), dtype=torch.int64, device="cpu")
        recorder.log(func, args, kwargs, out)
        return tuple(out)

    return {aten._scaled_dot_product_efficient_attention.default: efficient}


def choose(query: Query, capability: tuple[int, int], cudnn: int, torch_version: tuple[int, int]) -> str:
    """The kernel taken: "cudnn", "flash", "efficient" or "math".

    Parameters
    ----------
    query
        The call.
    capability
        Compute capability of the GPU.
    cudnn
        Version of cuDNN as `torch.backends.cudnn.version` gives it.
    torch_version
        Major and minor version of PyTorch.
    """
    accepts = {"cudnn": _cudnn, "flash": _flash, "efficient": _efficient, "math": _math}
    for name in _order(capability, cudnn, torch_version):
        if _enabled(name) and accepts[name](query, capability, cudnn):
            return name
    return "math"


def _order(capability: tuple[int, int], cudnn: int, torch_version: tuple[int, int]) -> tuple[str, ...]:
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
    if order != _DEFAULT_ORDER or torch_version < (2, 11) or os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1":
        return order
    if cudnn > 91500 and capability in ((9, 0), (9, 3), (10, 0), (10, 3)):
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
    """`check_tensor_shapes`, `check_nonzero_sequence_lengths_dense`, `check_last_dim_stride_equals_1_dense`."""
    return query.dims == 4 and 0 not in query.lengths and query.last_strides == (1, 1, 1) and query.mask_stride == 1


def _same_heads(query: Query) -> bool:
    """`check_batch_size_and_num_heads_dense`, with grouped queries where asked for."""
    hq, hk, hv = query.heads
    return hq == hk == hv or (query.gqa and hk == hv and hk > 0 and hq % hk == 0)


def _cudnn(query: Query, capability: tuple[int, int], cudnn: int) -> bool:
    """`use_cudnn_attention`... `can_use_cudnn_attention`."""
    _, width, value_width = query.widths
    largest = 128
    return (
        (8, 0) <= capability <= (12, 1)
        and query.dtype in _HALF
        and _common(query)
        and _same_heads(query)
        and not query.mask_grad
        and width % 8 == 0
        and value_width % 8 == 0
        and width <= largest
        and value_width <= largest
        and not (query.dropout > 0 and 91100 <= cudnn < 91400)
        and query.lengths[1] != 1
        and not (query.lengths[0] == 1 and query.dropout > 0)
        and not (
            torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
        )
    )


def _flash(query: Query, capability: tuple[int, int], cudnn: int) -> bool:
    """`can_use_flash_attention`."""
    width = query.widths[0]
    consumer = (8, 6) <= capability <= (8, 9) or (12, 0) <= capability <= (12, 1)
    if query.training and consumer and (192 < width <= 224 or (width > 224 and query.dropout > 0)):
        return False  # check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120
    return (
        (8, 0) <= capability <= (12, 1)
        and query.dtype in _HALF
        and _common(query)
        and _same_heads(query)
        and not query.mask
        and query.widths == (width,) * 3
        and width <= 256
        and not (query.causal and query.lengths[0] != query.lengths[1])
    )


def _efficient(query: Query, capability: tuple[int, int], cudnn: int) -> bool:
    """`can_use_mem_efficient_attention`."""
    half, full = (8 if capability >= (7, 0) else 4), (4 if capability >= (8, 0) else 1)
    alignment = half if query.dtype in _HALF else full
    return (
        (5, 0) <= capability <= (12, 1)
        and (query.dtype in (torch.float16, torch.float32) or (query.dtype is torch.bfloat16 and capability >= (8, 0)))
        and _common(query)
        and len(set(query.heads)) == 1
        and query.widths[0] == query.widths[1]
        and query.widths[0] % alignment == 0
        and query.widths[2] % alignment == 0
    )


def _math(query: Query, capability: tuple[int, int], cudnn: int) -> bool:
    return True


def install(recorder: Recorder, patches: Patches) -> None:
    """Answer programs, and PyTorch's attention over ragged tensors, that ask C++ whether a kernel can be used.

    nn.TransformerEncoder packs padded sequences into nested tensors in inference, of which nothing is known but their
    values: it is told that it cannot, and computes the padding, too.
    """
    text = "nn.TransformerEncoder was recorded with its padding, which a GPU's nested tensors leave out: an upper bound"

    def aligned(x: torch.Tensor, mask: torch.Tensor) -> bool:
        recorder.note("nested", text)
        return False

    patches.set(torch, "_nested_tensor_from_mask_left_aligned", aligned)
    rules = {"cudnn": ("cudnn", _cudnn), "flash": ("flash", _flash), "mem_efficient": ("efficient", _efficient)}

    def answer(name: str, rule: Callable[[Query, tuple[int, int], int], bool]) -> Callable[..., bool]:
        def can_use(params: Any, debug: bool = False) -> bool:
            tensors = params.query, params.key, params.value
            mask, gqa = params.attn_mask, getattr(params, "enable_gqa", False)
            asked = query(*tensors, mask, params.dropout, params.is_causal, gqa)
            if any(t.is_nested for t in tensors):  # whose lengths are not numbers; not empty, as nearly always
                asked = replace(asked, lengths=(2, 2))
            return _enabled(name) and rule(asked, recorder.gpu.capability, cudnn_version())

        return can_use

    for asked, (name, rule) in rules.items():
        patches.set(torch._C, f"_can_use_{asked}_attention", answer(name, rule))


def decide(
    recorder: Recorder,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    gqa: bool = False,
) -> str:
    """The kernel that the recording's GPU takes with this PyTorch and cuDNN."""
    version = torch.__version__.split(".")
    asked = query(q, k, v, mask, dropout, causal, gqa)
    return choose(asked, recorder.gpu.capability, cudnn_version(), (int(version[0]), int(version[1])))


def attend(
    recorder: Recorder,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[torch.Tensor, str]:
    """Run the operator with the kernel of this GPU; returns the result and the kernel's name."""
    asked = query(q, k, v, mask, dropout, causal, enable_gqa)
    kernel = decide(recorder, q, k, v, mask, dropout, causal, enable_gqa)
    if mask is not None and mask.dtype is torch.bool:
        # convert_boolean_attn_mask: minus infinity where the mask is false
        mask = aten.where(mask, 0.0, aten.scalar_tensor(-math.inf, dtype=q.dtype, device=mask.device))
    out: Any
    if kernel == "cudnn":
        out = aten._scaled_dot_product_cudnn_attention(
            q, k, v, mask, asked.training, dropout, causal, False, scale=scale
        )[0]
    elif kernel == "flash":
        out = _padded_flash(q, k, v, dropout, causal, scale)
    elif kernel == "efficient":
        bias = None if mask is None else _aligned_bias(mask, q, k)
        out = aten._scaled_dot_product_efficient_attention(q, k, v, bias, asked.training, dropout, causal, scale=scale)[
            0
        ]
    else:
        extra = {"enable_gqa": True} if enable_gqa else {}
        with recorder.sums.in_place(None):  # the mask is added into the scores
            out = aten._scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, None, scale=scale, **extra)[0]
    return out, kernel


def _padded_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float, causal: bool, scale: float | None
) -> Any:
    """Flash attention takes widths that are multiples of 8: others are padded, the result is cut."""
    width = q.shape[-1]
    missing = -width % 8
    if missing:
        scale = 1 / math.sqrt(width) if scale is None else scale
        q, k, v = (aten.constant_pad_nd(t, [0, missing], 0.0) for t in (q, k, v))
    out = aten._scaled_dot_product_flash_attention(q, k, v, dropout, causal, False, scale=scale)[0]
    return out[..., :width] if missing else out


def _aligned_bias(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """`preprocess_mask`: rows at multiples of 8 elements, expanded to the scores' shape."""
    if mask.stride(-1) != 1 or any(stride % 8 for stride in mask.stride()[:-1]):
        last = mask.shape[-1]
        mask = aten.constant_pad_nd(mask, [0, 8 - last % 8], 0.0)[..., :last]
    return mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])

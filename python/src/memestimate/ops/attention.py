"""Which kernel scaled dot product attention runs on the pretended GPU.

`scaled_dot_product_attention` is made of other operators, and which of them it takes is decided
in C++ by looking at the real device: without one it always writes the scores out. So the choice
is made here, by the rules of attention_rules.py, and the
operator is put together as aten/src/ATen/native/transformers/attention.cpp does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session
from ..pretend.attention_rules import Libraries, choose, query, takes
from ..pretend.host import cudnn_version
from .sums import Sums

aten = torch.ops.aten
handles: Table[Handler] = Table("attention")


def on_host(out: list[Any], places: tuple[int, int]) -> None:
    for i in places:
        out[i] = torch.zeros((), dtype=torch.int64, device="cpu")


@handles(aten._scaled_dot_product_efficient_attention.default)
def efficient(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    fake: Any = session.fake.__torch_dispatch__(func, (FakeTensor,), args, kwargs)
    out = list(fake)
    on_host(out, (2, 3))  # seed and offset of the dropout (_scaled_dot_product_efficient_attention_cuda)
    session.log(func, args, kwargs, out)
    return tuple(out)


@handles(aten._scaled_dot_product_flash_attention.default)
def flash(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    fake: Any = session.fake.__torch_dispatch__(func, (FakeTensor,), args, kwargs)
    out = list(fake)
    if out[6].dtype is torch.int64:  # PyTorch 2.6; later versions have seed and offset on the GPU, unsigned
        on_host(out, (6, 7))
    session.log(func, args, kwargs, out)
    return tuple(out)


@handles(aten._scaled_dot_product_efficient_attention_backward.default)
def efficient_backward(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Where queries share keys, their gradients are made for each head of queries, then added up."""
    query, key, value = args[1:4]
    if query.shape[1] == key.shape[1]:
        return NotImplemented
    shape = query.shape[0], key.shape[2], query.shape[1]
    with session.capture:
        whole = [torch.empty((*shape, t.shape[-1]), dtype=t.dtype, device=t.device) for t in (key, value)]
    out = session.fake.__torch_dispatch__(func, (FakeTensor,), args, kwargs)
    session.log(func, args, kwargs, out)
    del whole
    return out


def install(session: Session) -> None:
    """Answer programs, and PyTorch's attention over ragged tensors, that ask C++ whether a kernel can be used.

    nn.TransformerEncoder packs padded sequences into nested tensors in inference, of which nothing is known but their
    values: it is told that it cannot, and computes the padding, too.
    """
    text = "nn.TransformerEncoder was recorded with its padding, which a GPU's nested tensors leave out: an upper bound"

    def aligned(x: torch.Tensor, mask: torch.Tensor) -> bool:
        session.note("nested", text)
        return False

    session.patches.set(torch, "_nested_tensor_from_mask_left_aligned", aligned)

    def answer(kernel: str) -> Callable[..., bool]:
        def can_use(params: Any, debug: bool = False) -> bool:
            tensors = params.query, params.key, params.value
            mask, gqa = params.attn_mask, getattr(params, "enable_gqa", False)
            asked = query(*tensors, mask, params.dropout, params.is_causal, gqa)
            if any(t.is_nested for t in tensors):  # whose lengths are not numbers; not empty, as nearly always
                asked = replace(asked, lengths=(2, 2))
            return takes(kernel, asked, _libraries(session))

        return can_use

    for kernel in ("cudnn", "flash", "efficient"):
        name = "mem_efficient" if kernel == "efficient" else kernel
        session.patches.set(torch._C, f"_can_use_{name}_attention", answer(kernel))


def decide(
    session: Session,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    gqa: bool = False,
) -> str:
    """The kernel that the recording's GPU takes with this PyTorch and cuDNN."""
    return choose(query(q, k, v, mask, dropout, causal, gqa), _libraries(session))


def _libraries(session: Session) -> Libraries:
    major, minor = torch.__version__.split(".")[:2]
    return Libraries(session.gpu.capability, cudnn_version(), (int(major), int(minor)))


def attend(
    session: Session,
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
    kernel = decide(session, q, k, v, mask, dropout, causal, enable_gqa)
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
        with session.part(Sums).in_place(None):  # the mask is added into the scores
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

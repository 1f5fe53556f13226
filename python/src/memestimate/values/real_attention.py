"""Attention with real values: written out on the CPU in place of the GPU's kernels, without their dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

_CAUSAL = (1, 2)  # custom_mask_type of `_efficient_attention_forward`, seen from the first key and from the last


def stand_in(func: OpOverload) -> Callable[..., Any] | None:
    """What gives the results of a kernel of attention; None of another operator."""
    name = func._schema.name.removeprefix("aten::")
    if name.startswith("_scaled_dot_product_") and not name.endswith("_math"):
        return _attention_backward(func) if name.endswith("_backward") else _attention(func)
    if name in ("_efficient_attention_forward", "_flash_attention_forward"):
        return _ragged(func, _attention(func))
    if name in ("_efficient_attention_backward", "_flash_attention_backward"):
        return _ragged(func, _attention_backward(func))
    return None


def _ragged(func: OpOverload, dense: Callable[..., Any]) -> Callable[..., Any]:
    """Sequences one after the other, [tokens, heads, width] or with a dimension of one before: each sees itself."""

    def run(*args: Any, **kwargs: Any) -> Any:
        given = _named(func, args, kwargs)
        packed = given["query"].dim() == 3

        def turned(tensor: torch.Tensor) -> torch.Tensor:
            return (tensor[None] if packed else tensor).transpose(1, 2)

        names = ("query", "key", "value", "grad_out", "grad_out_")
        heads = {name: turned(given[name]) for name in names if name in given}
        queries, keys = heads["query"].shape[2], heads["key"].shape[2]
        seen = torch.ones(queries, keys, dtype=torch.bool, device="cpu")
        begins = [given.get(f"cu_seqlens_{x}", given.get(f"cum_seq_{x}")) for x in "qk"]
        if begins[0] is not None:
            of = [_sequence(n, b) for n, b in zip((queries, keys), begins, strict=True)]
            seen = of[0][:, None] == of[1][None]
        if given.get("is_causal") or given.get("custom_mask_type") in _CAUSAL:
            seen = seen & torch.ones_like(seen).tril()
        mask = torch.zeros(seen.shape, device="cpu").masked_fill(seen.logical_not(), -math.inf)
        bias = mask if given.get("bias") is None else mask + given["bias"]
        results = dense(**heads, attn_bias=bias.to(heads["query"].dtype), scale=given.get("scale"))
        back = [t.transpose(1, 2) for t in results]
        return [t[0] for t in back] if packed else back

    return run


def _sequence(tokens: int, begins: Any) -> torch.Tensor:
    """The number of the sequence that each token is of."""
    return torch.bucketize(torch.arange(tokens, device="cpu"), begins[1:], right=True)


def _named(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {a.name: value for a, value in zip(func._schema.arguments, args, strict=False)} | dict(kwargs)


def _attention(func: OpOverload) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        given = _named(func, args, kwargs)
        return [_weights(given) @ _repeated(given, "value")]

    return forward


def _attention_backward(func: OpOverload) -> Callable[..., Any]:
    def backward(*args: Any, **kwargs: Any) -> Any:
        given = _named(func, args, kwargs)
        grad = given["grad_out" if "grad_out" in given else "grad_out_"]
        weights = _weights(given)
        towards = grad @ _repeated(given, "value").transpose(-1, -2)
        scores = weights * (towards - (weights * towards).sum(-1, keepdim=True)) * _scale(given)
        key, value = scores.transpose(-1, -2) @ given["query"], weights.transpose(-1, -2) @ grad
        heads = given["key"].shape[1]
        shared = [t.unflatten(1, (heads, -1)).sum(2) for t in (key, value)]
        return [scores @ _repeated(given, "key"), *shared]

    return backward


def _weights(given: Mapping[str, Any]) -> torch.Tensor:
    """What each query takes of each value, without dropout."""
    scores: torch.Tensor = given["query"] @ _repeated(given, "key").transpose(-1, -2) * _scale(given)
    if given.get("attn_bias") is not None:
        scores = scores + given["attn_bias"]
    if given.get("is_causal"):
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cpu").tril()
        scores = scores.masked_fill(seen.logical_not(), -math.inf)
    return scores.softmax(-1)


def _repeated(given: Mapping[str, Any], name: str) -> torch.Tensor:
    tensor: torch.Tensor = given[name]
    return tensor.repeat_interleave(given["query"].shape[1] // tensor.shape[1], 1)


def _scale(given: Mapping[str, Any]) -> float:
    scale: float | None = given.get("scale")
    return given["query"].shape[-1] ** -0.5 if scale is None else scale

"""flex_attention as `torch.compile` makes it: kernels that never hold the scores of all pairs.

Uncompiled, it is made of operators that do, and PyTorch warns of it; nobody trains so. What is recorded of a program
that compiles are the buffers of Inductor's kernels (torch/_inductor/kernel/flex/flex_attention.py), in its order.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator

from ..compiled.compiler import Compiler
from ..core.handlers import Arguments
from ..core.session import Session


class Flex:
    """Whether the program compiles flex_attention, and what then runs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._results = 3

    def run(self, name: str, args: Sequence[Any]) -> Any:
        """Answer the operator of that name as compiled code does; `NotImplemented` of any other, and uncompiled."""
        if "inductor" not in self._session.part(Compiler).left_out or name not in (
            "flex_attention",
            "flex_attention_backward",
        ):
            return NotImplemented
        text = "flex_attention was recorded as torch.compile makes it, by the buffers of its kernels"
        self._session.note("flex", text)
        if name == "flex_attention_backward":
            return _backward(*args)
        query, _, value = args[:3]
        return _forward(query, value, self._results)


def install(session: Session) -> None:
    """Look at the scores' functions before they are traced: what they capture is a constant from then on."""
    flex = session.part(Flex)
    operators = importlib.import_module("torch._higher_order_ops.flex_attention")
    trace = operators.create_fw_bw_graph
    # A gradient for each result: output, log of sums and, from PyTorch 2.9 on, the largest scores.
    backward = inspect.signature(operators.FlexAttentionAutogradOp.backward)
    flex._results = sum(name.startswith("grad_") for name in backward.parameters)

    def tracing(score_mod: Any, *args: Any, **kwargs: Any) -> Any:
        for cell in getattr(score_mod, "__closure__", None) or ():
            captured = cell.cell_contents
            if isinstance(captured, torch.Tensor) and captured.requires_grad:
                text = f"the gradient of {list(captured.shape)}, which flex_attention's scores use, is not recorded"
                session.note("flex", text)
        return trace(score_mod, *args, **kwargs)

    session.patches.set(operators, "create_fw_bw_graph", tracing)


def _forward(query: torch.Tensor, value: torch.Tensor, results: int) -> tuple[torch.Tensor, ...]:
    rows = query.shape[:3]
    numbers = [torch.empty(rows, dtype=torch.float32, device=query.device) for _ in range(results - 1)]
    return _dense((*rows, value.shape[-1]), query), *numbers


def _backward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    grad_out: torch.Tensor | None,
    grad_logsumexp: torch.Tensor | None,
    *rest: Any,
) -> tuple[Any, ...]:
    delta = torch.empty(out.shape[:3], dtype=torch.float32, device=query.device)
    scaled = torch.empty_like(delta) if grad_logsumexp is not None else None
    grad_query = _dense(query.shape, query)
    batch = query.shape[0]
    grad_value, grad_key = (_dense((batch, *t.shape[1:]), t) for t in (value, key))
    if key.shape[0] != batch:  # keys that all samples share
        grad_key, grad_value = grad_key.sum(0, keepdim=True), grad_value.sum(0, keepdim=True)
    captured = rest[5] if len(rest) > 5 else ()
    asked = [isinstance(t, torch.Tensor) and t.requires_grad for t in captured]
    grads = tuple(torch.zeros_like(t) if wanted else None for t, wanted in zip(captured, asked, strict=True))
    del delta, scaled
    return grad_query, grad_key, grad_value, grads


def _dense(size: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """A tensor of this size whose dimensions lie in the order of another's, without gaps."""
    order = sorted(range(len(size)), key=lambda i: (like.stride(i), -i))
    strides, step = [0] * len(size), 1
    for i in order:
        strides[i] = step
        step *= size[i]
    return torch.empty_strided(tuple(size), strides, dtype=like.dtype, device=like.device)


def higher_order(session: Session, func: HigherOrderOperator, args: Arguments) -> Any:
    """Answer flex_attention as compiled code does; say NotImplemented of any other operator."""
    return session.part(Flex).run(func.name(), args)

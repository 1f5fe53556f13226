"""Recurrent layers with real values: the CPU's operators in place of cuDNN's, without their dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def forward(*args: Any) -> list[torch.Tensor]:
    """`_cudnn_rnn`, but for what it keeps for its backward pass and nobody else reads."""
    x, weights, stride, _, hx, cx, mode, _, _, layers, batch_first, _, train, both, sizes = args[:15]
    run = (aten.rnn_relu, aten.rnn_tanh, aten.lstm, aten.gru)[mode]
    state: Any = [hx, cx] if mode == 2 else hx
    options = (weights, stride >= 4, layers, 0.0, train, both)
    if sizes:
        return list(run.data(x, torch.tensor(sizes, device="cpu"), state, *options))
    return list(run.input(x, state, *options, batch_first))


def backward(*args: Any) -> list[Any]:
    """`_cudnn_rnn_backward`, which is told what the forward pass was told, and the gradients of its results."""
    x, weights, stride, block, hx, cx, _, *gradients = args[:10]
    wanted = args[-1]
    # Here it is below autograd, whose operators are to run all the same.
    guard = torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False)
    with torch.enable_grad(), guard:
        inputs = [None if t is None else t.detach().requires_grad_() for t in (x, hx, cx, *weights)]
        results = forward(inputs[0], inputs[3:], stride, block, inputs[1], inputs[2], *args[10:])
        pairs = [(out, grad) for out, grad in zip(results, gradients, strict=False) if grad is not None]
        outs, grads = [out for out, _ in pairs], [grad.reshape(out.shape) for out, grad in pairs]
        leaves = [t for t in inputs if t is not None]
        found = iter(torch.autograd.grad(outs, leaves, grads, allow_unused=True, materialize_grads=True))
    of = [None if t is None else next(found) for t in inputs]
    return [*of[:3], of[3:] if wanted[3] else []]


def _flattened(weights: Sequence[torch.Tensor], *_: Any) -> torch.Tensor:
    return torch.cat([weight.flatten() for weight in weights])


def lstm_cell(inputs: Any, hidden: Any, cx: Any, *biases: Any) -> tuple[torch.Tensor, ...]:
    """`_thnn_fused_lstm_cell` (cuda/RNN.cu), which keeps its four gates."""
    gates = sum([b for b in biases if b is not None], inputs + hidden).chunk(4, 1)
    i, f, g, o = gates[0].sigmoid(), gates[1].sigmoid(), gates[2].tanh(), gates[3].sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(grad_hy: Any, grad_cy: Any, cx: Any, cy: Any, gates: Any, has_bias: bool) -> tuple[Any, ...]:
    i, f, g, o = gates.chunk(4, 1)
    grad_hy = torch.zeros_like(cx) if grad_hy is None else grad_hy
    along = grad_hy * o * (1 - cy.tanh().square()) + (0 if grad_cy is None else grad_cy)
    parts = (
        along * g * i * (1 - i),
        along * cx * f * (1 - f),
        along * i * (1 - g * g),
        grad_hy * cy.tanh() * o * (1 - o),
    )
    found = torch.cat(parts, 1)
    return found, along * f, found.sum(0) if has_bias else torch.empty(0, device="cpu")


def gru_cell(inputs: Any, hidden: Any, hx: Any, *biases: Any) -> tuple[torch.Tensor, ...]:
    """`_thnn_fused_gru_cell` (cuda/RNN.cu), which keeps its gates, its state and what the reset gate scales."""
    given, of_hidden = (
        [gates if bias is None else gates + bias for gates, bias in zip((inputs, hidden), biases, strict=True)]
        if biases
        else (inputs, hidden)
    )
    (ir, iz, new), (hr, hz, scaled) = given.chunk(3, 1), of_hidden.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (new + r * scaled).tanh()
    return n + z * (hx - n), torch.cat([r, z, n, hx, scaled], 1)


def gru_cell_backward(grad: Any, kept: Any, has_bias: bool) -> tuple[Any, ...]:
    r, z, n, hx, scaled = kept.chunk(5, 1)
    for_new = grad * (1 - z) * (1 - n * n)
    first = for_new * scaled * r * (1 - r), grad * (hx - n) * z * (1 - z)
    pair = torch.cat([*first, for_new], 1), torch.cat([*first, for_new * r], 1)
    none = torch.empty(0, device="cpu")
    return *pair, grad * z, *[t.sum(0) if has_bias else none for t in pair]


STAND_INS: dict[str, Callable[..., Any]] = {
    "_cudnn_init_dropout_state": lambda *args, **kwargs: [],  # of a generator that nothing else reads
    "_cudnn_rnn": forward,
    "_cudnn_rnn_backward": backward,
    "_cudnn_rnn_flatten_weight": _flattened,
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}

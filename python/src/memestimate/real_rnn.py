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


STAND_INS: dict[str, Callable[..., Any]] = {
    "_cudnn_init_dropout_state": lambda *args, **kwargs: [],  # of a generator that nothing else reads
    "_cudnn_rnn": forward,
    "_cudnn_rnn_backward": backward,
    "_cudnn_rnn_flatten_weight": _flattened,
}

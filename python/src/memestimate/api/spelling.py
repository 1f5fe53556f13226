"""Settings in the words of PyTorch's users: ``torch.bfloat16``, ``"O1"``, ``"SGD(momentum=0.9)"``, ``"4090"``.

The words are those that the program takes (`words`), so that its flags and these arguments mean the same.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from ..core.words import LOSSES, MODES, NOT_MODELLED, OPTIMIZERS, PRECISIONS

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
Loss = Callable[..., torch.Tensor]

_PRECISIONS = ("fp32", "amp-bf16", "amp-fp16", "bf16", "fp16")
_MODES = ("train", "infer")
_LOSSES: dict[str, Loss] = {
    "cross-entropy": nn.functional.cross_entropy,
    "nll": nn.functional.nll_loss,
    "mse": nn.functional.mse_loss,
    "l1": nn.functional.l1_loss,
    "smooth-l1": nn.functional.smooth_l1_loss,
    "bce-logits": nn.functional.binary_cross_entropy_with_logits,
}
# What follows an optimizer's name in the program's words, "adamw-fused": arguments that change what it keeps.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "wd": {"weight_decay": 0.01},
    "nesterov": {"nesterov": True},
    "amsgrad": {"amsgrad": True},
    "centered": {"centered": True},
    "fused": {"fused": True},
}


def precision(typed: str | torch.dtype) -> str:
    """Return the name of element types: ``"bf16"`` for ``torch.bfloat16``.

    Raises
    ------
    ValueError
        If the word is not known, or means what is not modelled.
    """
    name = _plain(str(typed)).removeprefix("torch.")
    if name in NOT_MODELLED:
        raise ValueError(f"precision: {NOT_MODELLED[name]}")
    return _one_of("precision", typed, PRECISIONS.get(name, name), _PRECISIONS)


def mode(typed: str) -> str:
    """Return ``"train"`` or ``"infer"``, for ``"eval"`` and others too.

    Raises
    ------
    ValueError
        If the word is not known.
    """
    return _one_of("mode", typed, MODES.get(_plain(typed), _plain(typed)), _MODES)


def loss(typed: object) -> Loss:
    """Return a criterion as a function: of its name, of a class of `torch.nn`, or of what can be called already.

    Raises
    ------
    ValueError
        If no criterion of this name is known.
    TypeError
        If it is neither a name nor a function.
    """
    if isinstance(typed, type) and issubclass(typed, nn.Module):
        return typed()
    if callable(typed):
        return typed
    if not isinstance(typed, str):
        raise TypeError(f"loss is {typed!r}: give a function, such as torch.nn.functional.mse_loss")
    last = typed.strip().lower().removesuffix("()").rpartition(".")[2]
    key = re.sub("[-_ ]", "", last).removesuffix("loss")
    return _LOSSES[_one_of("loss", typed, LOSSES.get(key, last), tuple(_LOSSES))]


def optimizer(typed: object) -> MakeOptimizer:
    """Return what makes an optimizer: of ``"AdamW"``, ``"torch.optim.SGD(momentum=0.9)"``, or of what can be called.

    Raises
    ------
    ValueError
        If torch.optim has no such optimizer, or its arguments cannot be read.
    TypeError
        If it is an optimizer that there is already, whose parameters are others, or neither a name nor a function.
    """
    if isinstance(typed, torch.optim.Optimizer):
        name = type(typed).__name__
        raise TypeError(f"optimizer is an object: give torch.optim.{name}, or functools.partial of it")
    if callable(typed):
        return typed
    if not isinstance(typed, str):
        raise TypeError(f"optimizer is {typed!r}: give a class, such as torch.optim.AdamW, or its name")
    name, called, rest = typed.strip().partition("(")
    name = re.sub("^(torch[.])?optim[.]|^transformers[.]", "", _plain(name))
    base, *settings = OPTIMIZERS.get(name, name).split("-")
    if base == "sgdm":
        base, settings = "sgd", ["momentum", *settings]
    arguments: dict[str, Any] = {}
    for setting in settings:
        if setting not in _ARGUMENTS:
            raise ValueError(f"optimizer {typed!r}: {setting!r} is not known, for example 'SGD(momentum=0.9)'")
        arguments.update(_ARGUMENTS[setting])
    if called:
        arguments.update(_keywords(typed, "f(" + rest))
    known = {n.lower(): c for n, c in vars(torch.optim).items() if isinstance(c, type)}
    made = known.get(base)
    if made is None or made is torch.optim.Optimizer or not issubclass(made, torch.optim.Optimizer):
        raise ValueError(f"optimizer {typed!r}: torch.optim has none of this name; give a class or a function")
    if base == "sgd":
        arguments.setdefault("lr", 0.001)  # which it needs before PyTorch 2.2, and which takes no memory
    return functools.partial(made, **arguments) if arguments else made


def _one_of(setting: str, typed: object, name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ValueError(f"{setting} {typed!r} is not known: {', '.join(known)}")
    return name


def _plain(typed: str) -> str:
    return re.sub("[_ ]", "-", typed.strip().lower())


def _keywords(typed: str, call: str) -> dict[str, Any]:
    """Read the named arguments of a call whose values are literals; those without a name are parameters and lr."""
    try:
        node = ast.parse(call, mode="eval").body
        if not isinstance(node, ast.Call):
            raise ValueError
        return {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg not in (None, "params")}
    except (SyntaxError, ValueError):
        raise ValueError(f"optimizer {typed!r} cannot be read, want for example 'SGD(lr=0.1, momentum=0.9)'") from None

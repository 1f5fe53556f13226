"""Calls for which PyTorch has no rule of shapes: run on the host, to see what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._ops import OpOverload

from ..core.session import Session
from ..core.tensors import on_host, tensors
from ..values import stand_ins
from ..values.decisions import Decisions
from ..values.values import Values
from . import extensions

_SUBSETS = {"torchvision::nms"}  # operators that give numbers of rows of their first argument, each once at most
_TRIED = 1 << 26  # elements of all tensors of a call
_KEPT = 1 << 20  # elements of a result whose values are known then


def try_out(session: Session, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Any:
    """Run a call on the host. Tensors whose values are not known hold ones there.

    With other numbers in their places it shows whether the results' shapes hang on them.

    Raises
    ------
    Exception
        `error`, if the call is too large.
    RuntimeError
        It fails on the host, too.
    """
    if session.part(Values).real is None:
        out = extensions.run(session, func, args, kwargs)
        if out is not NotImplemented:
            return out
    if not func._schema.returns:  # it writes alone, as a fused step of SGD does
        session.log(func, args, kwargs, None)
        session.part(Values).follow(func, args, kwargs, None)
        return None
    given = list(tensors([list(args), list(kwargs.values())]))
    _need_strided(func, given, error)
    if func._schema.name in _SUBSETS and any(session.part(Values).get(t) is None for t in given):
        return _subset(session, func, args, kwargs)
    cure = extensions.cure(func)
    if sum(t.numel() for t in given) > _TRIED:
        if not cure:
            raise error
        raise RuntimeError(f"{func} cannot be recorded: it has no rule of shapes{cure}") from error

    def run(fill: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        def real(tensor: torch.Tensor) -> torch.Tensor:
            known = session.part(Values).get(tensor)
            return fill(tensor) if known is None else known.clone()

        return _on_host(func, on_host(args, real), {key: on_host(value, real) for key, value in kwargs.items()})

    try:
        results = run(_ones)
    except Exception as failed:
        text = f"{func} cannot be recorded: PyTorch has no rule for its result's shape, and on the host it fails"
        raise RuntimeError(f"{text} ({str(failed).partition(chr(10))[0]}){cure}") from error
    _need_strided(func, tensors(results), error)
    if any(t.is_nested for t in tensors(results)):
        raise RuntimeError(f"{func} cannot be recorded: it makes a nested tensor, which layout=torch.jagged can be")
    if func._schema.is_mutable:
        out = args[0]
    else:
        if any(session.part(Values).get(t) is None for t in given):
            results = _decided(session, func, results, run)
        out = _map(results, lambda t: session.empty(t.shape, t.dtype, t.stride()))
    session.note("fallback", f"{func} has no rule of shapes; its results are those of a run on the host")
    session.log(func, args, kwargs, out)
    drawn = func._schema.is_mutable or torch.Tag.nondeterministic_seeded in func.tags
    if given and not drawn and all(session.part(Values).get(t) is not None for t in given):
        likely = next(filter(None, map(session.part(Values).likely, given)), "")
        for fake, value in zip(tensors(out), tensors(results), strict=True):
            if value.numel() <= _KEPT:
                session.part(Values).set(fake, value, likely)
    return out


def _need_strided(func: OpOverload, given: Iterable[torch.Tensor], error: Exception) -> None:
    """Refuse sparse tensors, of whose values and indices a run on the host tells nothing."""
    layout = next((t.layout for t in given if t.layout is not torch.strided), None)
    if layout is not None:
        name = str(layout).removeprefix("torch.")
        raise RuntimeError(
            f"{func} of a tensor of layout {name} cannot be recorded: there is no rule for it"
        ) from error


def _on_host(func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a call; in float32 where the host's kernel has no half types, of which a GPU's result is."""
    half = next((t.dtype for t in tensors([args, *kwargs.values()]) if t.dtype in stand_ins.HALF), None)
    try:
        return func(*args, **kwargs)
    except RuntimeError:
        if half is None or func._schema.is_mutable:
            raise
        results = stand_ins.in_float32(func, args, kwargs)
        return _map(results, lambda t: t.to(half) if t.dtype is torch.float32 else t)


def _subset(session: Session, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The most that a call can give which chooses among the rows of its first argument: all of them."""
    count = args[0].shape[0]
    text = f"all of {count} rows are kept by {func._schema.name}"
    session.note("kept", f"{text}: an upper bound")
    out = session.empty((session.part(Decisions).size(count, min(count, 1), text, count),), torch.int64)
    session.log(func, args, kwargs, out)
    session.part(Decisions).made(out)
    return out


def _decided(session: Session, func: OpOverload, results: Any, run: Callable[..., Any]) -> Any:
    """The results of ones; or of other values, where their shapes are others and these shall be tried."""
    try:
        others = run(_rising)
    except Exception:  # whatever the operator makes of values that nobody has chosen for it
        return results
    if [t.shape for t in tensors(results)] == [t.shape for t in tensors(others)]:
        return results
    return others if session.part(Decisions).size(0, 1, f"what {func} gives of tensors of ones", 1) else results


def _ones(like: torch.Tensor) -> torch.Tensor:
    return torch.ones(like.shape, dtype=like.dtype, device="cpu")


def _rising(like: torch.Tensor) -> torch.Tensor:
    """Numbers that rise along the last dimension, as the corners of boxes do, and differ otherwise."""
    if not like.dtype.is_floating_point or like.dim() == 0:
        return _ones(like)
    return torch.arange(like.numel(), device="cpu").remainder(7).reshape(like.shape).cumsum(-1).to(like.dtype)


def _map(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map(item, function) for item in value)
    return value

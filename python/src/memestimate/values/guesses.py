"""Single values that nobody knows: each is taken to be 1, and what is computed of it follows from that."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.tensors import on_host, tensors
from .facts import Guess, facts, known

if TYPE_CHECKING:
    from .values import Values

_TRUE = ("all", "equal", "isfinite", "isclose", "allclose", "_is_all_true")  # what a sane program checks
_FINITE = ("isfinite", "isnan", "isinf")
# What keeps each element of a tensor of whole numbers as far from another's as it was: where a slice begins and ends.
_MOVED: dict[str, Callable[[int, int], int]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
# What chooses elements; the largest and the smallest of those are taken to be the largest and the smallest of all.
_CHOOSES = ("index", "index_select", "gather", "take", "masked_select")
_ENDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = dict.fromkeys(("max", "amax"), torch.max)
_ENDS |= dict.fromkeys(("min", "amin"), torch.min)
_SEEN = (
    "select",
    "slice",
    "view",
    "unsqueeze",
    "squeeze",
    "index",
    "expand",
    "detach",
    "clone",
    "alias",
    "t",
    "transpose",
)


class Guesses:
    """Guesses by tensor: part of what is known of values."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def of(self, tensor: torch.Tensor) -> Guess:
        """What to take for an unknown value."""
        found = known(tensor).guess
        return Guess(_plausible(tensor.dtype)) if found is None else found

    def follow(self, tensor: FakeTensor, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Guess what a call gives whose result has one element."""
        name = func._schema.name.removeprefix("aten::")
        given = [t for t in tensors([list(args), list(kwargs.values())]) if isinstance(t, FakeTensor)]
        span = max([max(t.shape) if t.numel() > 1 else self.of(t).span for t in given], default=0)
        first = given[0] if given else None
        is_mask = first is not None and first.numel() > 1 and self._values.shares.is_mask(first)
        if first is not None and is_mask and name in ("sum", "count_nonzero"):
            count = self._values.taken_count(first)  # as many as indexing by the mask takes
            numbers = first.dtype is not torch.bool or tensor.dtype.is_floating_point
            guess = Guess(float(count) if tensor.dtype.is_floating_point else count, name, span)
            guess = guess if numbers else guess._replace(counted=first)
        elif name == "dot" and (slope := known(args[0]).slope) is not None and args[0] is not args[1]:
            guess = Guess(slope, name)
        elif name in _ENDS and first is not None and (among := self.of(first).among) is not None:
            guess = Guess(int(_ENDS[name](among)), name, span)
        elif name == "select" and isinstance(drawn := self._drawn(first), torch.Tensor):
            guess = Guess(func(drawn, *args[1:]).item(), name, span)
        elif name in ("all", "any") and first is not None and (share := self._share(first)) in (0.0, 1.0):
            guess = Guess(share == 1.0, name, span, sane=True)
        elif name in _TRUE:
            guess = Guess(True, name, span, sane=name in _FINITE or self._is_sane(given[0]))
        else:
            computed = self._computed(func, args, kwargs, given)
            asks = name in _FINITE or is_finite(name, args) is not None
            sane = asks or (bool(given) and all(self._is_sane(t) for t in given))
            guess = Guess(_plausible(tensor.dtype) if computed is None else computed, name, span, sane=sane)
        facts(tensor).guess = guess

    def move(self, out: FakeTensor, func: OpOverload, args: Sequence[Any]) -> None:
        """Guess what a call gives that adds to whole numbers of which each is guessed alike, or looks at them."""
        name = func._schema.name.removeprefix("aten::")
        source = args[0] if args and isinstance(args[0], FakeTensor) else None
        if source is None or source.dtype.is_floating_point or source.dtype is torch.bool or source.numel() == 1:
            return
        guess = self.of(source)
        whole = self._values.get(source) if name in _CHOOSES else None
        if whole is not None and whole.numel() > 0:
            facts(out).guess = guess._replace(among=whole)
        elif name in _MOVED and isinstance(args[1], int) and isinstance(guess.value, int):
            facts(out).guess = guess._replace(value=_MOVED[name](guess.value, args[1]), among=None)
        elif name in _SEEN and known(source).guess is not None:
            facts(out).guess = guess

    def _drawn(self, tensor: FakeTensor | None) -> torch.Tensor | None:
        """What the elements are taken to be of a tensor of indices, as a copy of it on the host has them."""
        structures = self._values.structures
        found = structures.of(tensor)
        return structures.draw(tensor) if found is not None and found.kind == "indices" and tensor is not None else None

    def _share(self, mask: torch.Tensor) -> float | None:
        """Which part of a mask that nobody knows is set, if that is all or nothing."""
        share = self._values.shares.of(mask)
        return share.share if mask.numel() > 1 and share.is_exact else None

    def _is_sane(self, tensor: torch.Tensor) -> bool:
        """Whether it says of each element that it is finite, or that it is not."""
        return self.of(tensor).sane if tensor.numel() == 1 else self._values.shares.of(tensor).is_exact

    def _computed(
        self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], given: list[FakeTensor]
    ) -> bool | int | float | complex | None:
        if not given or any(t.numel() != 1 or t.layout is not torch.strided for t in given):
            return None
        if not self._values.is_pure(func):
            return None
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = func(
                    *on_host(list(args), self._real), **{k: on_host(v, self._real) for k, v in kwargs.items()}
                )
            found = next(tensors(result)).item()
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, StopIteration):
            return None
        return None if isinstance(found, float) and not math.isfinite(found) else found

    def _real(self, tensor: torch.Tensor) -> torch.Tensor:
        held = self._values.get(tensor)
        if held is None:
            return torch.full(tensor.shape, self.of(tensor).value, dtype=tensor.dtype, device="cpu")
        return held.clone()


def is_finite(name: str, args: Sequence[Any]) -> bool | None:
    """What a comparison says that `isfinite`, `isnan` and `isinf` are made of (TensorCompare.cpp); None of others."""
    if name not in ("eq", "ne") or len(args) < 2:
        return None
    if args[0] is args[1] or (isinstance(args[1], float) and math.isnan(args[1])):
        return (name == "eq") is (args[0] is args[1])
    return (name == "ne") if isinstance(args[1], float) and math.isinf(args[1]) else None


def _plausible(dtype: torch.dtype) -> bool | int | float | complex:
    if dtype is torch.bool:
        return False
    return 1j if dtype.is_complex else 1.0 if dtype.is_floating_point else 1

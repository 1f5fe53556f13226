"""Which elements were chosen, and by what: of those that `labels >= 1` has chosen it is known that they are at least 1.

Samplers of detectors choose so many elements by one condition and so many by another, and later ask which of those that
were chosen meet the first. No values are needed to answer: a mask that compares a tensor is remembered with the limits,
so are the indices taken from it, and what is taken from that tensor at those indices lies between the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.tensors import tensors
from . import facts
from .facts import Of, Origin, Part
from .masks import is_mask

if TYPE_CHECKING:
    from .values import Values

_SAME = ("view", "_unsafe_view", "alias", "detach", "clone", "_to_copy", "unsqueeze", "squeeze", "unbind")
_SOME = ("select", "slice", "split", "split_with_sizes")
_COMPARED = ("eq", "ge", "gt", "le", "lt")
_EITHER = ("bitwise_or", "logical_or", "add")
_ANY = 1 << 62  # more than there are
_BOTH = ("bitwise_and", "logical_and", "mul")


class Origins:
    """Origins by tensor, forgotten when its storage is written."""

    def __init__(self, values: Values) -> None:
        self._values = values
        rules: dict[str, Callable[[Sequence[Any]], Origin | None]] = dict.fromkeys(_COMPARED, self._nothing)
        rules |= dict.fromkeys(_SAME + _SOME, lambda args: self._of(args[0]))
        rules["nonzero"] = lambda args: self._of(args[0]) if args[0].dim() == 1 else None
        rules |= dict.fromkeys(_EITHER, self._either)
        rules |= dict.fromkeys(_BOTH, self._both)
        rules |= {"cat": self._joined, "index": self._taken, "index_select": lambda args: self._at(args[0], args[2])}
        rules |= dict.fromkeys(("index_put", "index_put_"), self._put)
        rules |= dict.fromkeys(("index_fill", "index_fill_"), lambda args: self._set(args[0], args[2], args[3]))
        self._rules = rules

    def true_of(self, name: str, args: Sequence[Any]) -> tuple[int, bool] | None:
        """Of how many elements, at most, a comparison with a number is true; None where nobody knows.

        And whether it may be of fewer: a sampler takes what meets its first condition, as far as there is some, and
        fills up with what meets another one.
        """
        origin = self._of(args[0]) if name in _COMPARED and _is_number(args[1]) else None
        if origin is None or origin.chosen:
            return None
        low, high = _limits(name, args)
        true = [part.most for part in origin.parts if part.low <= high and low <= part.high]
        first = origin.parts[0]
        return sum(true), len(true) < len(origin.parts) and first.low <= high and low <= first.high

    def read(self, func: OpOverload, args: Sequence[Any]) -> Origin | None:
        """What a call's results are known to be, before what it writes is forgotten."""
        name = func._schema.name.removeprefix("aten::")
        rule = self._rules.get(name)
        if rule is None:
            return None
        if name in _COMPARED and isinstance(args[0], FakeTensor) and _is_number(args[1]):
            return Origin((Part(args[0].numel(), *_limits(name, args)),), self._place(args[0]))
        return rule(args)

    def write(self, origin: Origin, out: Any) -> None:
        """Keep what `read` has found."""
        for tensor in tensors(out):
            if isinstance(tensor, FakeTensor):
                parts = tuple(part._replace(most=min(part.most, tensor.numel())) for part in origin.parts)
                facts.facts(tensor).origin = Of(Origin(parts, origin.chosen), self._values.epoch(tensor))

    def _of(self, tensor: Any) -> Origin | None:
        found = facts.known(tensor).origin if isinstance(tensor, FakeTensor) else None
        return found.fact if found is not None and found.epoch == self._values.epoch(tensor) else None

    def _place(self, tensor: FakeTensor) -> tuple[Any, ...]:
        """Which elements of which storage a tensor has, and as of when."""
        serial, epoch = self._values.serial(tensor), self._values.epoch(tensor)
        return serial, epoch, tensor.storage_offset(), tensor.shape, tensor.stride()

    def _nothing(self, args: Sequence[Any]) -> None:
        return None

    def _either(self, args: Sequence[Any]) -> Origin | None:
        a, b = self._masks(args)
        return Origin(a.parts + b.parts, a.chosen) if a and b and a.chosen == b.chosen else None

    def _both(self, args: Sequence[Any]) -> Origin | None:
        a, b = self._masks(args)
        return a or b

    def _masks(self, args: Sequence[Any]) -> tuple[Origin | None, Origin | None]:
        if not (is_mask(args[0]) and is_mask(args[1]) and args[0].shape == args[1].shape):
            return None, None
        return self._of(args[0]), self._of(args[1])

    def _joined(self, args: Sequence[Any]) -> Origin | None:
        found = [self._of(tensor) for tensor in args[0] if tensor.numel()]
        known = [origin for origin in found if origin is not None and not origin.chosen]
        return (
            Origin(tuple(p for origin in known for p in origin.parts)) if known and len(known) == len(found) else None
        )

    def _taken(self, args: Sequence[Any]) -> Origin | None:
        indices = args[1]
        return self._at(args[0], indices[0]) if len(indices) == 1 and indices[0] is not None else None

    def _at(self, tensor: Any, index: Any) -> Origin | None:
        """What is taken from a tensor: of what is known of all its elements, or of those that the index chose."""
        if not isinstance(tensor, FakeTensor):
            return None
        by = self._of(index)
        if by and by.chosen and by.chosen == self._place(tensor):
            return Origin(by.parts)
        origin = self._of(tensor)
        if origin is None:
            return None
        # An index may have each of them any number of times.
        return origin._replace(parts=tuple(part._replace(most=_ANY) for part in origin.parts))

    def _put(self, args: Sequence[Any]) -> Origin | None:
        return self._set(args[0], args[1][0], args[2]) if len(args[1]) == 1 else None

    def _set(self, mask: Any, index: Any, value: Any) -> Origin | None:
        """`mask[indices] = 1` adds what the indices chose, `= 0` nothing."""
        by, before = self._of(index), self._of(mask)
        if not (by and by.chosen and is_mask(mask)):
            return None
        if self._values.shares.of(mask).share == 0 or self._is_empty(mask):
            return by
        return Origin(before.parts + by.parts, by.chosen) if before and before.chosen == by.chosen else None

    def _is_empty(self, mask: torch.Tensor) -> bool:
        known = self._values.get(mask)
        return known is not None and not bool(known.any())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _limits(name: str, args: Sequence[Any]) -> tuple[float, float]:
    """Between which numbers the elements lie of which a comparison is true."""
    number = float(args[1])
    whole = not args[0].dtype.is_floating_point
    below = number - 1 if whole else math.nextafter(number, -math.inf)
    above = number + 1 if whole else math.nextafter(number, math.inf)
    return {
        "eq": (number, number),
        "ge": (number, math.inf),
        "gt": (above, math.inf),
        "le": (-math.inf, number),
        "lt": (-math.inf, below),
    }[name]

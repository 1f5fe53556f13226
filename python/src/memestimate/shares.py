"""How many elements are set where nobody knows which: masks and counts that come from a choice.

A router chooses among experts what no one can know without its weights. What is known is how
much it chooses: k of n for each token. Here that share is followed from `topk` or `argmax` to the
masks and counts made of it, and spread evenly over the choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from .capture import tensors

if TYPE_CHECKING:
    from .values import Values

_ATTRIBUTE = "_memestimate_share"

# Share of the elements that are not zero, and among how many alternatives each element chooses (0: none).
Known = tuple[float | None, int]
_NOTHING: Known = (None, 0)

_SAME = (
    *("view", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "alias", "detach"),
    *("select", "slice", "split", "split_with_sizes", "unbind", "index", "index_select", "clone", "_to_copy", "flip"),
)
_DIMENSION = {"topk": 2, "argmax": 1, "argmin": 1, "argsort": 1, "sort": 1, "max": 1, "min": 1}  # where it stands


class Shares:
    """Shares by tensor, forgotten when its storage is written."""

    def __init__(self, values: Values) -> None:
        self._values = values
        rules: dict[str, Callable[[Sequence[Any], Any], Known]] = {
            "eq": lambda args, out: self._compared(args, equal=True),
            "ne": lambda args, out: self._compared(args, equal=False),
            "gt": lambda args, out: (self.of(args[0])[0], 0) if _is_zero(args[1]) else _NOTHING,
            "bitwise_not": self._inverted,
            "logical_not": self._inverted,
            "scatter": self._scattered,
            "scatter_": self._scattered,
        }
        rules |= dict.fromkeys(_SAME, lambda args, out: self.of(args[0]))
        rules |= dict.fromkeys(_DIMENSION, lambda args, out: _NOTHING)  # see `read`
        rules |= dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero_"), lambda args, out: (0.0, 0))
        rules |= dict.fromkeys(("isnan", "isinf"), lambda args, out: (0.0, 0))  # as a sane program expects
        rules["isfinite"] = lambda args, out: (1.0, 0)
        self._rules = rules
        self._names: dict[OpOverload, str] = {}

    def of(self, tensor: Any) -> Known:
        """What is known about a tensor."""
        found = tensor.__dict__.get(_ATTRIBUTE) if isinstance(tensor, FakeTensor) else None
        if found is None or found[1] != self._values.epoch(tensor):
            return _NOTHING
        known: Known = found[0]
        return known

    def read(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Known:
        """What a call's results will be known to hold, before what it writes is forgotten."""
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = func._schema.name.removeprefix("aten::")
        rule = self._rules.get(name)
        if rule is None:
            return _NOTHING
        position = _DIMENSION.get(name)
        if position is None:
            return rule(args, out)
        dim = args[position] if len(args) > position else kwargs.get("dim", -1 if name in ("topk", "sort") else None)
        if not isinstance(dim, int) or args[0].dim() == 0:
            return _NOTHING
        return None, args[0].shape[dim]

    def write(self, known: Known, out: Any) -> None:
        """Keep what `read` has found."""
        for tensor in tensors(out):
            # Of the results of topk it is the indices that are a choice.
            if isinstance(tensor, FakeTensor) and (known[1] == 0 or not tensor.dtype.is_floating_point):
                tensor.__dict__[_ATTRIBUTE] = known, self._values.epoch(tensor)

    def _compared(self, args: Sequence[Any], *, equal: bool) -> Known:
        if not equal and _is_zero(args[1]) and self.of(args[0])[0] is not None:
            return self.of(args[0])[0], 0
        if args[0] is args[1]:
            return float(equal), 0  # nothing is NaN
        choices = self.of(args[0])[1] or self.of(args[1])[1]
        if not choices:
            return _NOTHING
        return (1 / choices if equal else 1 - 1 / choices), 0

    def _inverted(self, args: Sequence[Any], out: Any) -> Known:
        share = self.of(args[0])[0]
        return (None if share is None else 1 - share), 0

    def _scattered(self, args: Sequence[Any], out: Any) -> Known:
        """`scatter` of what is chosen into zeros, as `one_hot` does; each index is another place."""
        share = self.of(args[0])[0]
        if share is None or len(args) < 4 or _is_zero(args[3]) or args[0].numel() == 0:
            return _NOTHING
        return min(1.0, share + args[2].numel() / args[0].numel()), 0

    def counts(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> torch.Tensor | None:
        """The counts that a call makes of a mask or of choices, evenly spread; None if it makes none."""
        name = self._names.get(func)
        if name == "sum" and isinstance(out, torch.Tensor) and not args[0].dtype.is_floating_point:
            share = self.of(args[0])[0]
            return None if share is None else spread(round(args[0].numel() * share), out)
        if name == "histc" and isinstance(out, torch.Tensor) and self.of(args[0])[1] == out.numel():
            return spread(args[0].numel(), out)
        return None


def spread(total: int, like: torch.Tensor) -> torch.Tensor:
    """Whole numbers as equal as can be, of the shape and type of `like`, whose sum is `total`."""
    each, rest = divmod(total, max(like.numel(), 1))
    numbers = torch.full((like.numel(),), each, dtype=torch.int64, device="cpu")
    numbers[:rest] += 1
    return numbers.reshape(like.shape).to(like.dtype)


def _is_zero(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == 0

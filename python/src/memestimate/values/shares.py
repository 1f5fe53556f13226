"""How many elements are set where nobody knows which: masks and counts that come from a choice.

A router chooses among experts what no one can know without its weights. What is known is how
much it chooses: k of n for each token. Here that share is followed from `topk` or `argmax` to the
masks and counts made of it, and spread evenly over the choices.

Or it is known how many there are at most: a sampler of boxes writes so many ones into zeros, and takes what one mask
or another has set.
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
from .facts import Known, Of
from .guesses import is_finite

if TYPE_CHECKING:
    from .values import Values


_NOTHING = Known()

_SAME = (
    *("view", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "alias", "detach", "clone", "flip"),
    "expand",
)
_PARTS = ("select", "slice", "split", "split_with_sizes", "unbind")
_MASKS = (torch.bool, torch.uint8)
_ALTERNATIVES = 64  # more whole numbers than that are a range, and no choice
_DIMENSION = {"topk": 2, "argmax": 1, "argmin": 1, "argsort": 1, "sort": 1, "max": 1, "min": 1}  # where it stands


class Shares:
    """Shares by tensor, forgotten when its storage is written."""

    def __init__(self, values: Values) -> None:
        self._values = values
        rules: dict[str, Callable[[Sequence[Any], Any], Known]] = {
            "eq": lambda args, out: self._compared(args, equal=True),
            "ne": lambda args, out: self._compared(args, equal=False),
            "gt": lambda args, out: self._nonzero(args[0]) if _is_zero(args[1]) else _NOTHING,
            **dict.fromkeys(("ge", "lt", "le"), lambda args, out: _NOTHING),  # see `read`
            "bitwise_or": lambda args, out: self._either(args),
            "logical_or": lambda args, out: self._either(args),
            "bitwise_and": lambda args, out: self._both(args),
            "logical_and": lambda args, out: self._both(args),
            "mul": self._product,
            "mul_": self._product,
            **dict.fromkeys(("tril", "triu"), lambda args, out: self._corner(args[0])),
            "cat": self._joined,
            "clamp": self._clamped,
            "remainder": self._remainder,
            "sub": lambda args, out: self._moved(args),
            "add": lambda args, out: self._moved(args),
            "_to_copy": lambda args, out: self._cast(args[0], out),
            "index_put": self._put,
            "index_put_": self._put,
            "index_fill": self._filled,
            "index_fill_": self._filled,
            "bitwise_not": self._inverted,
            "logical_not": self._inverted,
            "scatter": self._scattered,
            "scatter_": self._scattered,
            "repeat": self._repeated,
            **dict.fromkeys(("any", "sum"), self._any),
        }
        rules |= dict.fromkeys(_SAME, lambda args, out: self.of(args[0]))
        rules |= dict.fromkeys(_PARTS, self._part)
        rules |= dict.fromkeys(("index", "index_select"), lambda args, out: self._picked(args[0]))
        rules |= dict.fromkeys(_DIMENSION, lambda args, out: _NOTHING)  # see `read`
        rules |= dict.fromkeys(("zeros", "zeros_like", "new_zeros", "zero_"), lambda args, out: Known(0.0))
        rules |= dict.fromkeys(("isnan", "isinf"), lambda args, out: Known(0.0))  # as a sane program expects
        rules["isfinite"] = lambda args, out: Known(1.0)
        rules["all"] = lambda args, out: self._all(args[0])
        self._rules = rules
        self._names: dict[OpOverload, str] = {}

    def of(self, tensor: Any) -> Known:
        """What is known about a tensor."""
        found = facts.known(tensor).share if isinstance(tensor, FakeTensor) else None
        return found.fact if found is not None and found.epoch == self._values.epoch(tensor) else _NOTHING

    def is_mask(self, tensor: torch.Tensor) -> bool:
        """Whether each element says yes or no, be it by a number."""
        return tensor.dtype is torch.bool or self.of(tensor).mask

    def read(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Known:
        """What a call's results will be known to hold, before what it writes is forgotten."""
        name = self._names.get(func)
        if name is None:
            name = self._names[func] = func._schema.name.removeprefix("aten::")
        rule = self._rules.get(name)
        if rule is None:
            return _NOTHING
        position = _DIMENSION.get(name)
        true = self._values.origins.true_of(name, args)
        if true is not None:
            most, fewer = true
            return Known(min(1.0, most / max(args[0].numel(), 1)), most=True, between=fewer)
        if position is None:
            return rule(args, out)
        dim = args[position] if len(args) > position else kwargs.get("dim", -1 if name in ("topk", "sort") else None)
        if not isinstance(dim, int) or args[0].dim() == 0:
            return _NOTHING
        picks = args[1] if name == "topk" and isinstance(args[1], int) else 1
        return Known(None, args[0].shape[dim], picks=max(picks, 1))

    def write(self, known: Known, out: Any) -> None:
        """Keep what `read` has found."""
        for tensor in tensors(out):
            # Of the results of topk it is the indices that are a choice.
            if isinstance(tensor, FakeTensor) and (known.choices == 0 or not tensor.dtype.is_floating_point):
                facts.facts(tensor).share = Of(known, self._values.epoch(tensor))

    def _nonzero(self, tensor: Any) -> Known:
        found = self.of(tensor)
        return Known(found.share, most=found.most, picks=found.picks, one_of=found.one_of)

    def _compared(self, args: Sequence[Any], *, equal: bool) -> Known:
        if not equal and _is_zero(args[1]) and self.of(args[0]).share is not None:
            return self._nonzero(args[0])
        finite = is_finite("eq" if equal else "ne", args)
        if finite is not None:  # nothing is NaN or infinite
            return Known(float(finite))
        chosen = self.of(args[0]) if self.of(args[0]).choices else self.of(args[1])
        if not chosen.choices:
            return _NOTHING
        if not equal:
            return Known(1 - 1 / chosen.choices)
        return Known(1 / chosen.choices, picks=chosen.picks, one_of=chosen.choices)

    def _all(self, mask: torch.Tensor) -> Known:
        """Of rows of a mask of which all elements are set, or none, all are, or none."""
        known = self.of(mask)
        return Known(known.share) if known.is_exact else _NOTHING

    def _part(self, args: Sequence[Any], out: Any) -> Known:
        """Of what is set at most, all may be in one part."""
        known, count = self.of(args[0]), args[0].numel()
        least = min((t.numel() for t in tensors(out) if t.numel()), default=count)
        if least == count:
            return known
        if known.share is not None and known.most:
            known = known._replace(share=min(1.0, known.share * count / least))
        elif known.share and known.share < 1 and next(iter(tensors(out))).dim() < args[0].dim():
            known = known._replace(one_of=count // least)  # as of `one_hot` the mask of one expert is selected
        return known

    def _picked(self, mask: torch.Tensor) -> Known:
        """Elements may be picked twice, and those that are set alone."""
        known = self.of(mask)
        return known._replace(share=None, most=False) if known.most and known.share else known

    def _repeated(self, args: Sequence[Any], out: Any) -> Known:
        """A mask laid beside itself has as large a share set, also one that is too large then for its values."""
        known = self._values.get(args[0])
        if known is None or args[0].dtype not in _MASKS or known.numel() == 0 or not self._values.likely(args[0]):
            return self.of(args[0])
        return Known(self._values.taken_count(args[0]) / known.numel())

    def _any(self, args: Sequence[Any], out: Any) -> Known:
        """Rows of which some element is set: each set one is in another row, as a router chooses different experts."""
        known = self.of(args[0])
        if known.share is None or len(args) < 2 or out.numel() == 0:
            return _NOTHING
        folded = args[0].numel() / out.numel()
        picks = max(1, round(known.picks / folded))
        return Known(min(1.0, known.share * folded), most=known.most, picks=picks, one_of=known.one_of)

    def _inverted(self, args: Sequence[Any], out: Any) -> Known:
        known = self.of(args[0])
        bounded = known.most and not known.is_exact  # from above: how many are not set is not
        return Known(None if known.share is None or bounded else 1 - known.share)

    def _either(self, args: Sequence[Any]) -> Known:
        """Masks that may have elements in common need not have any."""
        a, b = self._operands(args)
        if a.share is None or b.share is None:
            return _NOTHING
        return Known(min(1.0, a.share + b.share), most=a.is_sure and b.is_sure)

    def _both(self, args: Sequence[Any]) -> Known:
        """What a mask leaves of another one is no more than the smaller of the two has."""
        a, b = self._operands(args)
        if (a.share, b.share, a.most or b.most) == (1.0, 1.0, False):
            return Known(1.0)  # as `isfinite` is made of two such
        known = [x.share for x in (a, b) if x.share is not None and x.is_sure]
        return Known(min(known), most=min(known) > 0) if known else _NOTHING

    def _product(self, args: Sequence[Any], out: Any) -> Known:
        """A mask times another one, or times 1, is a mask, of numbers if one of the two is."""
        masks = all(self.is_mask(x) if isinstance(x, torch.Tensor) else x == 1 for x in args[:2])
        return self._both(args)._replace(mask=masks and out.dtype not in _MASKS)

    def _corner(self, mask: torch.Tensor) -> Known:
        """On one side of a diagonal no more are set than in all."""
        known = self._mask(mask)
        return Known(known.share, most=known.is_sure and known.share != 0, mask=self.of(mask).mask)

    def _operands(self, args: Sequence[Any]) -> tuple[Known, Known]:
        a, b = args[0], args[1]
        alike = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape
        masks = alike and all(x.dtype in _MASKS or self.of(x).mask for x in (a, b))
        return (self._mask(a), self._mask(b)) if masks else (_NOTHING, _NOTHING)

    def _mask(self, mask: torch.Tensor) -> Known:
        known = self._values.get(mask)
        if known is None or known.numel() == 0 or self._values.likely(mask):
            return self.of(mask)
        return Known(int(known.count_nonzero()) / known.numel(), most=True)

    def _joined(self, args: Sequence[Any], out: Any) -> Known:
        numbers = out.dtype not in _MASKS
        if out.numel() == 0 or (numbers and not all(map(self.is_mask, args[0]))):
            return _NOTHING
        parts = [(self._mask(t), t.numel()) for t in args[0]]
        if any(known.share is None for known, _ in parts):
            return Known(mask=numbers)
        count = sum(known.share * n for known, n in parts if known.share is not None)
        return Known(count / out.numel(), most=all(known.is_sure for known, _ in parts), mask=numbers)

    def _clamped(self, args: Sequence[Any], out: Any) -> Known:
        """The whole numbers between two limits are alternatives, as the levels of a pyramid are."""
        low, high = (args[1], args[2]) if len(args) > 2 else (None, None)
        if not (isinstance(low, int | float) and isinstance(high, int | float)):
            return _NOTHING
        if not low <= high < low + _ALTERNATIVES:
            return _NOTHING
        whole = int(high) - int(low) + 1
        return Known(whole=whole) if out.dtype.is_floating_point else Known(choices=whole)

    def _remainder(self, args: Sequence[Any], out: Any) -> Known:
        whole = isinstance(args[1], int) and not out.dtype.is_floating_point
        return Known(choices=abs(args[1])) if whole else _NOTHING

    def _moved(self, args: Sequence[Any]) -> Known:
        """A constant added to each element leaves as many alternatives."""
        if not isinstance(args[1], int):
            return _NOTHING
        return self.of(args[0])._replace(share=None, most=False, mask=False)

    def _cast(self, tensor: torch.Tensor, out: Any) -> Known:
        known = self.of(tensor)
        if self.is_mask(tensor):
            return known._replace(mask=out.dtype is not torch.bool)
        if tensor.dtype.is_floating_point and not out.dtype.is_floating_point:
            if out.dtype is torch.bool or (known.share is not None and known.whole):
                return self._nonzero(tensor)
            return Known(choices=known.whole)
        return known

    def _put(self, args: Sequence[Any], out: Any) -> Known:
        """`mask[indices] = 1` sets no more elements than there are indices."""
        mask, indices = args[0], args[1]
        before = self._mask(mask) if mask.dtype in _MASKS else _NOTHING
        if before.share is None or mask.numel() == 0:
            return _NOTHING
        if any(i is not None and i.dtype in _MASKS for i in indices):
            return _NOTHING
        shape = torch.broadcast_shapes(*(i.shape for i in indices if i is not None))
        whole = [n for i, n in enumerate(mask.shape) if i >= len(indices) or indices[i] is None]
        return Known(min(1.0, before.share + shape.numel() * math.prod(whole) / mask.numel()), most=before.is_sure)

    def _filled(self, args: Sequence[Any], out: Any) -> Known:
        """What `mask[indices] = 1` is in newer versions of PyTorch."""
        return self._put((args[0], [None] * (args[1] % max(args[0].dim(), 1)) + [args[2]]), out)

    def _scattered(self, args: Sequence[Any], out: Any) -> Known:
        """`scatter` of what is chosen into zeros, as `one_hot` does; each index is another place."""
        share = self.of(args[0]).share
        if share is None or len(args) < 4 or _is_zero(args[3]) or args[0].numel() == 0:
            return _NOTHING
        ones = 2 if share == 0 and isinstance(args[3], (int, float)) and args[3] == 1 else 0
        picks = self.of(args[2]).picks
        return Known(min(1.0, share + args[2].numel() / args[0].numel()), whole=ones, picks=picks)

    def counts(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> torch.Tensor | None:
        """The counts that a call makes of a mask or of choices, evenly spread; None if it makes none."""
        name = self._names.get(func)
        if name == "sum" and isinstance(out, torch.Tensor) and not args[0].dtype.is_floating_point:
            known = self.of(args[0])
            if known.share is None or known.taken is None:
                return None
            total = round(args[0].numel() * known.taken)
            of_each = known.share and out.numel() in (round(1 / known.share), round(known.picks / known.share))
            return self.spread(total, out, known.picks) if of_each else spread(total, out)
        if name == "histc" and isinstance(out, torch.Tensor) and self.of(args[0]).choices == out.numel():
            return self.spread(args[0].numel(), out, self.of(args[0]).picks)
        return None

    def spread(self, total: int, like: torch.Tensor, picks: int) -> torch.Tensor:
        """Choices spread over all alternatives, or over as few as can be where a trial asks for that."""
        if not self._values.skewed or like.numel() <= picks:
            return spread(total, like)
        numbers = torch.zeros(like.numel(), dtype=like.dtype, device="cpu")
        numbers[:picks] = spread(total, numbers[:picks])
        return numbers.reshape(like.shape)


def spread(total: int, like: torch.Tensor) -> torch.Tensor:
    """Whole numbers as equal as can be, of the shape and type of `like`, whose sum is `total`."""
    each, rest = divmod(total, max(like.numel(), 1))
    numbers = torch.full((like.numel(),), each, dtype=torch.int64, device="cpu")
    numbers[:rest] += 1
    return numbers.reshape(like.shape).to(like.dtype)


def _is_zero(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == 0

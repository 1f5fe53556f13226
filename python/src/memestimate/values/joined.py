"""What is known of the parts of tensors that were joined, and taken apart again.

A grid of positions is joined of rows that a model computes and of zeros: which elements are zero is known though the
others are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.tensors import tensors
from . import facts
from .facts import Parts

if TYPE_CHECKING:
    from .values import Values

_DIMENSION = {"split": 2, "split_with_sizes": 2, "slice": 1, "select": 1, "unbind": 1}  # where it stands


class Joined:
    """Parts by tensor, forgotten when its storage is written."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def follow(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        """Remember what is joined, or say of what is taken apart what is known of the part that it is."""
        name = func._schema.name.removeprefix("aten::")
        if name == "cat":
            self._join(args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0), out)
        elif name in _DIMENSION and isinstance(args[0], FakeTensor):
            parts = facts.known(args[0]).parts
            position = _DIMENSION[name]
            dim = args[position] if len(args) > position else kwargs.get("dim", 0)
            if parts is None or parts.epoch != self._values.epoch(args[0]) or parts.dim != dim % args[0].dim():
                return
            for tensor, (begin, end) in zip(tensors(out), _ranges(name, args, dim, out), strict=True):
                found = {parts.known[i] for i, last in enumerate(parts.ends) if begin < last and _first(parts, i) < end}
                if len(found) == 1:
                    self._values.shares.write(found.pop(), tensor)

    def _join(self, joined: Sequence[Any], dim: int, out: Any) -> None:
        known = tuple(self._values.shares.of(tensor) for tensor in joined)
        if all(part.share is None for part in known) or any(t.dim() != out.dim() for t in joined):
            return
        dim %= out.dim()
        ends, end = [], 0
        for tensor in joined:
            end += tensor.shape[dim]
            ends.append(end)
        facts.facts(out).parts = Parts(dim, tuple(ends), known, self._values.epoch(out))


def _first(parts: Parts, i: int) -> int:
    return parts.ends[i - 1] if i else 0


def _ranges(name: str, args: Sequence[Any], dim: int, out: Any) -> Iterator[tuple[int, int]]:
    """Where along the dimension each result begins and ends."""
    length = args[0].shape[dim]
    if name == "slice":
        begin = min(max((args[2] or 0) + (length if (args[2] or 0) < 0 else 0), 0), length) if len(args) > 2 else 0
        step = args[4] if len(args) > 4 else 1
        yield begin, begin + (out.shape[dim] - 1) * step + 1
    elif name == "select":
        yield args[2] % length, args[2] % length + 1
    else:
        begin = 0
        for tensor in tensors(out):
            end = begin + (1 if name == "unbind" else tensor.shape[dim])
            yield begin, end
            begin = end

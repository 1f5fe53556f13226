"""What the elements can be of a result whose values nobody knows: that follows from the operator.

`topk`, `sort` and `argsort` give indices within their range, different along a dimension; a cumulative sum of counts
rises; probabilities lie between zero and one. Where a program copies such a tensor to the host, its elements are drawn
from what they can be. A second draw differs from the first in what programs ask of numbers: which divide, which are
equal, which is larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from . import facts
from .facts import Of, Structure

if TYPE_CHECKING:
    from .values import Values

Kind = Literal["indices", "rising", "probabilities"]
_DIMENSION = {"topk": 2, "sort": 1, "argsort": 1, "argmax": 1, "argmin": 1, "max": 1, "min": 1}  # where it stands
_LAST = ("topk", "sort", "argsort")  # of which the dimension is the last one unless it is given
_ONE = ("argmax", "argmin", "max", "min")  # one index of each row: nothing says that they differ
_SAME = ("detach", "clone", "alias", "_to_copy", "contiguous", "flip")
_SHAPED = ("view", "_unsafe_view", "unsqueeze", "squeeze", "transpose", "permute", "t", "expand", "index")
_PROBABLE = {"_softmax": 1, "_safe_softmax": 1, "sigmoid": None}
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31)
_LISTED = 1 << 16


class Structures:
    """Structures by tensor, forgotten when its storage is written."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def of(self, tensor: Any) -> Structure | None:
        """What the elements of a tensor can be; None where nothing says it."""
        found = facts.known(tensor).structure if isinstance(tensor, FakeTensor) else None
        return found.fact if found is not None and found.epoch == self._values.epoch(tensor) else None

    def follow(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        """Keep what a call's result can be."""
        if not args or not isinstance(args[0], FakeTensor):
            return
        name = func._schema.name.removeprefix("aten::")
        result = out[1] if isinstance(out, (tuple, list)) and len(out) == 2 and name in _DIMENSION else out
        if not isinstance(result, FakeTensor):
            return
        found = self._made(name, args, kwargs) or self._seen(name, args, result)
        if found is not None:
            facts.facts(result).structure = Of(found, self._values.epoch(result))

    def _made(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Structure | None:
        first = args[0]
        if first.dim() == 0:
            return None
        if name in _DIMENSION:
            position = _DIMENSION[name]
            given = args[position] if len(args) > position else kwargs.get("dim", -1 if name in _LAST else None)
            if given is None and name in ("argmax", "argmin"):
                return Structure("indices", first.numel())
            if not isinstance(given, int):
                return None
            return Structure("indices", first.shape[given], None if name in _ONE else given % first.dim())
        if name == "multinomial":
            replaced = args[2] if len(args) > 2 else kwargs.get("replacement", False)
            return Structure("indices", first.shape[-1], None if replaced else first.dim() - 1)
        if name == "cumsum" and not first.dtype.is_floating_point:
            return Structure("rising", 0, args[1] % first.dim())
        if name in _PROBABLE:
            position_of = _PROBABLE[name]
            return Structure("probabilities", 0, None if position_of is None else args[position_of] % first.dim())
        return None

    def _seen(self, name: str, args: Sequence[Any], out: FakeTensor) -> Structure | None:
        """What is known of elements that a call looks at, copies or chooses."""
        before = self.of(args[0])
        if before is None or out.dtype is torch.bool:
            return None
        if name in _SAME or (name == "slice" and before.kind == "indices"):
            return before
        if name == "select" and before.dim is not None:
            gone = args[1] % args[0].dim()
            left = None if gone == before.dim else before.dim - (gone < before.dim)
            return before._replace(dim=left) if before.kind == "indices" else None
        return before._replace(dim=None) if name in _SHAPED and before.kind == "indices" else None

    def draw(self, tensor: FakeTensor, *, other: bool = False) -> torch.Tensor | None:
        """What the elements of a tensor are taken to be, on the host, or what else they might; None if any may do."""
        found = self.of(tensor)
        if found is None or tensor.numel() == 0 or tensor.dtype is torch.bool:
            return None
        if found.kind == "probabilities":
            most = 1 if found.dim is None else tensor.shape[found.dim]
            return torch.full(tensor.shape, 1 / max(most, 2), dtype=tensor.dtype, device="cpu")
        dim = tensor.dim() - 1 if found.dim is None else found.dim
        if found.kind == "rising":
            by = 3 if other else 1
            return _along(torch.arange(1, tensor.shape[dim] + 1, device="cpu") * by, tensor, dim)
        return indices(tensor, found.below, dim, other=other)


def indices(tensor: torch.Tensor, below: int, dim: int, *, other: bool) -> torch.Tensor:
    """
    Different indices along a dimension: spread over the range, or primes first, which divide few lengths.

    Zero is among them only where all are: programs leave it out, as the frequency zero, the padding, the background.
    """
    count = tensor.shape[dim] if tensor.dim() else 1
    first, room = (1, below - 1) if count < below else (0, below)
    room = max(room, 1)
    if other:
        few = [p for p in _PRIMES if first <= p < first + room]
        rest = [n for n in range(first + room - 1, first - 1, -1) if n not in few] if room <= _LISTED else []
        line = torch.tensor((few + rest)[:count], device="cpu")
    else:
        step = next((p for p in (13, 7, 11, 5, 3, 2) if p < room and math.gcd(p, room) == 1), 1)
        line = (torch.arange(count, device="cpu") * step + room // 3) % room + first
    if len(line) < count:  # of a range that is too long to be listed: from its end
        line = first + room - 1 - torch.arange(count, device="cpu") % room
    return _along(line if tensor.dim() else line[0], tensor, dim)


def _along(line: torch.Tensor, tensor: torch.Tensor, dim: int) -> torch.Tensor:
    shape = [1] * tensor.dim()
    if shape:
        shape[dim] = -1
    return line.reshape(shape).expand(tensor.shape).to(tensor.dtype)

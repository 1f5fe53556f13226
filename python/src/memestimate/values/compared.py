"""What comparisons say of data that came from the host, or was drawn, where it is too much to follow.

Which pixels of a depth map are valid decides about sizes and branches, and is one comparison with a number. What else
is computed of so many numbers seldom decides anything, and would take the time that the step itself takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from . import facts
from .facts import Of

if TYPE_CHECKING:
    from .values import Values

_MOST = 1 << 20  # elements that are kept
_COMPARED = ("eq", "ne", "ge", "gt", "le", "lt")


class Compared:
    """Data by tensor, forgotten when its storage is written."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def keep(self, tensor: torch.Tensor, source: torch.Tensor, likely: str = "") -> None:
        """Keep what was copied from the host or drawn, if it is data: of parameters nothing is compared."""
        fits = source.numel() <= _MOST and not source.requires_grad
        if fits and isinstance(tensor, FakeTensor) and tensor.shape == source.shape:
            of = facts.facts(tensor)
            of.data = Of(source.detach().to(tensor.dtype).clone(), self._values.epoch(tensor))
            of.likely = likely

    def follow(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> torch.Tensor | None:
        """What a comparison with a number gives; a view of what is kept is kept."""
        source = args[0] if args and isinstance(args[0], FakeTensor) else None
        kept = None if source is None else facts.known(source).data
        if source is None or kept is None or kept.epoch != self._values.epoch(source) or kwargs:
            return None
        rest = args[1:]
        if any(isinstance(value, torch.Tensor) for value in rest) or not isinstance(out, FakeTensor):
            return None
        name = func._schema.name.removeprefix("aten::")
        if name in _COMPARED:
            found: torch.Tensor = func(kept.fact, *rest)
            return found
        if func.is_view:
            of = facts.facts(out)
            of.data, of.likely = Of(func(kept.fact, *rest), self._values.epoch(out)), self._values.likely(source)
        return None

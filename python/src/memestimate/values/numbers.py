"""Which numbers a tensor does not hold, though nobody knows which it holds.

A sum of products, as a layer gives it, equals no number that a program compares it with, but zero. What is only moved,
chosen or joined is no other number than it was: where none of the data from the host is -100, none of a part of it is.
So a program that skips what holds a number of its own (`if (x == -100.0).all(-1).any():`) is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.tensors import tensors

if TYPE_CHECKING:
    from ..core.session import Session
    from .values import Values

_MANY = 8  # tensors of the host that one is made of
_Sources = tuple[torch.Tensor, ...]  # data of which its numbers are, but for those that were computed

# Products by weights, or of what was computed; those of masks are counts.
_PRODUCTS = ("addmm", "baddbmm", "bmm", "convolution", "mm")
_COMPUTED = (
    *("native_batch_norm", "_native_batch_norm_legit", "native_group_norm", "native_layer_norm"),
    *("_fused_rms_norm", "randn", "randn_like"),
    *("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"),
    *("_scaled_dot_product_cudnn_attention", "_scaled_dot_product_flash_attention_for_cpu"),
)
# A number computed with another one that is no function of it is computed, and zero where the other is; so are these
# functions of one. What tanh gives may be 1, and so may what is divided by the largest, or rounded by a division.
_OF_ANY = ("add", "sub", "mul")
_OF_FIRST = ("gelu", "silu", "relu", "leaky_relu", "native_dropout", "neg")
_MOVED = ("clone", "index", "index_select", "gather", "cat", "stack", "_to_copy", "flip", "roll", "repeat")
_WRITTEN = ("copy", "index_put")  # (self, ..., values)


class Numbers:
    """Storages of whose elements it is known which numbers they are not."""

    def __init__(self, session: Session, values: Values) -> None:
        self._values = values
        self._kinds = session.storages.kinds
        self._weights: set[int] = set()  # storages of parameters in another type
        self._sources: dict[int, _Sources] = {}  # by storage
        if values.real is None:
            session.storages.on_death = self._died

    def _died(self, serial: int) -> None:
        self._sources.pop(serial, None)
        self._weights.discard(serial)

    def __len__(self) -> int:
        return len(self._sources)

    def keep(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """Data has come from the host."""
        if isinstance(tensor, FakeTensor) and tensor.dtype.is_floating_point and tensor.layout is torch.strided:
            self._sources[self._values.serial(tensor)] = (source,)

    def lack(self, tensor: Any, number: Any) -> bool:
        """Whether it is certain that no element is this number."""
        if not isinstance(number, (int, float)) or number == 0:
            return False
        sources = self._of(tensor)
        return sources is not None and not any(bool((source == number).any()) for source in sources)

    def forget(self, tensor: Any) -> None:
        """Something unknown was written into a tensor."""
        self._set(tensor, None)

    def follow(
        self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any, written: Sequence[int]
    ) -> None:
        """Follow what a call makes, or writes."""
        name = func._schema.name.removeprefix("aten::")
        exact = kwargs.get("rounding_mode") is None
        found = self._found(name.rstrip("_") if written else name, args) if exact else None
        if name == "_to_copy" and isinstance(out, FakeTensor) and self._is_weight(args[0]):
            self._weights.add(self._values.serial(out))
        for position in written:
            for tensor in tensors(args[position] if position < len(args) else list(kwargs.values())):
                self._set(tensor, found if tensor is args[0] and self._of(tensor) is not None else None)
        if found is not None and not written and not func.is_view:
            self._set(out[0] if isinstance(out, (list, tuple)) else out, found)

    def _found(self, name: str, args: Sequence[Any]) -> _Sources | None:
        if name in _COMPUTED:
            return ()
        if name in _PRODUCTS:
            return () if any(self._is_weight(t) or self._of(t) == () for t in args[:3]) else None
        if name in _OF_ANY:
            return self._mixed(args[:2], name == "mul")
        if name == "div":  # by a number, and not rounded
            by_number = not isinstance(args[1], torch.Tensor)
            return () if by_number and self._of(args[0]) == () else None
        if name in _OF_FIRST:
            return () if args and self._of(args[0]) == () else None
        if name in _WRITTEN:
            return self._joined((args[0], args[1 if name == "copy" else 2]))
        if name in _MOVED:
            return self._joined(args[0] if isinstance(args[0], (list, tuple)) else args[:1])
        return None

    def _mixed(self, operands: Sequence[Any], multiplied: bool) -> _Sources | None:
        """What is computed, with another tensor: data may be all that is left, as of `x + (data - x).detach()`."""
        tensors_of = [t for t in operands if isinstance(t, torch.Tensor)]
        if () not in map(self._of, tensors_of):
            return None
        masks = self._values.shares.is_mask if multiplied else lambda _: False
        return self._joined([t for t in tensors_of if not self._is_weight(t) and not masks(t)])

    def _is_weight(self, tensor: Any) -> bool:
        """Whether a tensor is a parameter that is trained, or one in another type."""
        if not isinstance(tensor, FakeTensor) or tensor.layout is not torch.strided or tensor.dim() < 2:
            return False
        serial = self._values.serial(tensor)
        return serial in self._weights or self._kinds.get(serial, ("", ""))[0] == "parameter"

    def _joined(self, parts: Sequence[Any]) -> _Sources | None:
        found: list[torch.Tensor] = []
        for sources in map(self._of, parts):
            if sources is None:
                return None
            found += [s for s in sources if not any(s is known for known in found)]
        return tuple(found) if len(found) <= _MANY else None

    def _of(self, tensor: Any) -> _Sources | None:
        if not isinstance(tensor, FakeTensor) or tensor.layout is not torch.strided:
            return None
        return self._sources.get(self._values.serial(tensor)) if tensor.dtype.is_floating_point else None

    def _set(self, tensor: Any, sources: _Sources | None) -> None:
        if not isinstance(tensor, FakeTensor) or tensor.layout is not torch.strided:
            return
        serial = self._values.serial(tensor)
        if sources is None or serial < 0 or not tensor.dtype.is_floating_point:
            self._sources.pop(serial, None)
        else:
            self._sources[serial] = sources

"""Masks whose values are known, of any size where they take no memory: one set of elements, seen often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef


class Room:
    """Memory of the host that known masks may take, as long as something holds them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: dict[int, tuple[StorageWeakRef, int]] = {}  # by the storage's address

    def has_room(self, more: int) -> bool:
        """Whether so many bytes more may be taken."""
        self._held = {address: held for address, held in self._held.items() if not held[0].expired()}
        return sum(size for _, size in self._held.values()) + more <= self._size

    def add(self, mask: torch.Tensor) -> None:
        """Count a mask whose storage is held, once whatever views of it there are."""
        storage = mask.untyped_storage()
        self._held[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()


def is_mask(value: Any) -> bool:
    """Whether a value may say which elements of a tensor are meant."""
    return isinstance(value, torch.Tensor) and value.dtype in (torch.bool, torch.uint8)


def is_zeros_and_ones(value: torch.Tensor) -> bool:
    """Whether a value of floating point is a mask that is multiplied by, and turned to bytes where it chooses."""
    value = value.detach()
    first = value[(slice(1),) * max(value.dim() - 1, 0)]  # which mostly says that it is none
    return all(bool(((part == 0) | (part == 1)).all()) for part in (first, value))


def view_of(
    known: torch.Tensor | None, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> torch.Tensor | None:
    """What a call gives that looks at what its first argument holds, as expanding does; None of any other call."""
    alias = func._schema.returns[0].alias_info if len(func._schema.returns) == 1 else None
    if known is None or alias is None or alias.is_write or kwargs or any(isinstance(a, torch.Tensor) for a in args[1:]):
        return None
    view: torch.Tensor = func(known, *args[1:])
    return view


def set_in(mask: torch.Tensor) -> int:
    """How many elements are not zero; of what is repeated without memory of its own, one is looked at."""
    once = mask[tuple(slice(None) if stride else slice(1) for stride in mask.stride())]
    return int(once.count_nonzero()) * (mask.numel() // max(once.numel(), 1))

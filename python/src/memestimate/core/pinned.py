"""Page-locked memory of the host: ordinary memory here, of which PyTorch and programs ask whether it is pinned."""

from __future__ import annotations

import weakref

import torch


class Pinned:
    """The storages on the host that were asked for as pinned ones."""

    def __init__(self) -> None:
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Say that a tensor lies in pinned memory; returns it."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        self._storages[key] = weakref.ref(storage, lambda _: self._storages.pop(key, None))
        return tensor

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies in pinned memory."""
        if not self._storages or tensor.layout is not torch.strided:
            return False
        return tensor.untyped_storage()._cdata in self._storages

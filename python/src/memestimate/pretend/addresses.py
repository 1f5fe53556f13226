"""Addresses of the pretended GPU's memory, by which programs tell storages apart: tied weights above all."""

from __future__ import annotations

import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session
from ..core.storages import rounded

_FIRST = 0x7F00_0000_0000  # where the driver maps memory on Linux


class Addresses:
    """One address for each storage that was asked for it, as long as it lives; none is used twice."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._next = _FIRST
        self._found: dict[int, tuple[int, weakref.ref[torch.UntypedStorage]]] = {}

    def of(self, storage: torch.UntypedStorage) -> int:
        """The address of a storage; 0 of one without bytes, as `data_ptr` has it."""
        size, key = storage.nbytes(), storage._cdata
        if size == 0:
            return 0
        if key not in self._found:
            self._found[key] = self._next, weakref.ref(storage, lambda _: self._found.pop(key, None))
            self._next += rounded(size)
        return self._found[key][0]


def install(session: Session) -> None:
    """Let tensors on the pretended GPU and their storages say where they are."""
    addresses = session.part(Addresses)
    of_storage, of_tensor = torch.UntypedStorage.data_ptr, FakeTensor.data_ptr

    def storage_ptr(storage: torch.UntypedStorage) -> int:
        return of_storage(storage) if session.storages.number(storage) is None else addresses.of(storage)

    def tensor_ptr(tensor: torch.Tensor) -> int:
        storage = tensor.untyped_storage()
        if session.storages.number(storage) is None:
            return of_tensor(tensor)
        return addresses.of(storage) + int(tensor.storage_offset()) * tensor.element_size() if tensor.numel() else 0

    session.patches.set(torch.UntypedStorage, "data_ptr", storage_ptr)
    session.patches.set(FakeTensor, "data_ptr", tensor_ptr)

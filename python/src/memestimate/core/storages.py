"""The storages of a recording: when each is born and dies, and how many bytes live."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .held import held
from .writer import Writer

_BLOCK = 512  # the allocator's smallest unit (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize)


def rounded(size: int) -> int:
    """Bytes of a block that serves a request of `size` bytes."""
    return -(-size // _BLOCK) * _BLOCK


@dataclass
class Level:
    """What the storages of one GPU take, in bytes."""

    allocated: int = 0
    peak: int = 0  # since the program last began to count anew
    highest: int = 0


class Storages:
    """Serial numbers of the GPU storages that are alive.

    A storage is known by the address of its C++ object while it lives, never longer: addresses
    are used again. Its death is seen by a weak reference, which Python clears when the last
    reference from Python *or* C++ has gone.
    """

    def __init__(self, writer: Writer, gpus: int = 1) -> None:
        self._writer = writer
        self.levels = [Level() for _ in range(gpus)]
        self._known: dict[int, tuple[int, weakref.ref[torch.UntypedStorage]]] = {}
        self._bytes: dict[int, int] = {}
        self._elsewhere: dict[int, int] = {}  # the GPUs of storages that are not on the first
        self._next = 0
        self._numbers: dict[int, int] = {}  # in the recording, by serial number
        self._gone: dict[int, int] = {}  # the same of those that died since the last step began
        self.numbered = 0  # how many numbers the recording has
        self.closed = False
        self.allocated = 0  # of all GPUs
        self.highest = 0
        self.highest_of_step = 0
        self.on_death: Callable[[int], object] = lambda serial: None
        self.kinds: dict[int, tuple[str, str]] = {}  # what the program said that a storage is

    def of(self, tensor: torch.Tensor) -> tuple[int, bool]:
        """The serial number of a tensor's storage, and whether it is new (not yet logged)."""
        storage = held(tensor)[0].untyped_storage()
        address = storage._cdata
        known = self._known.get(address)
        if known is not None:
            return known[0], False
        serial = self._next
        self._next += 1
        self._known[address] = serial, weakref.ref(storage, self._death(address, serial))
        self._bytes[serial] = storage.nbytes()
        if len(self.levels) > 1 and tensor.device.index:
            self._elsewhere[serial] = tensor.device.index
        self._numbers[serial] = self.numbered
        self.numbered += 1
        return serial, True

    def written(self, serial: int) -> int:
        """The number of a storage in the recording: of steps that were left out there are none."""
        return self._numbers[serial]

    @property
    def live(self) -> int:
        """How many storages are alive."""
        return len(self._bytes)

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Bytes and GPU of all that is alive, by serial number."""
        return {serial: (size, self.gpu(serial)) for serial, size in self._bytes.items()}

    def renumber(self, instead: dict[int, int], numbered: int) -> None:
        """Let storages have the numbers of others, which are gone, and let the recording have so many numbers."""
        self._numbers |= {serial: self._gone[gone] for serial, gone in instead.items()}
        self.numbered = numbered

    def begin_step(self) -> None:
        """Keep the numbers of those that die from now on."""
        self._gone.clear()

    def size(self, serial: int) -> int:
        """Bytes of a storage's block."""
        return rounded(self._bytes[serial])

    def gpu(self, serial: int) -> int:
        """The GPU that a storage is on."""
        return self._elsewhere.get(serial, 0)

    def forget(self, serials: list[int]) -> None:
        """Take the newest storages for never made; none of them was logged."""
        for address in [a for a, (serial, _) in self._known.items() if serial in serials]:
            del self._known[address]  # and the weak reference, so that nobody is told of its death
        for serial in serials:
            del self._bytes[serial]
            self._elsewhere.pop(serial, None)
            del self._numbers[serial]
        self._next -= len(serials)
        self.numbered -= len(serials)

    def born(self, serial: int) -> tuple[Any, ...]:
        """Count a new storage as allocated and return the event that says so."""
        size, gpu, number = self._bytes[serial], self.gpu(serial), self._numbers[serial]
        self._add(gpu, rounded(size))
        return ("alloc", number, size, gpu) if gpu else ("alloc", number, size)

    def aliased(self, tensor: torch.Tensor) -> None:
        """Log a storage that lies in memory which is counted as another's: it takes nothing. Known ones stay as is."""
        serial, new = self.of(tensor)
        if new:
            self._bytes[serial] = 0
            self._writer.event(*self.born(serial))

    def _add(self, gpu: int, size: int) -> None:
        level = self.levels[gpu]
        level.allocated += size
        level.peak = max(level.peak, level.allocated)
        level.highest = max(level.highest, level.allocated)
        self.allocated += size
        self.highest = max(self.highest, self.allocated)
        self.highest_of_step = max(self.highest_of_step, self.allocated)

    def resized(self, serial: int, size: int) -> None:
        """Log that a storage has another size now."""
        before = self._bytes[serial]
        if before != size:
            self._bytes[serial] = size
            self._writer.event("resize", self._numbers[serial], size)
            self._add(self.gpu(serial), rounded(size) - rounded(before))

    def of_address(self, tensor: torch.Tensor) -> int:
        """The serial number of a tensor's storage; -1 for one that was not logged."""
        known = self._known.get(held(tensor)[0].untyped_storage()._cdata)
        return -1 if known is None else known[0]

    def bytes_of(self, kind: str) -> int:
        """What the live storages of a kind take."""
        return sum(rounded(self._bytes[serial]) for serial, (of, _) in self.kinds.items() if of == kind)

    def number(self, storage: torch.UntypedStorage) -> int | None:
        """The serial number of a storage, if it is known."""
        known = self._known.get(storage._cdata)
        return None if known is None else known[0]

    def _death(self, address: int, serial: int) -> Callable[[object], None]:
        def died(_: object) -> None:
            known = self._known.get(address)
            if known is not None and known[0] == serial:
                del self._known[address]
            size, gpu = self._bytes.pop(serial, None), self._elsewhere.pop(serial, 0)
            self.kinds.pop(serial, None)
            self.on_death(serial)
            number = self._numbers.pop(serial, None)
            if size is not None and number is not None and not self.closed:
                self._gone[serial] = number
                self._writer.freed(number)
                self._add(gpu, -rounded(size))

        return died

"""Saving and loading: what is saved of the pretended GPU says so in the file, and is loaded onto it again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session

Place = Callable[[torch.Tensor], torch.Tensor]


def install(session: Session) -> None:
    """Let what saves, loads, pickles and copies tensors do there what it does on a GPU."""
    saved = _Saved(session)
    save, tag = torch.save, torch.serialization.location_tag

    def saving(*args: Any, **kwargs: Any) -> None:
        saved.depth += 1
        try:
            save(*args, **kwargs)
        finally:
            saved.depth -= 1

    def location(storage: Any) -> Any:
        return saved.locations.get(storage._cdata) or tag(storage)

    session.patches.set(FakeTensor, "__reduce_ex__", saved.reduce)
    session.patches.set(FakeTensor, "__copy__", _copy)
    session.patches.set(torch, "save", saving)
    session.patches.set(torch.serialization, "location_tag", location)
    session.patches.set(torch, "load", _load(torch.load))


class _Saved:
    """Copies on the host of what is being saved: one a storage, since tied parameters are in a file once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._copies: weakref.WeakValueDictionary[int, torch.UntypedStorage] = weakref.WeakValueDictionary()
        self.locations: dict[int, str] = {}  # by the address of the copy
        self.depth = 0  # of calls of `torch.save`

    @property
    def reduce(self) -> Callable[[torch.Tensor, Any], Any]:
        """`__reduce_ex__`: in a file of `torch.save` a tensor as any other, elsewhere one that moves to its GPU."""

        def reduce(tensor: torch.Tensor, protocol: Any) -> Any:
            with torch.no_grad():
                host: torch.Tensor = self._copy(tensor)
            if not self.depth:
                return _unpickled, (host, isinstance(tensor, nn.Parameter), tensor.requires_grad)
            if isinstance(tensor, nn.Parameter):
                return nn.Parameter(host, tensor.requires_grad).__reduce_ex__(protocol)
            return host.__reduce_ex__(protocol)

        return reduce

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        if not self.depth or tensor.layout is not torch.strided:
            return tensor.cpu()
        serial = self._session.storages.of_address(tensor)
        copy = self._copies.get(serial)
        if copy is not None:
            like = torch.empty(0, dtype=tensor.dtype, device="cpu")
            return like.set_(copy, tensor.storage_offset(), tensor.shape, tensor.stride())
        host = tensor.cpu()
        storage = host.untyped_storage()
        if storage.nbytes() == tensor.untyped_storage().nbytes():
            self._copies[serial] = storage
        address = storage._cdata
        self.locations[address] = f"cuda:{tensor.device.index or 0}"
        weakref.finalize(storage, self.locations.pop, address, None)
        return host


def _unpickled(host: torch.Tensor, is_parameter: bool, requires_grad: bool) -> torch.Tensor:
    """A tensor that `pickle` took from the pretended GPU; it stays on the host where nothing is recorded."""
    with torch.no_grad():
        found = host.to("cuda") if torch.cuda.is_available() else host
    return nn.Parameter(found, requires_grad) if is_parameter else found.requires_grad_(requires_grad)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """`copy.copy`: another tensor of the same memory."""
    same = tensor.detach()
    return nn.Parameter(same, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else same


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.load`: what belongs on the GPU is read on the host and copied there, a storage once."""

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(map_location, (str, torch.device)) and torch.device(map_location).type not in ("cuda", "cpu"):
            return original(f, map_location, *args, **kwargs)
        on_gpu: set[int] = set()

        def to_gpu(storage: torch.UntypedStorage, *_: Any, **__: Any) -> torch.UntypedStorage:
            on_gpu.add(storage._cdata)
            return storage

        def locate(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage:
            if callable(map_location):  # lambda storage, _: storage.cuda()
                own = torch.UntypedStorage.cuda
                torch.UntypedStorage.cuda = to_gpu  # type: ignore[method-assign,assignment]
                try:
                    found: torch.UntypedStorage | None = map_location(storage, location)
                finally:
                    torch.UntypedStorage.cuda = own  # type: ignore[method-assign]
                if found is not None:
                    return found
            elif isinstance(map_location, dict):
                location = str(map_location.get(location, location))
            elif map_location is not None:
                location = "cpu" if torch.device(map_location).type == "cpu" else "cuda"
            return to_gpu(storage) if location.startswith("cuda") else storage

        return _map(original(f, locate, *args, **kwargs), _placing(on_gpu))

    return load


def _placing(on_gpu: set[int]) -> Place:
    """Moves tensors whose storages are to be on the GPU; those of one storage are of one there, too."""
    moved: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def place(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, FakeTensor):
            return tensor
        if tensor.layout is not torch.strided:
            return tensor.to("cuda") if on_gpu else tensor
        storage = tensor.untyped_storage()
        if storage._cdata not in on_gpu:
            return tensor
        key = storage._cdata, tensor.dtype
        with torch.no_grad():
            if key in moved:
                out = moved[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            elif tensor.numel() * tensor.element_size() == storage.nbytes():
                out = moved[key] = tensor.detach().to("cuda")
            else:
                whole = torch.empty(0, dtype=tensor.dtype, device="cpu").set_(storage)
                moved[key] = whole.to("cuda")
                out = moved[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        if type(tensor) is nn.Parameter:
            return nn.Parameter(out, tensor.requires_grad)
        return out.requires_grad_(tensor.requires_grad)

    return place


def _map(value: Any, place: Place) -> Any:
    if isinstance(value, torch.Tensor):
        return place(value)
    if isinstance(value, nn.Module):
        return value._apply(place)
    if isinstance(value, dict):
        for key in value:
            value[key] = _map(value[key], place)
    elif isinstance(value, (list, tuple)):
        items = [_map(item, place) for item in value]
        if isinstance(value, list):
            value[:] = items
        elif any(a is not b for a, b in zip(items, value, strict=True)):
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value

"""What Python does with tensors beside computing: print, pickle, copy, convert, compile, load."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session


def install(session: Session) -> None:
    """Give tensors on the pretended GPU the methods that programs use on real ones."""

    def on_host(tensor: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return tensor.detach().cpu()

    def reduce(tensor: torch.Tensor, protocol: Any) -> Any:
        host = on_host(tensor)
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(host, tensor.requires_grad).__reduce_ex__(protocol)
        return host.__reduce_ex__(protocol)

    def format_(tensor: torch.Tensor, spec: str) -> str:
        if tensor.dim() == 0:
            return str(tensor.detach().item().__format__(spec))
        return object.__format__(tensor, spec)

    def deepcopy(tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
        if id(tensor) not in memo:
            if not tensor.is_leaf:
                raise RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol")
            with torch.no_grad():
                copied = tensor.clone().requires_grad_(tensor.requires_grad)
            is_parameter = isinstance(tensor, nn.Parameter)
            memo[id(tensor)] = nn.Parameter(copied, tensor.requires_grad) if is_parameter else copied
        return memo[id(tensor)]

    convert = torch.Tensor.type

    def type_(tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        # Types of the GPU carry their device, and C++ starts the driver for them.
        name = f"{dtype.__module__}.{dtype.__name__}" if isinstance(dtype, type) else dtype
        if not isinstance(name, str) or not name.startswith("torch.cuda."):
            return convert(tensor, dtype, non_blocking, **kwargs) if dtype is not None else convert(tensor)
        on_host = getattr(torch, name.removeprefix("torch.cuda."))
        return tensor.to("cuda", on_host.dtype, non_blocking=non_blocking)

    session.patches.set(torch.Tensor, "type", type_)
    session.patches.set(FakeTensor, "__reduce_ex__", reduce)
    session.patches.set(FakeTensor, "__format__", format_)
    session.patches.set(FakeTensor, "__deepcopy__", deepcopy)
    session.patches.set(torch, "load", _load(torch.load))
    _profile(session)
    log = fake_tensor.log  # it writes a stack to the terminal for each shape that does not fit, beside the exception
    level = log.level
    log.setLevel(logging.CRITICAL)
    session.patches.later(lambda: log.setLevel(level))


def _profile(session: Session) -> None:
    """Profilers: without the GPU's part, which without a driver warns of each call, with a stack of C++."""
    begin = torch.autograd.profiler.profile.__init__

    @functools.wraps(begin)
    def beginning(profiler: Any, enabled: bool = True, **asked: Any) -> None:
        if asked.get("use_cuda") or asked.get("use_device") == "cuda":
            session.note("profiler", "the profiler was run without the GPU's part: times of kernels are not there")
            asked |= {"use_cuda": False, "use_device": None, "use_cpu": True}
        begin(profiler, enabled, **asked)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    session.patches.set(torch.autograd.profiler.profile, "__init__", beginning)
    for name in ("start", "stop"):
        session.patches.set(torch.cuda.profiler, name, nothing)


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.load`: what belongs on the GPU is read on the host and copied there."""

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if callable(map_location) or isinstance(map_location, dict):
            return original(f, map_location, *args, **kwargs)
        if map_location is not None:
            found = original(f, "cpu", *args, **kwargs)
            return _map(found, lambda t: t.to("cuda")) if torch.device(map_location).type == "cuda" else found
        on_gpu: set[int] = set()

        def locate(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage:
            if location.startswith("cuda"):
                on_gpu.add(storage._cdata)
            return storage

        found = original(f, locate, *args, **kwargs)
        return _map(found, lambda t: t.to("cuda") if t.untyped_storage()._cdata in on_gpu else t)

    return load


def _map(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        for key in value:
            value[key] = _map(value[key], function)
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_map(item, function) for item in value)
    return value

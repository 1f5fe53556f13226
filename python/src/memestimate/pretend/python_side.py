"""What Python does with tensors beside computing: print, copy, convert, hand on to other libraries."""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session


def install(session: Session) -> None:
    """Give tensors on the pretended GPU the methods that programs use on real ones."""

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
    session.patches.set(FakeTensor, "__format__", format_)
    session.patches.set(FakeTensor, "__deepcopy__", deepcopy)
    _handed_on(session)
    _profile(session)
    log = fake_tensor.log  # it writes a stack to the terminal for each shape that does not fit, beside the exception
    level = log.level
    log.setLevel(logging.CRITICAL)
    session.patches.later(lambda: log.setLevel(level))


def _handed_on(session: Session) -> None:
    """Memory that another library shall use: PyTorch itself gets it by DLPack, others are told that there is none."""

    def numpy(tensor: torch.Tensor, *, force: bool = False) -> Any:
        if force:
            return tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
        raise TypeError(
            f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )

    def refuse(tensor: torch.Tensor, *_: Any, **__: Any) -> Any:
        raise BufferError(
            "memestimate: another library asks for the address of a tensor, and a recording computes nothing: leave "
            "out what that library does, or do it with PyTorch"
        )

    def to_dlpack(tensor: torch.Tensor) -> Any:
        return tensor.detach() if isinstance(tensor, FakeTensor) else to(tensor)

    def from_dlpack(capsule: Any, **asked: Any) -> torch.Tensor:
        return capsule.detach() if isinstance(capsule, FakeTensor) else of(capsule, **asked)

    to, of = vars(torch.utils.dlpack)["to_dlpack"], torch.utils.dlpack.from_dlpack
    for owner in (torch, torch.utils.dlpack):
        session.patches.set(owner, "to_dlpack", to_dlpack)
        session.patches.set(owner, "from_dlpack", from_dlpack)
    session.patches.set(FakeTensor, "numpy", numpy)
    session.patches.set(FakeTensor, "__dlpack__", refuse)
    session.patches.set(FakeTensor, "__cuda_array_interface__", property(refuse))


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

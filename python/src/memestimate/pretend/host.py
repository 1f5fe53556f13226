"""Recording with a build of PyTorch that has no CUDA: the wheels of macOS, of Windows, and those for CPUs.

Such a build cannot run backward on fake CUDA tensors: its autograd engine asks for the streams of a device
that it was not built for. So C++ is told that they are on another device, one for which it has no code at
all and which autocast for CUDA accepts beside CUDA: XLA (autocast_mode.h, `is_autocast_eligible`). It then
asks for no stream, and what it makes "on the same device" is recognised by that name. To Python the
tensors are on ``cuda``, and so they are to the dispatcher. What C++ decides by looking at the device is
decided here as CUDA decides it.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.dispatch import to_cuda
from ..core.patches import Patches
from ..core.session import Session

aten = torch.ops.aten
_CPU, _CUDA, _XLA = 0, 1, 9  # c10::DeviceType, the same in every version
# cuDNN of the CUDA wheels of each version of PyTorch, and their CUDA
_CUDNN = {(2, 6): 90100, (2, 7): 90501, (2, 8): 91002, (2, 9): 91002, (2, 10): 91002, (2, 11): 91900, (2, 12): 92000}
_NEWEST_CUDNN = 92600


class HostError(RuntimeError):
    """This build of PyTorch cannot be told about another device; says what is missing."""


def cudnn_version() -> int:
    """The version of cuDNN that a recording is of: this build's, or that of the CUDA wheel of its version."""
    if torch.backends.cudnn.is_available():
        return int(torch.backends.cudnn.version() or 0)
    major, minor = torch.__version__.split(".")[:2]
    return _CUDNN.get((int(major), int(minor)), _NEWEST_CUDNN)


def install(session: Session) -> None:
    """Put everything in place that does not depend on a call's arguments."""
    registry = _registry()
    entries = (ctypes.c_void_p * (_XLA + 1)).from_address(registry)
    before = entries[_CUDA], entries[_XLA]
    entries[_CUDA] = entries[_XLA] = entries[_CPU]  # CUDA's own asks for a driver, if there is one at all

    def back() -> None:
        entries[_CUDA], entries[_XLA] = before

    session.patches.later(back)
    session.patches.set(FakeTensor, "is_cuda", property(lambda tensor: True))
    session.patches.set(FakeTensor, "is_xla", property(lambda tensor: False))
    session.patches.set(FakeTensor, "__setitem__", _set_item)
    version = cudnn_version()
    session.patches.set(torch.backends.cudnn, "is_available", lambda: True)
    session.patches.set(torch.backends.cudnn, "version", lambda: version)
    _convolutions(session.patches)
    library = torch.library.Library("aten", "IMPL")
    session.patches.later(library._destroy)
    for op, function in MOVES.items():  # of tensors of the host
        library.impl(op, function, "AutogradCPU")
    group = torch._C._group_tensors_by_device_and_dtype

    def grouped(lists: Any, with_indices: bool = False) -> Any:
        found = group(lists, with_indices)
        return {(to_cuda(device), dtype): value for (device, dtype), value in found.items()}

    session.patches.set(torch._C, "_group_tensors_by_device_and_dtype", grouped)


def _set_item(x: torch.Tensor, index: Any, value: Any) -> None:
    """`THPVariable_setitem`: a number becomes a tensor of the host for CUDA, and one of its device for others."""
    if isinstance(value, (bool, int, float, complex)):
        value = torch.tensor(value, dtype=x.dtype, device="cpu")
    torch.Tensor.__setitem__(x, index, value)


def _registry() -> int:
    """Address of ``c10::impl::device_guard_impl_registry``: an array of pointers, one a device type."""
    folder = Path(torch.__file__).parent / "lib"
    name = "_ZN3c104impl26device_guard_impl_registryE"
    try:
        if sys.platform == "win32":  # the name holds the array's length, which differs between versions
            library = folder / "c10.dll"
            found = re.search(rb"\?device_guard_impl_registry@impl@c10@@[\w@$?]+", library.read_bytes())
            name = found[0].decode() if found else name
        else:
            library = folder / ("libc10.dylib" if sys.platform == "darwin" else "libc10.so")
        return ctypes.addressof(ctypes.c_void_p.in_dll(ctypes.CDLL(str(library)), name))
    except (OSError, ValueError) as error:
        raise HostError(f"PyTorch's registry of device guards cannot be found: {error}") from error


def _convolutions(patches: Patches) -> None:
    """Convolutions run by cuDNN, whose results follow the memory format (native/ConvUtils.h)."""

    def memory_format(x: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
        """`cudnn_conv_suggest_memory_format`"""
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        wanted = formats.get(weight.dim())
        if wanted is None or torch.float64 in (x.dtype, weight.dtype):
            return torch.contiguous_format
        suggested = torch._prims_common.suggest_memory_format
        return wanted if wanted in (suggested(x), suggested(weight)) else torch.contiguous_format

    cudnn = torch._C._ConvBackend.Cudnn  # type: ignore[attr-defined]
    patches.set(torch._C, "_select_conv_backend", lambda *_, **__: cudnn)
    patches.set(torch._C, "_conv_determine_backend_memory_format", memory_format)


def _to(x: torch.Tensor, device: Any, dtype: torch.dtype, *args: Any, **kwargs: Any) -> Any:
    if _stays(x, device, dtype, *args[1:], **kwargs):
        return x
    return aten.to.device.decompose(x, _with_index(device), dtype, *args, **kwargs)


def _to_layout(
    x: torch.Tensor,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool = False,
    memory_format: Any = None,
    **kwargs: Any,
) -> Any:
    if device is not None and _stays(x, device, dtype or x.dtype, copy, memory_format):
        return x
    return aten.to.dtype_layout.decompose(
        x, dtype=dtype, device=_with_index(device), copy=copy, memory_format=memory_format, **kwargs
    )


MOVES: dict[OpOverload, Callable[..., Any]] = {aten.to.device: _to, aten.to.dtype_layout: _to_layout}


def _with_index(device: Any) -> Any:
    """A device for which C++ need not ask which one is the current one (TensorConversions.cpp, `ensure_has_index`)."""
    return torch.device("cuda", 0) if device is not None and torch.device(device).type == "cuda" else device


def _stays(x: torch.Tensor, device: Any, dtype: torch.dtype, copy: bool = False, memory_format: Any = None) -> bool:
    """`to_will_alias` (TensorConversions.cpp)"""
    return (
        isinstance(x, FakeTensor)
        and torch.device(device).type == "cuda"
        and x.dtype == dtype
        and not copy
        and memory_format in (None, torch.preserve_format, torch._prims_common.suggest_memory_format(x))
    )

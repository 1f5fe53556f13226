"""Autograd for pretended CUDA tensors on a machine without a GPU.

Fake tensors on ``cuda`` run forward anywhere, but PyTorch's autograd engine asks two
objects of libtorch about the device, and without a driver both answer in a way that stops
backward: the CUDA *device guard* (which stream a node belongs to) and the CUDA *hooks*
(does device 0 have a context). This module puts answers of its own in their place while a
recording runs, with no compiler, and takes them away again afterwards.

* The guard's registry, ``c10::impl::device_guard_impl_registry``, is an exported array of
  pointers, one a device type. The guard put there is a C++ object whose virtual methods are
  all the same few machine instructions: they return device type 1 (CUDA) with index 0 and
  stream 0. Read as a ``Device``, a ``Stream``, a device count or a bool that is the right
  answer to every method of the interface, so the order of the methods does not matter.
* The hooks object is found by the exported ``at::detail::getCUDAHooks()``. Its table of
  virtual methods is copied and ``hasPrimaryContext`` replaced. Which entry that is follows
  from the headers that every wheel ships; the count is checked by calling entries whose
  answers are known before anything is changed.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import re
import sys
from pathlib import Path

import torch

from ..core.session import Session

_CUDA = 1  # c10::DeviceType::CUDA, the same in every version
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_SPARE = 16  # entries copied beyond those that the headers name: methods a subclass may add

# One function a processor: return {device type 1, index 0} in the first result register and
# stream 0 in the second; and one that returns 0.
_CODE = {
    "x86_64": (b"\xb8\x01\x00\x00\x00\x31\xd2\xc3", b"\x31\xc0\xc3"),  # mov eax,1; xor edx,edx; ret
    "aarch64": (  # mov x0,#1; mov x1,#0; ret
        b"\x20\x00\x80\xd2\x01\x00\x80\xd2\xc0\x03\x5f\xd6",
        b"\x00\x00\x80\xd2\xc0\x03\x5f\xd6",
    ),
}


class EngineError(RuntimeError):
    """This build of PyTorch cannot be told that it has a GPU; says what is missing."""


Found = tuple[tuple[int, int], int, tuple[int, int, dict[str, int]]]


def prepare() -> Found:
    """See whether `install` will do, and change nothing.

    Raises
    ------
    EngineError
        This platform or this build of PyTorch is not what is expected.
    """
    return _thunks(), _guard_slot(), _hooks()


def install(session: Session) -> None:
    """Put the guard and the hooks of a GPU of the pretended one's compute capability in place."""
    (one, zero), registry, (hooks, table, slots) = prepare()
    answers = {"hasPrimaryContext": zero, "isAvailable": one, "deviceCount": one}
    # Compile-time facts that CUDAHooks answers by looking for a GPU; every GPU that
    # PyTorch 2.6 and later supports has them (CUDAHooks.cpp: cuDNN and compute 5.0).
    answers |= dict.fromkeys(("supportsDilatedConvolutionWithCuDNN", "supportsDepthwiseConvolutionWithCuDNN"), one)
    answers["supportsBFloat16ConvolutionWithCuDNNv8"] = one if session.gpu.capability >= (8, 0) else zero
    count = max(slots.values()) + 1 + _SPARE
    copy = (ctypes.c_void_p * (count + 2))()  # two words lie before a C++ table: offset and type
    ctypes.memmove(copy, table - 2 * _POINTER, ctypes.sizeof(copy))
    for name, code in answers.items():
        if name in slots:
            copy[2 + slots[name]] = code
    guard = (ctypes.c_void_p * 64)(*[one] * 64)
    instance = (ctypes.c_void_p * 8)(ctypes.addressof(guard))
    _KEEP.extend((copy, guard, instance))
    _write(session, registry, ctypes.addressof(instance))
    _write(session, hooks, ctypes.addressof(copy) + 2 * _POINTER)
    if not _is_accelerator():  # PyTorch 2.6 asks for another answer before a number is one of a GPU
        copy[2 + slots["hasCUDA"]] = one


def _write(session: Session, address: int, value: int) -> None:
    cell = ctypes.c_void_p.from_address(address)
    before = cell.value

    def undo() -> None:
        cell.value = before

    cell.value = value
    session.patches.later(undo)


def _is_accelerator() -> bool:
    """Whether C++ takes a number for that of a GPU, as in ``x.to(0)``."""
    try:
        return torch.device(0).type == "cuda"
    except RuntimeError:
        return False


# What C++ may still point to after a recording (a stream of a graph that outlives it) is never freed.
_KEEP: list[object] = []
_thunk_addresses: tuple[int, int] | None = None


def _thunks() -> tuple[int, int]:
    """Addresses of the two functions of `_CODE`, on a page that may be executed."""
    global _thunk_addresses
    if _thunk_addresses is not None:
        return _thunk_addresses
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    if sys.platform != "linux" or machine not in _CODE:
        raise EngineError(f"no way yet to answer PyTorch's engine on {sys.platform} {machine}")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    one, zero = _CODE[machine]
    page[: len(one)] = one
    page[64 : 64 + len(zero)] = zero
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.mprotect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise EngineError(
            f"this system does not let a program add code to itself (mprotect: errno {ctypes.get_errno()})"
        )
    _KEEP.append(page)
    _thunk_addresses = address, address + 64
    return _thunk_addresses


def _library(name: str) -> ctypes.CDLL:
    path = Path(torch.__file__).parent / "lib" / name
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise EngineError(f"PyTorch's {name} cannot be opened: {error}") from error


def _guard_slot() -> int:
    """Address of the registry's entry for CUDA."""
    try:
        cell = ctypes.c_void_p.in_dll(_library("libc10.so"), "_ZN3c104impl26device_guard_impl_registryE")
    except ValueError as error:
        raise EngineError("libc10.so does not show its registry of device guards") from error
    return ctypes.addressof(cell) + _CUDA * _POINTER


def _hooks() -> tuple[int, int, dict[str, int]]:
    """The hooks object, its table of virtual methods, and the entry of each method by name."""
    try:
        get = _library("libtorch_cpu.so")._ZN2at6detail12getCUDAHooksEv
    except AttributeError as error:
        raise EngineError("libtorch_cpu.so does not show at::detail::getCUDAHooks") from error
    get.restype = ctypes.c_void_p
    hooks = int(get())
    table = ctypes.c_void_p.from_address(hooks).value or 0
    include = Path(torch.__file__).parent / "include" / "ATen" / "detail"
    try:
        base = (include / "AcceleratorHooksInterface.h").read_text()
        cuda = (include / "CUDAHooksInterface.h").read_text()
    except OSError as error:
        raise EngineError(f"PyTorch's headers are not beside it: {error}") from error
    slots = virtual_slots(base, "AcceleratorHooksInterface", cuda, "CUDAHooksInterface")
    _check(hooks, table, slots)
    return hooks, table, slots


def virtual_slots(*headers_and_classes: str) -> dict[str, int]:
    """Entry of each virtual method in the table of the last class, by the Itanium C++ ABI.

    Parameters
    ----------
    *headers_and_classes
        Text of a header and the name of a class in it, from the base class to the most
        derived one.

    Notes
    -----
    Methods come in the order of their declaration, base class first; a destructor takes two
    entries; one that overrides takes the entry of what it overrides. Overloads share a name:
    the first one's entry is kept, the others count.
    """
    slots: dict[str, int] = {}
    count = 0
    pairs = zip(headers_and_classes[::2], headers_and_classes[1::2], strict=True)
    for text, name in pairs:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
        start = re.search(rf"\b(?:struct|class)\s+(?:\w+\s+)?{name}\b[^;{{]*{{", text)
        if start is None:
            raise EngineError(f"PyTorch's headers do not define {name} as expected")
        inherited = set(slots)
        for match in re.finditer(r"\bvirtual\b[^;{}()]*?(~?\w+)\s*\(", text[start.end() :]):
            method = match[1]
            if method in inherited:
                continue
            if method.startswith("~"):
                if count == 0:
                    count = 2
                continue
            slots.setdefault(method, count)
            count += 1
    return slots


def _check(hooks: int, table: int, slots: dict[str, int]) -> None:
    """Call entries whose answers are known; refuse if the table is not what the headers say."""

    def ask(name: str, result: type[ctypes.c_bool | ctypes.c_long]) -> int:
        if name not in slots:
            raise EngineError(f"CUDAHooks has no {name} in this version of PyTorch")
        code = ctypes.c_void_p.from_address(table + slots[name] * _POINTER).value
        return int(ctypes.CFUNCTYPE(result, ctypes.c_void_p)(code or 0)(hooks))

    if "hasPrimaryContext" not in slots:
        raise EngineError("CUDAHooks has no hasPrimaryContext in this version of PyTorch")
    cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
    if not torch.backends.cuda.is_built() or cudnn is None:
        raise EngineError("this is a build of PyTorch without CUDA and cuDNN")
    if ask("compiledWithCuDNN", ctypes.c_bool) != 1 or ask("compiledWithMIOpen", ctypes.c_bool) != 0:
        raise EngineError("CUDAHooks does not have the methods that its headers name")
    # Up to PyTorch 2.8 it is the version that PyTorch was built with, from then on the library's.
    major, minor, patch = torch._C._cudnn.getCompileVersion()
    built = major * 10_000 + minor * 100 + patch
    if ask("versionCuDNN", ctypes.c_long) not in (cudnn, built):
        raise EngineError("CUDAHooks does not have the methods in the order that its headers name")

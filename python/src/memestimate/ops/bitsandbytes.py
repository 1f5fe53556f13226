"""bitsandbytes on the pretended GPU: its own Python runs, above a library whose kernels do nothing.

What its operators allocate is said by the Python that calls the kernels (bitsandbytes/backends/cuda/ops.py): buffers to
dequantize into, scales, statistics of outliers. So that runs as it is, and its memory is right to the byte. Only the
shared library below it is a stand-in. Managed memory, which its paged optimizers ask CUDA for, is none of PyTorch's
allocator: the host gives it here, and a note says how much there is.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import sys
from types import ModuleType
from typing import Any

import torch
from torch._ops import OpOverload

from ..core.handlers import Arguments, Keywords
from ..core.patches import Patches
from ..core.session import Session
from ..core.tensors import tensors
from ..pretend.imports import when_imported

_PACKAGE = "bitsandbytes"
_KERNELS = f"{_PACKAGE}.backends.cuda.ops"
_MANAGED = "cget_managed_ptr"


class BitsAndBytes:
    """The stand-in for bitsandbytes' library, and its operators, for the time of a recording."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pages: list[mmap.mmap] = []
        self._managed = 0  # bytes

    def take_place(self, patches: Patches, module: ModuleType) -> None:
        """Put the stand-in in the place of the package's library."""
        library = Library(module.lib, self)
        patches.later(library.give_back)
        _replace(module.lib, library)
        patches.later(lambda: _replace(library, library.real))
        _forget(torch._C._cuda_getCurrentRawStream)

    def managed(self, size: int) -> int:
        """The address of managed memory: pages of the host that nobody writes, so that they take none."""
        page = mmap.mmap(-1, max(size, 1))
        self._pages.append(page)
        self._managed += size
        return ctypes.addressof(ctypes.c_char.from_buffer(page))

    def write(self) -> None:
        """Say how much is in managed memory, and where that is."""
        if self._managed:
            self._session.note(
                "managed",
                f"{self._managed / 2**30:.2f} GiB of a paged optimizer's state are in CUDA's managed memory, which"
                " is on the GPU while there is room and goes to the host where there is none: the allocator does not"
                " count it, and no figure here has it",
            )


def install(session: Session) -> None:
    """Take the library's place, when the program imports it."""
    owner, patches = session.part(BitsAndBytes), session.patches
    before = patches.set(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)
    patches.later(lambda: _forget(before))
    when_imported(patches, f"{_PACKAGE}.cextension", lambda module: owner.take_place(patches, module))


def run(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Run one of its operators: what the GPU's kernel in Python makes, or as any other operator."""
    if not func._schema.returns:  # an optimizer's step, or one that writes where it is told
        return NotImplemented
    key = torch._C.DispatchKey.CUDA
    if not func.has_kernel_for_dispatch_key(key):
        importlib.import_module(_KERNELS)  # without a GPU the package leaves it out
    if not func.has_kernel_for_dispatch_key(key):
        key = torch._C.DispatchKey.CompositeExplicitAutograd
        if not func.has_kernel_for_dispatch_key(key):
            return NotImplemented
    with session.capture:
        out = func._op_dk(key, *args, **kwargs)
    session.launch(func._schema.name, list(tensors([list(args), list(kwargs.values())])), [])
    return out


def finish(session: Session) -> None:
    """Say how much is in managed memory."""
    session.part(BitsAndBytes).write()


class Library:
    """bitsandbytes' shared library while a recording runs; the real one from then on."""

    def __init__(self, real: Any, owner: BitsAndBytes) -> None:
        self.real, self._owner = real, owner
        self._functions: dict[str, Any] = {}
        self.closed = False

    def give_back(self) -> None:
        """Let functions that the package has kept be the real ones."""
        self.closed = True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if not callable(found):
            return found
        return self._functions.setdefault(name, _Function(name, found, self))

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def call(self, name: str, *args: Any) -> int | None:
        """What a function of the library gives."""
        if name == _MANAGED:
            return self._owner.managed(int(args[0].value))
        return 0


class _Function:
    def __init__(self, name: str, real: Any, library: Library) -> None:
        vars(self).update(_name=name, _real=real, _library=library)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._library.closed:
            return self._real(*args, **kwargs)
        return self._library.call(self._name, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)  # argtypes and restype


def _replace(library: Any, other: Any) -> None:
    """Put another library in the place of one, in all modules that have it by name."""
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE) and getattr(module, "lib", None) is library:
            vars(module)["lib"] = other


def _forget(raw_stream: Any) -> None:
    """Drop what bitsandbytes keeps of a GPU: another recording may pretend another one, or there is a real one."""
    kernels, functional = sys.modules.get(_KERNELS), sys.modules.get(f"{_PACKAGE}.functional")
    if kernels is not None and hasattr(kernels, "_gpu_dispatch_props"):
        kernels._gpu_dispatch_props.cache_clear()
        vars(kernels)["_get_raw_stream"] = raw_stream
    if functional is not None and hasattr(functional, "GlobalPageManager"):  # not while it is imported
        functional.CUBLAS_Context._instance = None
        functional.GlobalPageManager._instance = None
        functional.name2qmap.clear()  # tables on the GPU

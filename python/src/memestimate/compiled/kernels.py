"""What Inductor's wrapper calls: allocations are pretended tensors, launches are logged and do nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session


class Kernel:
    """A kernel of Triton that Inductor made, without its code."""

    def __init__(self, name: str, session: Session) -> None:
        self.name = name
        self._session = session

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Log a launch."""
        given = [value for value in args if isinstance(value, FakeTensor)]
        self._session.launch(f"triton::{self.name}", given, given)


def install(session: Session) -> None:
    """Let the wrappers that are written from now on allocate and launch on the pretended GPU."""
    from torch._inductor import async_compile

    guards: Any = torch._C._dynamo.guards

    def empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

    def reinterpret(tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
        return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    session.patches.set(guards, "_empty_strided_cuda", empty_strided)
    session.patches.set(guards, "_reinterpret_tensor", reinterpret)
    session.patches.set(guards, "assert_size_stride", nothing)
    session.patches.set(guards, "assert_alignment", nothing)
    session.patches.set(torch._C, "_cuda_getCurrentRawStream", lambda device=0: 0)

    def triton(compiler: Any, name: str, source: str, device_str: str = "cuda") -> Kernel:
        return Kernel(name, session)

    session.patches.set(async_compile.AsyncCompile, "triton", triton)
    session.patches.set(async_compile.AsyncCompile, "wait", nothing)

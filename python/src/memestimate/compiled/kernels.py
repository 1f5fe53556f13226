"""What Inductor's wrapper calls: allocations are pretended tensors, launches are logged and do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from ..api.recorder import Recorder
    from ..core.patches import Patches


class Kernel:
    """A kernel of Triton that Inductor made, without its code."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        self.name = name
        self._recorder = recorder

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Log a launch."""
        given = [value for value in args if isinstance(value, FakeTensor)]
        self._recorder.launch(f"triton::{self.name}", given)
        for tensor in given:
            self._recorder.values.written(tensor, None)


def install(recorder: Recorder, patches: Patches) -> None:
    """Let the wrappers that are written from now on allocate and launch on the pretended GPU."""
    from torch._inductor import async_compile

    guards: Any = torch._C._dynamo.guards

    def empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(size, stride, dtype=dtype, device="cuda")

    def reinterpret(tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
        return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    patches.set(guards, "_empty_strided_cuda", empty_strided)
    patches.set(guards, "_reinterpret_tensor", reinterpret)
    patches.set(guards, "assert_size_stride", nothing)
    patches.set(guards, "assert_alignment", nothing)
    patches.set(torch._C, "_cuda_getCurrentRawStream", lambda device=0: 0)

    def triton(compiler: Any, name: str, source: str, device_str: str = "cuda") -> Kernel:
        return Kernel(name, recorder)

    patches.set(async_compile.AsyncCompile, "triton", triton)
    patches.set(async_compile.AsyncCompile, "wait", nothing)

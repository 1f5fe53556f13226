"""What Inductor's wrapper calls: allocations are pretended tensors, launches are logged and do nothing."""

from __future__ import annotations

import importlib
import math
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session
from .timing import Timing


class Kernel:
    """A kernel of Triton that Inductor made, without its code.

    Parameters
    ----------
    name, source
        Of the kernel.
    tuner
        What Inductor's heuristics made of its source: the configurations of which the first launch takes the fastest.
    session
        The recording.
    timing
        Holds what timing holds.
    tuned
        The sources whose fastest configuration is known, which Inductor's cache has for later graphs.
    """

    def __init__(self, name: str, source: str, tuner: Any, session: Session, timing: Timing, tuned: set[str]) -> None:
        self._name, self._source, self._session, self._timing, self._tuned = name, source, session, timing, tuned
        self._configs = 1 if source in tuned else len(tuner.configs or ()) + _smaller(tuner)
        changed = set(tuner.mutated_arg_names)
        self._changed = [i for i, name in enumerate(tuner.fn.arg_names) if name in changed]
        self._optimize_mem = tuner.optimize_mem  # of a forward pass that is followed by a backward one: False

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Log a launch; before the first one, time the configurations if there are several."""
        for _ in range(self._configs if self._configs > 1 else 0):
            self._timing.benchmark(partial(_copies, self._cloned(args)))
        self._configs = 1
        self._tuned.add(self._source)
        given = [value for value in args if isinstance(value, FakeTensor)]
        self._session.launch(f"triton::{self._name}", given, given)

    def _cloned(self, args: tuple[Any, ...]) -> list[torch.Tensor]:
        """What each timed launch of a configuration copies: what it writes in place.

        Where memory counts (``optimize_mem``), what would make a new peak is put aside on the host instead, as far as
        that is known before the first launch: the buffer that empties the cache is not there yet
        (copy_args_to_cpu_if_needed, torch/_inductor/runtime/triton_heuristics.py).
        """
        level = self._session.storages.levels[max(self._session.here, 0)]
        room = level.peak - level.allocated
        cloned = []
        for i in self._changed:
            if i < len(args) and isinstance(args[i], FakeTensor):
                size = args[i].numel() * args[i].element_size()
                if not self._optimize_mem:
                    cloned.append(args[i])
                elif size <= room:
                    room -= size
                    cloned.append(args[i])
        return cloned


def _smaller(tuner: Any) -> int:
    """How many configurations a reduction gets whose threads need fewer registers.

    CachingAutotuner._dynamic_scale_rblock (torch/_inductor/runtime/triton_heuristics.py) adds them by the number of
    registers that Triton's compiler took. Here it is one for each number that a thread loads: on an H200 reductions got
    such configurations from 40 on, and none up to 28.
    """
    if tuner.heuristic_type.name != "REDUCTION":
        return 0
    device, found = tuner.device_props, 0
    if (device.major or 0) < 8 or not device.regs_per_multiprocessor:
        return 0
    for config in tuner.configs or ():
        sizes = [size for name, size in config.kwargs.items() if name.startswith("R")]
        rows, threads = config.kwargs.get("XBLOCK", 1), 32 * config.num_warps
        registers = tuner.inductor_meta.get("num_load", 0) * rows * math.prod(sizes) // threads
        enough = device.regs_per_multiprocessor // device.max_threads_per_multi_processor
        if math.prod(sizes) <= 64 or registers <= enough:
            continue
        fit = max(device.regs_per_multiprocessor // (registers * threads), 1) * device.multi_processor_count
        found += -(-tuner.size_hints["x"] // rows) > fit
    return found


def _copies(values: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.empty_like(value) for value in values]


def install(session: Session, timing: Timing, made: list[str]) -> None:
    """Let the wrappers that are written from now on allocate and launch on the pretended GPU.

    `made` gets the names of the kernels.
    """
    async_compile: Any = importlib.import_module("torch._inductor.async_compile")
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

    tuned: set[str] = set()
    load = async_compile._load_triton_kernel_from_source

    def triton(compiler: Any, name: str, source: str, device_str: str = "cuda") -> Kernel:
        made.append(name)
        return Kernel(name, source, load(name, source), session, timing, tuned)

    # The driver is set already; this would look for the real one.
    helpers = importlib.import_module("torch._inductor.runtime.triton_helpers")
    session.patches.set(helpers, "set_driver_to_gpu", nothing)
    session.patches.set(async_compile.AsyncCompile, "triton", triton)
    session.patches.set(async_compile.AsyncCompile, "wait", nothing)

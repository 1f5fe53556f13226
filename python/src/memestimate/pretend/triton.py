"""Triton without a GPU: a driver that answers for the pretended one, and launches that run nothing.

A launch takes no memory: what a kernel writes was made before by PyTorch. So it is logged as a call and is over. What
does take memory are Triton's autotuners, which hold a buffer of PyTorch's while they time (triton/testing.py).
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session
from .kernels import written

_TIME = 1.0  # milliseconds that each configuration is taken to need: the first is kept
_SHARED = {(7, 0): 98304, (7, 5): 65536, (8, 0): 166912, (8, 6): 101376, (8, 7): 166912, (8, 9): 101376}
_SHARED |= {(9, 0): 232448, (10, 0): 232448, (10, 3): 232448, (12, 0): 101376}  # bytes a block may ask for: CUDA C++
# Programming Guide, "Technical Specifications per Compute Capability"; newer ones are taken to be as Hopper


class Triton:
    """Triton's driver and launches for the time of a recording."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._caches: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
        self._compile = threading.RLock()

    def launch(self, name: str, arguments: Iterator[Any] | Sequence[Any] | Any, changed: Sequence[Any]) -> None:
        """Log the launch of a kernel; what it writes is not known any more."""
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
            return  # PyTorch itself tries something out on fake tensors
        given = [base for base in map(_tensor, arguments) if isinstance(base, FakeTensor)]
        self._session.launch(f"triton::{name}", given, [t for t in map(_tensor, changed) if isinstance(t, FakeTensor)])

    def _compiled(self, run: Callable[..., Any], kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Compile a kernel for the pretended GPU, as Triton does anywhere, and keep nothing of it."""
        mock = importlib.import_module("triton.runtime.jit").MockTensor.wrap_dtype

        def typed(value: Any) -> Any:
            return mock(value.dtype) if isinstance(value, torch.Tensor) else value

        with self._compile:
            held = {name: getattr(kernel, name) for name in ("device_caches", "cache") if hasattr(kernel, name)}
            for name, cache in held.items():
                setattr(kernel, name, defaultdict(cache.default_factory))
            try:
                kwargs = {key: typed(value) for key, value in kwargs.items()}
                return run(kernel, *map(typed, args), grid=None, warmup=True, **kwargs)
            finally:
                for name, cache in held.items():
                    setattr(kernel, name, cache)


def install(session: Session) -> None:
    """Answer for Triton, where it is installed."""
    launches = session.part(Triton)
    if importlib.util.find_spec("triton") is None:
        return
    triton = importlib.import_module("triton")
    jit, autotuner, config = triton.runtime.jit, triton.runtime.autotuner, triton.runtime.driver
    before = dict(vars(config))
    driver = Driver(session.gpu, launches.launch)
    vars(config)["default" if "default" in before else "_default"] = driver  # reset_active() goes back to it
    config.set_active(driver)

    def restore() -> None:
        vars(config).clear()
        vars(config).update(before)

    session.patches.later(restore)
    testing = importlib.import_module("triton.testing")
    for name in ("do_bench", "do_bench_cudagraph"):
        session.patches.set(testing, name, benchmark)
    run, tune = jit.JITFunction.run, autotuner.Autotuner.run

    def launched(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return launches._compiled(run, kernel, args, kwargs)
        for hook in kernel.pre_run_hooks:
            hook(*args, **kwargs)
        names = kernel.arg_names
        bound = {p.name: p.default for p in kernel.signature.parameters.values() if p.default is not p.empty}
        bound |= dict(zip(names, args, strict=False)) | {k: v for k, v in kwargs.items() if k in names}
        missing = [name for name in names if name not in bound]
        if missing:
            raise TypeError(f"{kernel.fn.__name__}() missing {len(missing)} required arguments: {missing}")
        if callable(grid):
            grid(bound)  # it may set what the program reads afterwards
        launches.launch(kernel.fn.__name__, bound.values(), [bound[name] for name in written(kernel)])
        return _Launched(launches, kernel, functools.partial(launches._compiled, run, kernel, args, kwargs))

    def tuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        # What was timed before or in another recording is not known here, and what this one finds not outside.
        before, tuner.cache = tuner.cache, launches._caches.setdefault(tuner, {})
        try:
            return tune(tuner, *args, **kwargs)
        finally:
            tuner.cache = before

    session.patches.set(jit.JITFunction, "run", launched)
    session.patches.set(autotuner.Autotuner, "run", tuned)
    # A property comes before what an autotuner has kept of the real driver's.
    session.patches.set(autotuner.Autotuner, "do_bench", property(lambda tuner: tuner._do_bench or benchmark))


class Driver:
    """What Triton asks its driver, answered for the pretended GPU (triton/backends/nvidia/driver.py)."""

    def __init__(self, gpu: Any, launch: Callable[[str, Any, Sequence[Any]], None]) -> None:
        self._gpu, self._launch = gpu, launch
        self.utils = SimpleNamespace(
            get_device_properties=lambda device=0: self._properties(),
            load_binary=lambda name, binary, shared, device: (1, 1, 64, 0, 1024),  # module, function, registers, spills
            cuOccupancyMaxActiveClusters=lambda *_: gpu.multiprocessors,
            set_printf_fifo_size=lambda size: None,
            fill_tma_descriptor=lambda *_: None,
            fill_1d_tma_descriptor=lambda *_: None,
            fill_2d_tma_descriptor=lambda *_: None,
            build_tma_descriptor=lambda *_: None,
        )

    @staticmethod
    def is_active() -> bool:
        """Whether there is a GPU: always."""
        return True

    def get_current_target(self) -> Any:
        """For what kernels are compiled."""
        major, minor = self._gpu.capability
        return importlib.import_module("triton.backends.compiler").GPUTarget("cuda", major * 10 + minor, 32)

    def get_active_torch_device(self) -> torch.device:
        """The pretended GPU."""
        return torch.device("cuda", torch.cuda.current_device())

    def get_device_interface(self) -> ModuleType:
        """PyTorch's module of the GPU, which pretends itself."""
        return torch.cuda

    def get_current_device(self) -> int:
        """Number of the GPU that is in use."""
        return torch.cuda.current_device()

    def set_current_device(self, device: int) -> None:
        """Use another GPU."""
        torch.cuda.set_device(device)

    def get_current_stream(self, device: Any = None) -> int:
        """Handle of the stream that is in use."""
        return int(torch.cuda.current_stream(device).cuda_stream)

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Compute capability of the pretended GPU."""
        major, minor = self._gpu.capability
        return major, minor

    def get_benchmarker(self) -> Callable[..., Any]:
        """The function that autotuners time with."""
        return benchmark

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """The buffer that pushes everything out of the GPU's cache between two timed runs."""
        return torch.empty((256 << 20) // 4, dtype=torch.int, device="cuda")

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Write all of that buffer."""
        cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """C++'s type of one of Triton's."""
        return str(importlib.import_module("triton.backends.nvidia.driver").ty_to_cpp(ty))

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        """Arguments of a kernel that takes TMA descriptors: as they are."""
        return args

    def launcher_cls(self, src: Any, metadata: Any) -> Callable[..., None]:
        """A launcher of a kernel that was compiled before; its last arguments are the kernel's."""
        count = len(src.fn.arg_names)

        def launched(*args: Any) -> None:
            values = dict(zip(src.fn.arg_names, args[-count:], strict=False))
            self._launch(src.fn.fn.__name__, values.values(), [values[name] for name in written(src.fn)])

        return launched

    def _properties(self) -> dict[str, int]:
        return {
            "max_shared_mem": _SHARED.get(self._gpu.capability, 232448),
            "max_num_regs": 65536,
            "multiprocessor_count": self._gpu.multiprocessors,
            "warpSize": 32,
            "sm_clock_rate": 1980000,  # kHz, as the memory's; performance models divide by them
            "mem_clock_rate": 3201000,
            "mem_bus_width": 6144,
        }


def benchmark(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[torch.Tensor] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time a function as `triton.testing.do_bench` does, by what it holds on the GPU, and say the same of each."""
    fn()
    cache = torch.empty((256 << 20) // 4, dtype=torch.int, device="cuda")
    for tensor in grad_to_none or ():
        tensor.grad = None
    cache.zero_()
    fn()
    if quantiles is None:
        return [_TIME] if return_mode == "all" else _TIME
    return [_TIME] * len(quantiles) if len(quantiles) != 1 else _TIME


class _Launched:
    """What a launch gives back: the compiled kernel, which is compiled when the program asks something of it."""

    def __init__(self, triton: Triton, kernel: Any, compile: Callable[[], Any]) -> None:
        self._triton, self._kernel, self._compile = triton, kernel, compile

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launched(*args: Any, stream: Any = None) -> None:
            values = dict(zip(self._kernel.arg_names, args, strict=False))
            changed = [values[name] for name in written(self._kernel) if name in values]
            self._triton.launch(self._kernel.fn.__name__, values.values(), changed)

        return launched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compile(), name)


def _tensor(value: Any) -> Any:
    """The tensor of a kernel's argument: itself, or that of a descriptor or a reinterpreted one."""
    return getattr(value, "base", value) if not isinstance(value, torch.Tensor) else value

"""What Inductor times on a GPU before it decides: it takes memory while it does, and here a rule answers.

Whether a matrix product is padded to sizes that tensor cores take (torch/_inductor/fx_passes/pad_mm.py) is decided by
how long both ways would take. Among several configurations of a kernel any may be the fastest, all take the same.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from ..core.patches import Patches
from ..core.session import Session

_TIME = 1.0  # milliseconds, where nothing hangs on it
# How much longer a product in 16 bits or TF32 takes whose rows begin at multiples of so many elements, than one at
# multiples of eight. These factors are our estimate: they were measured nowhere, nor checked with any measured case.
_SLOWER = {1: 2.5, 2: 1.6, 4: 1.15}
_OPERATIONS = 600e9  # that tensor cores do in a millisecond on a Hopper, of 989e9 at best
_BYTES = 4e9  # that are read and written in a millisecond, of 4.8e9 at best


class Timing:
    """The benchmarks of a recording."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._times: dict[str, float] = {}  # milliseconds, by the function that is timed

    def keep(self, patches: Patches) -> None:
        """Answer for the benchmarks, holding what they hold."""
        benchmarking: Any = importlib.import_module("torch._inductor.runtime.benchmarking")
        pad: Any = importlib.import_module("torch._inductor.fx_passes.pad_mm")
        unset_fake_temporarily = importlib.import_module("torch._subclasses.fake_tensor").unset_fake_temporarily
        asks = "_should_pad" if hasattr(pad, "_should_pad") else "_should_pad_bench"  # before 2.11
        should = getattr(pad, asks)
        should = getattr(should, "__wrapped__", should)  # which keeps answers for other recordings

        def benchmark_gpu(benchmarker: Any, run: Callable[[], Any], *_: Any, **__: Any) -> float:
            return self.benchmark(run)

        @contextmanager
        def on_gpu() -> Iterator[None]:
            with unset_fake_temporarily(), self._session.capture:
                yield

        def decided(match: Any, a: Any, b: Any, op: Any, input: Any = None) -> bool:
            self._times = _times(pad, match, a, b)
            try:
                padded = bool(should(match, a, b, op, input))
            finally:
                self._times = {}
            if padded:
                sizes = [list(map(int, t.shape)) for t in (a, b)]
                text = (
                    f"the product of {sizes[0]} and {sizes[1]} is taken to be padded, which Inductor decides by timing"
                )
                self._session.note("padding", text)
            return padded

        patches.set(benchmarking.InductorBenchmarker, "benchmark_gpu", benchmark_gpu)
        patches.set(benchmarking.TritonBenchmarker, "benchmark_gpu", benchmark_gpu)
        patches.set(pad, asks, decided)
        patches.set(pad, "no_dispatch", on_gpu)
        patches.set(pad, "get_do_bench", lambda: self.benchmark)
        nothing = SimpleNamespace(lookup=lambda key: None, set_value=lambda key, value: None)
        patches.set(pad, "get_pad_cache", lambda: nothing)
        self._try_choices(patches, on_gpu)

    def _try_choices(self, patches: Patches, on_gpu: Callable[[], AbstractContextManager[None]]) -> None:
        """Hold what the trials of max-autotune hold: operands and a result of their own, for each size of a product.

        On a GPU templates of Triton are tried besides, which take no more. Which is the fastest nobody knows here:
        cuBLAS and cuDNN are taken, whose workspaces and results take the most.
        """
        algorithms: Any = importlib.import_module("torch._inductor.select_algorithm")
        config: Any = importlib.import_module("torch._inductor.config")
        kind = algorithms.AlgorithmSelectorCache
        call, benchmark = kind.__call__, kind.benchmark_in_current_process
        tried: set[Any] = set()

        def trial(choices: Any, *args: Any, **kwargs: Any) -> Any:
            text = "max-autotune is taken to choose cuBLAS and cuDNN, which it decides by timing"
            self._session.note("autotune", text)
            with on_gpu():
                return benchmark(choices, *args, **kwargs)

        def chosen(cache: Any, name: str, choices: Any, nodes: Any, layout: Any, *args: Any, **kwargs: Any) -> Any:
            key = name, algorithms.create_inputs_key(nodes)
            alone = len(choices) == 1 and layout.device.type == "cuda"  # as there is no template here
            if alone and (config.max_autotune or config.max_autotune_gemm) and key not in tried:
                tried.add(key)
                trial(choices, nodes, layout, args[0] if args else kwargs.get("input_gen_fns"))
            kwargs["return_multi_template"] = False  # which waits for what a template may be fused with
            return call(cache, name, choices, nodes, layout, *args, **kwargs)

        patches.set(kind, "__call__", chosen)
        for name in ("benchmark_in_current_process", "benchmark_in_sub_process"):
            patches.set(kind, name, staticmethod(trial))

    def benchmark(self, run: Callable[[], Any], *_: Any, **__: Any) -> float:
        """Run something as often as it takes to hold what it holds, beside the buffer that empties the cache."""
        run()
        session = self._session
        size = [torch.cuda.get_device_properties(0).L2_cache_size // 4]
        buffer = session.empty(size, torch.int32)
        session.log(torch.ops.aten.empty.memory_format, (size,), {}, buffer, "inductor::cold_cache")
        run()
        del buffer
        return self._times.get(getattr(run, "__name__", ""), _TIME)


def _times(pad: Any, match: Any, a: torch.Tensor, b: torch.Tensor) -> dict[str, float]:
    """Milliseconds of a product as it is and of the padded one."""
    m, k, n = (int(size) for size in (a.shape[-2], a.shape[-1], b.shape[-1]))
    batch = int(a.shape[0]) if a.dim() == 3 else 1
    cores = a.dtype in (torch.float16, torch.bfloat16) or (
        a.dtype is torch.float32 and torch.backends.cuda.matmul.allow_tf32
    )
    whole = 2 * batch * m * k * n / _OPERATIONS
    moved = 0
    for name, operand, sizes in (("mat1", a, (m, k)), ("mat2", b, (k, n))):
        # A copy, unless it can be made where the operand itself is made (should_exclude_padding_time).
        if any(size % 8 for size in sizes) and not pad.should_exclude_padding_time(match, name):
            moved += 2 * operand.numel() * operand.element_size()
    aligned = min(math.gcd(size, 8) for size in (m, k, n))
    slower = _SLOWER.get(aligned, 1.0) if cores else 1.0
    return {"orig_bench_fn": whole * slower, "pad_bench_fn": whole + moved / _BYTES}

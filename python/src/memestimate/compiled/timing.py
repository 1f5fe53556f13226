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
# What 416 products of random sizes and layouts took on an H200 with PyTorch 2.11, as they are and padded. These figures
# say of 383 whether padding is faster by the tenth that Inductor asks for, and of 322 of the 340 that a tenth decides.
_LAUNCH, _UNALIGNED = 0.0073, 0.0149  # milliseconds at least, where rows begin at multiples of 16 bytes or not
_MOVED = 1.89e9  # bytes a millisecond that a product reads and writes
_COPIED, _TURNED = 1.51e9, 0.56e9  # that padding an operand does, as it lies row by row or not
_COPY, _FILL, _BIAS = 0.0029, 0.0017, 0.0061  # milliseconds more for an operand, for one that is planned, for a bias
# Operations a millisecond, by how many bytes the beginnings of rows are multiples of.
_HALF = {16: 680e9, 8: 188e9, 4: 189e9, 2: 105e9}  # in 16 bits
_TF32 = {16: 310e9, 8: 94e9, 4: 96e9}
_FLOAT = 42.5e9  # in 32 bits, without tensor cores


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
            self._times = _times(pad, match, a, b, op is torch.ops.aten.addmm)
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


def _times(pad: Any, match: Any, a: torch.Tensor, b: torch.Tensor, bias: bool) -> dict[str, float]:
    """Milliseconds of a product as it is and of the padded one."""
    lengths = a.shape[-2], a.shape[-1], b.shape[-1]
    m, k, n = map(int, lengths)
    batch = int(a.shape[0]) if a.dim() == 3 else 1
    size, multiple = a.element_size(), pad.get_alignment_size(a)
    padded = [int(length) + int(pad.get_padded_length(length, multiple)) for length in lengths]  # 0 for a symbol
    rows = [k if a.stride(-1) == 1 else m, n if b.stride(-1) == 1 else k, n]  # elements between their beginnings
    rates = _HALF if size == 2 else _TF32 if size == 4 and torch.backends.cuda.matmul.allow_tf32 else {}

    def product(sizes: list[int], aligned: int) -> float:
        m, k, n = sizes
        moved = batch * size * (m * k + k * n + m * n)
        return (_LAUNCH if aligned == 16 else _UNALIGNED) + max(
            2 * batch * m * k * n / rates.get(aligned, _FLOAT), moved / _MOVED
        )

    whole = product(padded, 16)
    for name, operand, sizes in (("mat1", a, padded[:2]), ("mat2", b, padded[1:])):
        if [int(length) for length in operand.shape[-2:]] == sizes:
            continue
        if pad.should_exclude_padding_time(match, name):  # planned: made with the padding, which is filled
            whole += _FILL
        else:
            moved = size * (operand.numel() + batch * math.prod(sizes))
            whole += _COPY + moved / (_COPIED if operand.stride(-1) == 1 else _TURNED)
    if bias and padded[2] != n:
        whole += _BIAS
    return {"orig_bench_fn": product([m, k, n], min(math.gcd(row * size, 16) for row in rows)), "pad_bench_fn": whole}

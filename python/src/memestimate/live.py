"""Memory of the live GPUs of this machine, by fastai's names: what is used now, and how far it rose meanwhile.

Sizes are whole MB of 1024 * 1024 bytes, as in ``fastai.utils.mem``, of which these are the calls. They are read through
NVML (``pip install nvidia-ml-py``), cost tens of microseconds, and neither take GPU memory nor start CUDA. What other
processes have is counted too. Without an NVIDIA driver all sizes are 0, so that a script runs where there is no GPU.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_MB = 1 << 20


class GPUMemory(NamedTuple):
    """Memory of one GPU in MB; what driver and firmware set aside is neither free nor used, where they tell."""

    total: int
    free: int
    used: int


class GPUMemTraceData(NamedTuple):
    """What a trace measured, in MB: `used` now less at the start, and `peaked` beyond both, never negative."""

    used: int
    peaked: int


@functools.cache
def _nvml() -> Any:
    """Return pynvml, connected to the driver; None where there is no driver.

    Raises
    ------
    ImportError
        If nvidia-ml-py is not installed.
    """
    try:
        import pynvml
    except ImportError as error:
        raise ImportError("reading the memory of GPUs needs NVIDIA's NVML: pip install nvidia-ml-py") from error
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return None
    return pynvml


def _memory(handle: Any) -> tuple[int, int, int]:
    """Return total, free and used memory of a GPU in bytes."""
    nvml = _nvml()
    try:
        info = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError_FunctionNotFound, nvml.NVMLError_ArgumentVersionMismatch):  # before R510
        info = nvml.nvmlDeviceGetMemoryInfo(handle)
    return int(info.total), int(info.free), int(info.used)


def _torch() -> Any:
    """Return PyTorch where the program has imported it and has started CUDA, otherwise None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_initialized() else None


def _by_uuid(uuid: str) -> Any:
    """Return NVML's handle of the GPU or MIG instance with this UUID, or the only one whose UUID starts so."""
    nvml = _nvml()
    with contextlib.suppress(nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    all_of = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    meant = [h for h in all_of if nvml.nvmlDeviceGetUUID(h).lower().startswith(uuid.lower())]
    if len(meant) != 1:
        raise ValueError(f"GPU {uuid!r}: {len(meant)} GPUs have a UUID that starts so, wanted one")
    return meant[0]


def _handle(gpu: int | str | None) -> Any:
    """Return NVML's handle of a GPU: by its number, by its UUID, or of the one that PyTorch uses."""
    nvml = _nvml()
    if gpu is None:
        if torch := _torch():
            uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
            with contextlib.suppress(nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
                return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            return nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        gpu = int(first) if first.isdecimal() else first
    if isinstance(gpu, str):
        return _by_uuid(gpu)
    count = nvml.nvmlDeviceGetCount()
    if not 0 <= gpu < count:
        raise ValueError(f"GPU {gpu}: no such GPU, wanted one of {count}")
    return nvml.nvmlDeviceGetHandleByIndex(gpu)


def _drop_cache() -> None:
    """Let PyTorch give back what it keeps for later tensors."""
    if torch := _torch():
        torch.cuda.empty_cache()


def gpu_mem_get(id: int | str | None = None) -> GPUMemory:
    """Return the memory of a GPU in MB.

    Parameters
    ----------
    id
        Its number as nvidia-smi counts, or its UUID. None is PyTorch's current device, or the first one that CUDA would
        use while PyTorch has not started it: on a host with several models CUDA may count otherwise.

    Raises
    ------
    ImportError
        If nvidia-ml-py is not installed.
    ValueError
        If there is no such GPU.
    pynvml.NVMLError
        If the driver does not tell.
    """
    if _nvml() is None:
        return GPUMemory(0, 0, 0)
    return GPUMemory(*(n // _MB for n in _memory(_handle(id))))


def gpu_mem_get_all() -> list[GPUMemory]:
    """Return the memory of every GPU in MB, in nvidia-smi's order; none where there is no driver."""
    nvml = _nvml()
    return [] if nvml is None else [gpu_mem_get(i) for i in range(nvml.nvmlDeviceGetCount())]


def gpu_mem_get_free(id: int | str | None = None) -> int:
    """Return the free memory of a GPU in MB; `id` is that of :func:`gpu_mem_get`."""
    return gpu_mem_get(id).free


def gpu_mem_get_used(id: int | str | None = None) -> int:
    """Return the used memory of a GPU in MB; `id` is that of :func:`gpu_mem_get`."""
    return gpu_mem_get(id).used


def gpu_mem_get_used_fast(gpu_handle: Any) -> int:
    """Return the used memory in MB of the GPU that pynvml has this handle for."""
    return _memory(gpu_handle)[2] // _MB


def gpu_mem_get_free_no_cache(id: int | str | None = None) -> int:
    """Return the free memory of a GPU in MB after PyTorch has given back what it caches."""
    _drop_cache()
    return gpu_mem_get_free(id)


def gpu_mem_get_used_no_cache(id: int | str | None = None) -> int:
    """Return the used memory of a GPU in MB after PyTorch has given back what it caches."""
    _drop_cache()
    return gpu_mem_get_used(id)


def gpu_with_max_free_mem() -> tuple[int | None, int]:
    """Return number and free MB of the GPU with the most free memory, of equals the first; (None, 0) without one."""
    free = [m.free for m in gpu_mem_get_all()]
    return (free.index(max(free)), max(free)) if free else (None, 0)


class GPUMemTrace(contextlib.ContextDecorator):
    """Measure by how much used memory grows, and how far it peaks meanwhile: a context manager and a decorator.

    A thread looks every `interval` seconds, 900 times in a second that the program sleeps or launches kernels; while
    Python computes without a break it gets to look about 90 times. Shorter peaks may go unseen. As in fastai, PyTorch
    gives its cache back when a trace starts and when it is read.

    Parameters
    ----------
    silent
        Print no reports.
    ctx
        Said in every report.
    on_exit_report
        Report at the end of a with-block or of a decorated function.
    gpu
        Which GPU: the `id` of :func:`gpu_mem_get`.
    interval
        Seconds between two looks.

    Examples
    --------
    >>> with GPUMemTrace(ctx="train") as trace:  # doctest: +SKIP
    ...     step()
    ...     trace.report_n_reset("epoch 1")
    △Used Peaked MB:  2,345    655 (train: epoch 1)
    △Used Peaked MB:      0      0 (train: exit)
    """

    def __init__(
        self,
        silent: bool = False,
        ctx: str | None = None,
        on_exit_report: bool = True,
        gpu: int | str | None = None,
        interval: float = 0.001,
    ) -> None:
        self.silenced, self.ctx, self.on_exit_report = silent, ctx, on_exit_report
        self.gpu, self.interval = gpu, interval
        self.samples = 0
        self._start = self._peak = self._end = 0
        self._handle: Any = None
        self._lock = threading.Lock()  # a look from before a reset must not count after it
        self._quit: threading.Event | None = None
        self._watcher: threading.Thread | None = None
        self._failed: BaseException | None = None

    def _recreate_cm(self) -> GPUMemTrace:
        """Return a trace of its own for each call of a decorated function."""
        return type(self)(self.silenced, self.ctx, self.on_exit_report, self.gpu, self.interval)

    def __enter__(self) -> GPUMemTrace:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.on_exit_report:
            self.report("exit")

    def __repr__(self) -> str:
        return self._line(None)

    def _used(self) -> int:
        """Return the GPU's used memory in bytes, and count the look."""
        self.samples += 1
        return 0 if self._handle is None else _memory(self._handle)[2]

    def start(self) -> None:
        """Begin to measure, from now."""
        self.reset()
        if self._quit is None:
            self._quit, self._failed = threading.Event(), None
            self._watcher = threading.Thread(target=self._watch, args=(self._quit,), daemon=True)
            self._watcher.start()

    def _watch(self, quit: threading.Event) -> None:
        try:
            while not quit.wait(self.interval):
                with self._lock:
                    self._peak = max(self._peak, self._used())
        except Exception as error:  # told by the one who asks for the data
            self._failed = error

    def reset(self) -> None:
        """Make now the start."""
        if self._handle is None and _nvml() is not None:
            self._handle = _handle(self.gpu)
        _drop_cache()
        with self._lock:
            self._start = self._peak = self._end = self._used()

    def stop(self) -> None:
        """End the measuring; the data stays."""
        if self._quit is None or self._watcher is None:
            return
        self._quit.set()
        self._watcher.join()
        self._quit = self._watcher = None
        self._look()

    def _look(self) -> None:
        """Take what is used now for the end; the peak is from before PyTorch gave its cache back."""
        with self._lock:
            self._peak = max(self._peak, self._used())
            _drop_cache()
            self._end = self._used()

    def data(self) -> GPUMemTraceData:
        """Return what was measured: until now, or until :meth:`stop`.

        Raises
        ------
        RuntimeError
            If the driver failed meanwhile.
        """
        if self._quit is not None:
            self._look()
        if self._failed is not None:
            raise RuntimeError(f"the trace ended early: {self._failed}") from self._failed
        used = self._end - self._start
        return GPUMemTraceData(int(used / _MB), max(self._peak - self._start - max(used, 0), 0) // _MB)

    def silent(self, silent: bool = True) -> None:
        """Print no reports from now on, or print them again."""
        self.silenced = silent

    def _line(self, subctx: str | None) -> str:
        used, peaked = self.data()
        said = ": ".join(c for c in (self.ctx, subctx) if c)
        return f"△Used Peaked MB: {used:6,} {peaked:6,}" + (f" ({said})" if said else "")

    def report(self, subctx: str | None = None) -> None:
        """Print what was measured until now."""
        if not self.silenced:
            print(self._line(subctx))

    def report_n_reset(self, subctx: str | None = None) -> None:
        """Print what was measured, and make now the start of what comes next."""
        self.report(subctx)
        self.reset()


def gpu_mem_trace(func: Callable[P, R]) -> Callable[P, R]:
    """Report for every call of a function what it took, with its name."""

    @functools.wraps(func)
    def traced(*args: P.args, **kwargs: P.kwargs) -> R:
        with GPUMemTrace(ctx=func.__qualname__):
            return func(*args, **kwargs)

    return traced

"""What ``torch.cuda`` answers while it pretends to have a GPU."""

from __future__ import annotations

import functools
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch.utils._device import _device_constructors

from ..core.gpus import l2_cache
from ..core.pinned import Pinned
from ..core.session import Session
from .out_of_memory import OutOfMemory
from .replay import Replay
from .streams import DefaultGenerator, Event, Generator, Graph, MemPool, Pool, Stream, Switch, use_mem_pool

Answer = Callable[..., Any]
_COUNTS = ("num_ooms", "num_alloc_retries", "num_sync_all_streams", "num_device_alloc", "num_device_free")


class Device:
    """The pretended GPUs: properties, streams, events, memory counters."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._thread = threading.local()  # whose current GPU is in it
        Stream._device = self
        self.default = [Stream(i, number=0) for i in range(session.gpus)]
        self._current = list(self.default)
        self._written = {0: 0}  # numbers of streams in this recording, of which a process may make several

    @property
    def index(self) -> int:
        """The current GPU of this thread."""
        return getattr(self._thread, "index", 0)

    def index_of(self, device: Any = None) -> int:
        """The GPU that a program means by a number, a name or a device, or by none."""
        if self._session.gpus == 1:
            return 0
        if isinstance(device, str):
            device = torch.device(device)
        number = device.index if isinstance(device, torch.device) else device
        if number is None or number < 0:
            return self.index
        if number >= self._session.gpus:
            raise RuntimeError(f"the program uses cuda:{number}: record it with --gpus {number + 1}")
        return int(number)

    def exchange(self, device: Any) -> int:
        """Make a GPU the current one; a negative number changes nothing. Returns the one before."""
        before = self.index
        self._thread.index = self.index_of(device)
        return before

    def current(self, device: Any = None) -> Stream:
        """The stream that is in use on a GPU."""
        return self._current[self.index_of(device)]

    def use(self, stream: Stream) -> None:
        """Put a stream in use, and make its GPU the current one."""
        self._thread.index = stream.device_index
        self._current[stream.device_index] = stream
        self._session.streams[stream.device_index] = self.written(stream.stream_id)

    def written(self, stream: int) -> int:
        """The number of a stream in the recording, by the order in which they are used."""
        return self._written.setdefault(stream, len(self._written))

    def enter(self, stream: Stream) -> tuple[int, Stream]:
        """Put a stream in use; returns the GPU that was the current one, and the stream that was in use on its own."""
        before = self.index, self._current[stream.device_index]
        self.use(stream)
        return before

    def leave(self, before: tuple[int, Stream]) -> None:
        """Put in use what was before."""
        index, stream = before
        self.use(stream)
        self._thread.index = index

    def _properties(self) -> dict[str, Answer]:
        gpu = self._session.gpu
        major, minor = gpu.capability
        properties = SimpleNamespace(
            name=gpu.name,
            major=major,
            minor=minor,
            total_memory=gpu.memory,
            multi_processor_count=gpu.multiprocessors,
            warp_size=32,
            max_threads_per_multi_processor=2048,
            regs_per_multiprocessor=65536,
            max_threads_per_block=1024,
            shared_memory_per_block=49152,
            shared_memory_per_block_optin=232448,
            shared_memory_per_multiprocessor=102400,
            L2_cache_size=l2_cache(gpu),
            is_integrated=0,
            is_multi_gpu_board=0,
            gcnArchName="",
            uuid="GPU-00000000-0000-0000-0000-000000000000",
        )

        def chosen(device: Any) -> None:
            self.exchange(device)

        return {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "init": lambda: None,
            "_lazy_init": lambda: None,
            "_lazy_call": lambda callable, **_: None,
            "device_count": lambda: max(self._session.gpus, self._session.world_size),
            "current_device": lambda: self.index,
            "current_device_index": lambda: self.index,
            "set_device": chosen,
            "set_device_index": chosen,
            "_exchange_device": self.exchange,
            "_maybe_exchange_device": self.exchange,
            "synchronize": lambda device=None: None,
            "ipc_collect": lambda: None,
            "get_device_properties": lambda device=None: properties,
            "get_device_capability": lambda device=None: gpu.capability,
            "get_device_name": lambda device=None: gpu.name,
            "get_arch_list": lambda: [f"sm_{major}{minor}"],
            "can_device_access_peer": lambda device, peer: True,
            "is_bf16_supported": lambda including_emulation=True: including_emulation or major >= 8,
            "is_tf32_supported": lambda: major >= 8,
            "is_current_stream_capturing": lambda: Graph.capturing > 0,
            "utilization": lambda device=None: 0,
            "temperature": lambda device=None: 0,
            "power_draw": lambda device=None: 0,
            "clock_rate": lambda device=None: 0,
        }

    def _memory(self) -> dict[str, Answer]:
        event = self._session.writer.event
        total = self._session.gpu.memory

        def info(device: Any = None) -> tuple[int, int]:
            used = self._session.part(Replay).used(self.index_of(device))
            return max(total - used, 0), total

        def reset_peak(device: Any = None) -> None:
            self._session.part(Replay).count_anew(self.index_of(device))
            event("reset_peak")

        def stats(device: Any = None) -> dict[str, int]:
            found: dict[str, int] = defaultdict(int, dict.fromkeys(_COUNTS, 0))
            for kind in ("allocated", "active", "requested"):
                found[f"{kind}_bytes.all.current"] = allocated(device)
                found[f"{kind}_bytes.all.peak"] = most_allocated(device)
            found["reserved_bytes.all.current"] = reserved(device)
            found["reserved_bytes.all.peak"] = most_reserved(device)
            return found

        def allocated(device: Any = None) -> int:
            return self._session.part(Replay).allocated(self.index_of(device))

        def most_allocated(device: Any = None) -> int:
            return self._session.part(Replay).most_allocated(self.index_of(device))

        def reserved(device: Any = None) -> int:
            return self._session.part(Replay).reserved(self.index_of(device))

        def most_reserved(device: Any = None) -> int:
            return self._session.part(Replay).most_reserved(self.index_of(device))

        def dump(filename: Any = "dump_snapshot.pickle", *_: Any, **__: Any) -> None:
            if not self._session.part(Replay).snapshot(os.fspath(filename)):
                self._session.note("snapshot", "the snapshot that the program dumps was not written")

        def fraction(fraction: float, device: Any = None) -> None:
            self._session.part(OutOfMemory).fraction = fraction

        def nothing(*_: Any, **__: Any) -> None:
            return None

        return {
            "memory_allocated": allocated,
            "max_memory_allocated": most_allocated,
            "memory_reserved": reserved,
            "max_memory_reserved": most_reserved,
            "memory_cached": reserved,
            "max_memory_cached": most_reserved,
            "mem_get_info": info,
            "get_memory_info": info,
            "device_memory_used": lambda device=None: self._session.part(Replay).used(self.index_of(device)),
            "memory_usage": lambda device=None: 0,
            "memory_stats": stats,
            "memory_stats_as_nested_dict": lambda device=None: {},
            "memory_snapshot": lambda *_, **__: [],
            "_snapshot": lambda *_, **__: {"segments": [], "device_traces": [[]]},
            "_record_memory_history": nothing,
            "_dump_snapshot": dump,
            "set_per_process_memory_fraction": fraction,
            "_set_allocator_settings": nothing,
            "empty_cache": self._session.part(Replay).emptied,
            "reset_peak_memory_stats": reset_peak,
            "reset_max_memory_allocated": reset_peak,
            "reset_max_memory_cached": reset_peak,
            "reset_accumulated_memory_stats": nothing,
        }

    def pool(self, number: int) -> None:
        """Say that a stream stands for a private pool."""
        self._session.writer.event("pool", self.written(number))

    def _streams(self) -> dict[str, Answer]:
        return {
            "Stream": Stream,
            "Event": Event,
            "StreamContext": Switch,
            "CUDAGraph": Graph,
            "graph_pool_handle": Pool,
            "MemPool": MemPool,
            "use_mem_pool": use_mem_pool,
            "stream": Switch,
            "current_stream": self.current,
            "default_stream": lambda device=None: self.default[self.index_of(device)],
            "set_stream": self.use,
        }

    def _random(self) -> dict[str, Answer]:
        def state(device: Any = "cuda") -> torch.Tensor:
            return torch.zeros(16, dtype=torch.uint8, device="cpu")  # seed and offset

        def silent() -> Answer:
            def nothing(*_: Any, **__: Any) -> None:
                return None

            return nothing  # one for each name: Dynamo tells functions apart by identity

        names = ("set_rng_state", "set_rng_state_all", "manual_seed", "manual_seed_all", "seed", "seed_all")
        return {name: silent() for name in names} | {
            "get_rng_state": state,
            "get_rng_state_all": lambda: [state() for _ in range(self._session.gpus)],
            "initial_seed": lambda: 0,
        }

    def _record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        serial = self._session.storages.number(tensor.untyped_storage())
        if serial is not None:
            number = self._session.storages.written(serial)
            used = self.written(getattr(stream, "stream_id", 0))
            self._session.writer.event("record_stream", number, used)


def install(session: Session) -> None:
    """Put the answers in place."""
    device = session.part(Device)
    answers = device._properties() | device._memory() | device._streams() | device._random()
    modules = (
        torch.cuda,
        torch.cuda.memory,
        torch.cuda.graphs,
        torch.cuda.random,
        torch.cuda.streams,
        getattr(torch, "accelerator", None),
        getattr(getattr(torch, "accelerator", None), "memory", None),
    )
    for name, answer in answers.items():
        for module in modules:
            # A name may also be that of a module, as torch.cuda.memory_* are functions of two.
            if module is not None and callable(getattr(module, name, None)):
                session.patches.set(module, name, answer)
    session.patches.set(torch, "Generator", Generator)
    count = max(session.gpus, session.world_size)
    session.patches.set(torch.cuda, "default_generators", (DefaultGenerator(),) * count)
    session.patches.set(torch.cuda.graph, "default_capture_stream", None)
    session.patches.set(torch._C, "_host_emptyCache", lambda: None)
    session.patches.set(torch._C, "_cuda_clearCublasWorkspaces", lambda: session.writer.event("clear_workspaces"))
    # C++ up to 2.6 counts GPUs for it, later versions ask how they were built; FSDP goes by it.
    for name in ("_get_accelerator", "_accelerator_getAccelerator"):
        session.patches.set(torch._C, name, lambda check=None: torch.device("cuda"))
    for name in ("_accelerator_exchangeDevice", "_accelerator_maybeExchangeDevice"):
        session.patches.set(torch._C, name, device.exchange)
    pinned = session.pinned
    session.patches.set(torch.Tensor, "pin_memory", lambda tensor, device=None: _pinned(pinned, tensor))
    session.patches.set(torch.Tensor, "is_pinned", lambda tensor, device=None: pinned.has(tensor))
    # A GPU's memory is shared as it is; what a fake tensor has of it says that it is of no device.
    share: Answer = torch.Tensor.share_memory_
    shared: Answer = torch.Tensor.is_shared
    session.patches.set(torch.Tensor, "share_memory_", lambda tensor: tensor if tensor.is_cuda else share(tensor))
    session.patches.set(torch.Tensor, "is_shared", lambda tensor: tensor.is_cuda or shared(tensor))
    session.patches.set(torch.Tensor, "record_stream", lambda tensor, stream: device._record_stream(tensor, stream))
    if hasattr(fake_tensor, "init_gpu_context"):  # makes a real tensor so that the driver is started
        session.patches.set(fake_tensor, "init_gpu_context", lambda device: None)
    for name, make in _MAKERS.items():
        torch.jit._builtins._register_builtin(make, f"aten::{name}")  # so that scripts still compile
        session.patches.set(torch, name, make)
    # Libraries ask for this class by name to see whether they are being traced, and then leave out what
    # depends on values (transformers' is_tracing does). They are not: values are answered.
    session.patches.set(torch._subclasses, "FakeTensor", type("NoTensor", (), {}))
    lift = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # x[:, [0, 2]] copies its list from the host; see _of_values
    session.patches.later(lambda: torch._C._set_only_lift_cpu_tensors(lift))


def _pinned(pinned: Pinned, tensor: torch.Tensor) -> torch.Tensor:
    """`Tensor.pin_memory`, without the copy: what is not a plain tensor stays as it is."""
    return pinned.add(tensor) if type(tensor) is torch.Tensor and tensor.layout is torch.strided else tensor


def _of_values(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function that makes a tensor of a list, and asks for the values of tensors in it before PyTorch does.

    PyTorch reads them from the GPU's memory (``recursive_store`` in tensor_new.cpp), which nothing sees.
    """

    @functools.wraps(make)
    def made(data: Any, *args: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        lift = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # device="cuda" copies from the host; a setting of each thread
        try:
            out = make(_values(data) if isinstance(data, list | tuple) else data, *args, **kwargs)
            return out.pin_memory() if pin_memory else out  # for which C++ starts the driver at once
        finally:
            torch._C._set_only_lift_cpu_tensors(lift)

    return made


def _values(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [_values(item) for item in data]
    return data.item() if isinstance(data, torch.Tensor) and data.numel() == 1 else data


# PyTorch remembers at its first use which functions a default device is for: those of `_MAKERS` must be its own.
_device_constructors()

_MAKERS = {name: _of_values(getattr(torch, name)) for name in ("tensor", "as_tensor")}


@contextmanager
def own_makers() -> Iterator[None]:
    """`torch.tensor` and `torch.as_tensor` as PyTorch has them, for a compiler that knows them by identity."""
    before = {name: getattr(torch, name) for name in _MAKERS}
    lift = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # with device="cuda" they copy from the host
    for name, make in _MAKERS.items():
        setattr(torch, name, vars(make)["__wrapped__"])
    try:
        yield
    finally:
        for name, make in before.items():
            setattr(torch, name, make)
        torch._C._set_only_lift_cpu_tensors(lift)

"""Streams, events and generators of the pretended GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .device import Device


class Event:
    """An event that has always happened."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        self.device = torch.device("cuda", 0)

    def record(self, stream: Any = None) -> None:
        """Nothing runs, so nothing is to be waited for."""

    def wait(self, stream: Any = None) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Whether the work before it is done."""
        return True

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds; not zero, since programs divide by it."""
        return 1.0

    def synchronize(self) -> None:
        """Return at once."""


class Stream:
    """A stream with a number; allocations are logged with that of the current one."""

    _device: Device  # of the recording under way
    _numbers = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, *, number: int | None = None, **_: Any) -> None:
        self.stream_id = next(Stream._numbers) if number is None else number
        self.priority = priority
        index = Stream._device.index_of(device)
        self.device = torch.device("cuda", index)
        self.device_index, self.device_type = index, 1
        self.cuda_stream = self.stream_id
        self._before: list[tuple[int, Stream]] = []  # the GPU that was the current one, and its stream

    def wait_event(self, event: Any) -> None:
        """Return at once."""

    def wait_stream(self, stream: Any) -> None:
        """Return at once."""

    def record_event(self, event: Any = None) -> Any:
        """An event, which has happened."""
        return event if event is not None else Event()

    def query(self) -> bool:
        """Whether its work is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether a graph is being captured, as optimizers of newer versions of PyTorch ask the current stream."""
        return torch.cuda.is_current_stream_capturing()

    def synchronize(self) -> None:
        """Return at once."""

    def __enter__(self) -> Stream:
        self._before.append(Stream._device.enter(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Stream._device.leave(self._before.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.stream_id, other.device) == (self.stream_id, self.device)

    def __hash__(self) -> int:
        return hash((Stream, self.stream_id, self.device))


class Switch:
    """``torch.cuda.stream(s)`` and ``StreamContext(s)``; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, error, trace)


class Pool(Stream):
    """A private pool of graphs: the caching allocator keeps its blocks as it keeps those of a stream, for good."""

    def __init__(self) -> None:
        super().__init__()
        Stream._device.pool(self.stream_id)


class MemPool(Pool):
    """``torch.cuda.MemPool``: a private pool that the program fills itself."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        super().__init__()
        self.allocator = allocator

    @property
    def id(self) -> tuple[int, int]:
        """What the allocator knows it by."""
        return 0, self.stream_id

    def use_count(self) -> int:
        """How many use it: its owner."""
        return 1

    def snapshot(self, include_traces: bool = True) -> list[Any]:
        """Its segments, which nobody knows while a program is recorded."""
        return []


@contextmanager
def use_mem_pool(pool: Pool, device: Any = None) -> Iterator[None]:
    """What is allocated meanwhile is the pool's."""
    with pool:
        yield


class Graph:
    """``torch.cuda.CUDAGraph``: what is captured runs once, in memory that nothing else takes; a replay takes none."""

    capturing = 0

    def __init__(self, keep_graph: bool = False) -> None:
        self._pool: Stream | None = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        """Begin, in the pool of another graph or in one of its own."""
        self._pool = pool if isinstance(pool, Stream) else self.pool()
        Graph.capturing += 1
        self._pool.__enter__()

    def capture_end(self) -> None:
        """End."""
        self.pool().__exit__(None, None, None)
        Graph.capturing -= 1

    def pool(self) -> Stream:
        """What another graph may share."""
        if self._pool is None:
            self._pool = Pool()
        return self._pool

    def replay(self) -> None:
        """Run again on the same memory."""

    instantiate = reset = enable_debug_mode = replay

    def debug_dump(self, debug_path: str) -> None:
        """Write nothing: there is no graph."""


class Generator(torch.Generator):
    """A generator for the GPU, whose state lives on the host."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        kind = "cpu" if torch.device(device).type == "cuda" else device
        return super().__new__(cls, kind)  # type: ignore[call-arg]


class DefaultGenerator(Generator):
    """The GPU's own: compiled code keeps its state, so that a checkpoint draws again what it drew."""

    def __new__(cls) -> DefaultGenerator:
        return super().__new__(cls)  # type: ignore[return-value]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where what it draws is."""
        return torch.device("cuda", 0)

    def clone_state(self) -> DefaultGenerator:
        """Another one of the same state."""
        return DefaultGenerator()

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state: torch.Generator) -> DefaultGenerator:
        """Keep no state: nothing is drawn."""
        return self

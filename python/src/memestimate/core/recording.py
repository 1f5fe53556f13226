"""A recording that is being made: the calls, notes and storages that are written down."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .alike import Alike
from .dispatch import Capture, PretendMode
from .encode import Encoder
from .frames import Frames
from .gpus import GPU
from .handlers import Composite
from .held import held
from .patches import Patches
from .phases import Phases
from .pinned import Pinned
from .session import Call, Rules, Session, Way
from .shape_cache import Shared
from .storages import Storages
from .tensors import parts, tensors, unwrapped
from .writer import Writer

T = TypeVar("T")


class Enough(BaseException):
    """As many steps as were asked for are recorded; ends the program that is being recorded."""


class TooLong(BaseException):
    """A recording takes longer than it may."""


@dataclass(eq=False)
class Recording:
    """What one recording owns; handlers are given it as a `Session`."""

    writer: Writer
    rules: Rules
    gpu: GPU
    world_size: int = 1
    rank: int = 0
    way: Way = "fake-cuda"
    by_host: bool = False
    why: str = ""  # the way is not the best one
    end: float = math.inf  # of time.monotonic(), for what is recorded
    goes_on: bool = False  # until the program ends: steps that are like others are left out
    shared: Shared = field(default_factory=Shared)  # with other recordings
    compared: int | None = None  # the most bytes of tensors up to where a recording with other answers ends
    patches: Patches = field(default_factory=Patches)
    pinned: Pinned = field(default_factory=Pinned)
    notes: list[tuple[str, str]] = field(default_factory=list)
    tell: Callable[[str], object] = field(init=False)
    quiet: bool = False
    seen: list[str] | None = None
    calls: int = 0
    gpus: int = 1
    here: int = -1
    steps: int = 0
    alone: bool = field(init=False)
    streams: list[int] = field(init=False)
    storages: Storages = field(init=False)
    alike: Alike = field(init=False)
    encoder: Encoder = field(init=False)
    frames: Frames = field(init=False)
    fake: FakeTensorMode = field(init=False)
    phases: Phases = field(init=False)
    composites: dict[OpOverload, Composite] = field(init=False)
    capture: Capture = field(init=False)
    _parts: dict[Any, Any] = field(default_factory=dict, init=False)
    _logged: tuple[int, int] = field(default=(0, 0), init=False)  # thread and stream of what was written last

    def __post_init__(self) -> None:
        self.alone = self.by_host or self.gpus > 1
        self.tell = str  # nobody waits
        self.streams = [0] * self.gpus
        self.storages = Storages(self.writer, self.gpus)
        self.alike = Alike(self.writer, self.storages)
        self.encoder = Encoder(self.writer, self.storages)
        self.frames = Frames(self.writer)
        self.fake = PretendMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
        self.phases = Phases(self)
        self.composites = self.rules.composites(self)
        self.capture = Capture(self, self.rules)

    def part(self, kind: Callable[[Session], T]) -> T:
        """Return the one object of a kind in this recording, made when it is first asked for."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)
        return found

    def keep(self, part: T) -> T:
        """Let this be the one object of its kind in this recording."""
        self._parts[type(part)] = part
        return part

    def pretend(
        self, like: torch.Tensor, *, dtype: torch.dtype | None = None, memory_format: torch.memory_format | None = None
    ) -> torch.Tensor:
        """Make a tensor on the pretended GPU with the layout that a copy of `like` has there."""
        if memory_format not in (None, torch.preserve_format):
            like = torch.empty(like.shape, dtype=like.dtype, device="meta", memory_format=memory_format)
        elif like.device.type != "meta":
            like = torch.empty_like(like, device="meta")
        return self.empty(like.shape, dtype or like.dtype, like.stride())

    def empty(self, size: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None) -> torch.Tensor:
        """Make a tensor on the pretended GPU; its storage is logged with the call whose result it is."""
        if stride is None:
            stride = [math.prod(size[i + 1 :]) for i in range(len(size))]
        function = torch.ops.aten.empty_strided.default
        device = torch.device("cuda", max(self.here, 0))
        out = self.fake.__torch_dispatch__(function, (), (list(size), list(stride)), {"dtype": dtype, "device": device})
        assert isinstance(out, torch.Tensor)
        return out

    def note(self, code: str, text: str) -> None:
        """Write down an assumption, once for each text."""
        if (code, text) not in self.notes and not self.quiet:
            self.notes.append((code, text))
            self.writer.event("note", code, text, self.frames.here())

    def log(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, name: str = "") -> None:
        """Write one call: its arguments, its results, and the storages that it made.

        `name` is that of another operator which a GPU would have run in place of `func`.
        """
        if self.seen is not None:
            self.seen.append((name or func._schema.name).removeprefix("aten::"))
        if self.quiet:
            return
        self.calls += 1
        if time.monotonic() > self.end:
            self.late()
        strange = self._births([*args, *kwargs.values()])
        if strange:  # made where the dispatch mode cannot see it
            self.writer.events(*strange)
        births = self._births(out)
        results = [None if t is None else self.encoder.tensor(t) for t in _flat(out)]
        frame, module, thread = self.phases.place()
        op = self.encoder.op(func, name or None)
        arguments = self.encoder.arguments(func, args, dict(kwargs))
        self._follow_thread(thread)
        if births:
            self.follow_stream()
        self.writer.events(("call", op, arguments, results, frame, module), *births)
        call = Call(func, args, kwargs, out, [birth[1] for birth in births])
        for look in self.rules.logged:
            look(self, call)
        if self.phases.backward_depth:
            self.phases.after(out)

    def launch(self, name: str, given: Sequence[torch.Tensor], changed: Sequence[torch.Tensor]) -> None:
        """Write a launch of a kernel that is no operator: nothing is allocated, what it does is not known."""
        if not self.quiet:
            self.calls += 1
            births = self._births(given)  # made where the dispatch mode cannot see it
            frame, module, thread = self.phases.place()
            op = self.encoder.op(torch.ops.aten.empty.memory_format, name)
            self._follow_thread(thread)
            self.writer.events(*births, ("call", op, [self.encoder.value(t) for t in given], [], frame, module))
        self.rules.launched(self, changed)

    def _follow_thread(self, thread: int) -> None:
        if thread != self._logged[0]:
            self._logged = thread, self._logged[1]
            self.writer.event("thread", thread)

    def follow_stream(self) -> None:
        """Write down the stream that is in use, which the next request is for, where it is another than before."""
        stream = self.streams[max(self.here, 0)]
        if stream != self._logged[1]:
            self._logged = self._logged[0], stream
            self.writer.event("stream", stream)

    def mark(self, tensor: torch.Tensor, kind: str, name: str) -> None:
        """Say what a tensor's storage is: parameter, buffer, gradient, state, input or label."""
        tensor = unwrapped(tensor)
        if is_traceable_wrapper_subclass(tensor):
            for part in parts(tensor):
                self.mark(part, kind, name)
            return
        with torch._C.DisableTorchFunctionSubclass():  # a parameter's own class may refuse to say where it is
            serials = [self.storages.number(part.untyped_storage()) for part in held(tensor) if part.is_cuda]
        for serial in serials:
            if serial is not None and self.storages.kinds.get(serial) != (kind, name):
                self.storages.kinds[serial] = kind, name
                self.writer.event("is", self.storages.written(serial), kind, name)

    def late(self) -> None:
        """End a recording that takes too long."""
        raise TooLong

    @property
    def state(self) -> tuple[object, ...]:
        """What the lines that follow take for granted."""
        return *self._logged, self.phases.phase

    def step_ended(self) -> None:
        """Take note that all optimizers have stepped and another forward begins."""
        raise NotImplementedError

    def _births(self, value: Any) -> list[tuple[Any, ...]]:
        serials = []
        for tensor in (part for whole in tensors(value) for part in held(whole)):
            if tensor.device.type == "cuda":
                serial, new = self.storages.of(tensor)
                if new:
                    serials.append(serial)
        if serials:
            self.rules.allocate(self, serials)
        return [self.storages.born(serial) for serial in serials]


def _flat(out: Any) -> list[torch.Tensor | None]:
    """Results in the order of the schema, lists opened; what is no tensor is left out as null."""
    if isinstance(out, (list, tuple)):
        return [item for value in out for item in _flat(value)]
    return [out if isinstance(out, torch.Tensor) else None]

"""The recorder: one training step, as PyTorch runs it, written down."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Literal

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..compiled import Compiler
from ..core import subclasses
from ..core.dispatch import Capture, PretendMode, joined
from ..core.encode import Encoder
from ..core.frames import Frames
from ..core.gpus import GPU, find
from ..core.held import held
from ..core.patches import Patches
from ..core.phases import Phases
from ..core.storages import Storages
from ..core.tensors import parts, tensors, unwrapped
from ..core.writer import Writer
from ..ops import (
    attention,
    bilinear,
    checks,
    composites,
    copies,
    cudnn,
    explicit,
    extensions,
    fallback,
    grouped,
    layouts,
    norms,
    optimizers,
    parallel,
    products,
)
from ..ops.bitsandbytes import BitsAndBytes
from ..ops.flex import Flex
from ..ops.rnn import Recurrent
from ..ops.sparse import compressed, coo, shapes
from ..ops.sums import Sums
from ..pretend import host, python_side, threads
from ..pretend.addresses import Addresses
from ..pretend.buckets import Buckets
from ..pretend.convolutions import Convolutions
from ..pretend.device import Device
from ..pretend.device_numbers import DeviceNumbers
from ..pretend.engine import Engine, EngineError
from ..pretend.out_of_memory import OutOfMemory
from ..pretend.pinned import Pinned
from ..pretend.triton import Triton
from ..values.chance import Chance
from ..values.decisions import Again, Change, Decisions, TooLong
from ..values.questions import Questions
from ..values.unknown import Unknown
from ..values.values import Values
from ..version import VERSION

Way = Literal["fake-cuda", "fake-cuda-no-driver", "fake-cpu", "real-cpu"]


class Enough(BaseException):
    """As many steps as were asked for are recorded; ends the program that is being recorded."""


class Recorder:
    """Records what happens on the pretended GPU between `start` and `stop`.

    Parameters
    ----------
    path
        File to write, by custom ``*.mrec``. It appears when the recording is complete.
    gpu
        The GPU to pretend: an id of `memestimate gpus` or a `GPU`.
    world_size, rank
        Of the process group that a distributed script shall see.
    steps
        Raise `Enough` when another step begins after so many; 0 for never.
    way
        How to record: see docs/recording.md. By default as well as this build of PyTorch can.
    change
        Which answers to change, of those that are taken for unknown values.
    seconds
        Raise `TooLong` when a call begins after so long; 0 for never.
    compile
        Whether what the program compiles (`torch.compile`) is compiled; otherwise it runs eagerly.

    Attributes
    ----------
    steps
        How many training steps have ended.
    notes
        Assumptions that were made, as pairs of a short code and a sentence.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        gpu: str | GPU = "h200",
        world_size: int = 1,
        rank: int = 0,
        steps: int = 0,
        way: Way | None = None,
        change: Change | None = None,
        seconds: float = 0,
        compile: bool = True,
    ) -> None:
        self.gpu = find(gpu)
        self.world_size, self.rank = world_size, rank
        self.engine = Engine()
        self.way, self._why = self._choose(way)
        self.by_host = self.way == "fake-cpu" or bool(self._why)
        self.numbers: AbstractContextManager[Any] = DeviceNumbers() if self.by_host else nullcontext()
        self.alone = self.by_host  # each thread runs the backward passes that it asks for
        self.writer = Writer(path, self._header())
        self.storages = Storages(self.writer)
        self.memory = OutOfMemory(self)
        self.pinned = Pinned()
        self.buckets = Buckets(self)
        self.encoder = Encoder(self.writer, self.storages)
        self.frames = Frames(self.writer)
        self.fake = PretendMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
        self.phases = Phases(self)
        self.device = Device(self)
        self.patches = Patches()
        self.recurrent = Recurrent(self)
        self.composites = composites.table(self) | self.recurrent.composites() | cudnn.composites(self)
        if self.by_host:
            self.composites |= host.composites(self)
        self.sums = Sums(self)
        self.chance = Chance(self)
        self.values = Values(self)
        self.unknown = Unknown(self)
        self.decisions = Decisions(self, change or Change())
        self.convolutions = Convolutions(self)
        self.flex = Flex(self)
        self.bitsandbytes = BitsAndBytes(self)
        self.families = {"bitsandbytes": self.bitsandbytes.run}
        self.compiler = Compiler(self, compile)
        self.calls = 0  # that were logged
        self._end = time.monotonic() + seconds if seconds else math.inf
        self.again: Again | None = None  # records the same once more with other answers, if that can be done
        modules = copies, attention, layouts, cudnn, coo, bilinear, norms, explicit, grouped, shapes, products
        of_values = [part.handlers() for part in (self.sums, Questions(self), self.recurrent)]
        handlers = joined(*of_values, *(module.handlers(self) for module in modules))
        handlers = handlers | compressed.handlers(self, handlers)
        self.capture = Capture(self, handlers)
        self.quiet = False  # nothing is logged
        self.seen: list[str] | None = None  # names of the operators that run
        self.notes: list[tuple[str, str]] = []
        self._wanted = steps
        self._stopping = False
        self._thread = self._stream = 0
        self.steps = 0
        self._explicit = False  # the program says itself where its steps end

    def start(self) -> Recorder:
        """Put everything in place and begin to record."""
        self.fake.cache_clear()  # of all recordings of the process, whatever torch.backends.cudnn said then
        try:
            if self.by_host:
                host.install(self.patches)
                self.patches.enter(self.numbers)
            else:
                self.engine.install(self.gpu.capability)
            self.device.install(self.patches)
            self.phases.install(self.patches)
            copies.install(self, self.patches)
            optimizers.install(self, self.patches)
            python_side.install(self, self.patches)
            self.compiler.install(self.patches)
            Addresses(self).install(self.patches)
            self.unknown.install(self.patches)
            threads.install(self, self.patches)
            parallel.install(self, self.patches)
            norms.install(self, self.patches)
            self.recurrent.install(self.patches)
            self.flex.install(self.patches)
            attention.install(self, self.patches)
            composites.install(self.composites, self.patches)
            subclasses.install(self.patches)
            self.bitsandbytes.install(self.patches)
            Triton(self).install(self.patches)
            self.capture.__enter__()  # type: ignore[no-untyped-call]
            try:
                if self._why:
                    self.note("way", f"recorded on fake tensors of the host: {self._why}")
                threads.begin(self)
                checks.check(self)
            except BaseException:
                self.capture.__exit__(None, None, None)  # type: ignore[no-untyped-call]
                raise
        except BaseException:
            self._restore()
            self.writer.discard()
            raise
        return self

    def stop(self, *, keep: bool = True) -> None:
        """Take everything away again and complete the file, or leave none."""
        self._stopping = True
        self.capture.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        if self.phases.has_stepped():
            self.step_ended()
        self.storages.closed = True
        self._restore()
        if keep:
            try:
                self.decisions.write(self.again)
                self.convolutions.write()
                self.chance.write()
                self.bitsandbytes.write()
            except BaseException:
                self.writer.discard()
                raise
            self.writer.close()
        else:
            self.writer.discard()
        self.quiet = True  # threads of the program may go on

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.capture.kinds.explain(error)
            extensions.explain(error)
            self.decisions.explain(error)
        self.stop(keep=kind is None)

    def step(self) -> None:
        """Say that a training step ended. Without this, a step ends where the next forward begins after
        all optimizers have stepped."""
        if not self._explicit:
            self.chance.parts_of_one()
        self._explicit = True
        self._end_step()

    def step_ended(self) -> None:
        """Take note that all optimizers have stepped and another forward begins."""
        if not self._explicit:
            self._end_step()
            if self.steps == self._wanted and not self._stopping:
                raise Enough

    def _end_step(self) -> None:
        self.phases.step_ended()
        self.chance.step_ended()
        self.steps += 1
        self.writer.event("step")

    def pretend(
        self, like: torch.Tensor, *, dtype: torch.dtype | None = None, memory_format: torch.memory_format | None = None
    ) -> torch.Tensor:
        """A tensor on the pretended GPU with the layout that a copy of `like` has there."""
        if memory_format not in (None, torch.preserve_format):
            like = torch.empty(like.shape, dtype=like.dtype, device="meta", memory_format=memory_format)
        elif like.device.type != "meta":
            like = torch.empty_like(like, device="meta")
        return self.empty(like.shape, dtype or like.dtype, like.stride())

    def empty(self, size: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None) -> torch.Tensor:
        """A tensor on the pretended GPU; its storage is logged with the call whose result it is."""
        if stride is None:
            stride = [math.prod(size[i + 1 :]) for i in range(len(size))]
        function = torch.ops.aten.empty_strided.default
        device = torch.device("cuda", 0)
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
        if time.monotonic() > self._end:
            raise TooLong
        strange = self._births([*args, *kwargs.values()])
        if strange:  # made where the dispatch mode cannot see it
            self.writer.events(*strange)
        births = self._births(out)
        results = [None if t is None else self.encoder.tensor(t) for t in _flat(out)]
        frame, module, thread = self.phases.place()
        op = self.encoder.op(func, name or None)
        arguments = self.encoder.arguments(func, args, dict(kwargs))
        if thread != self._thread:
            self._thread = thread
            self.writer.event("thread", thread)
        if births:
            self.follow_stream()
        self.writer.events(("call", op, arguments, results, frame, module), *births)
        self.convolutions.saw(func, args, out)
        if self.values.real is not None:
            self.values.real.run(func, args, kwargs, out, {serial for _, serial, _ in births})
        if self.phases.backward_depth:
            self.sums.made([serial for _, serial, _ in births])
            self.phases.after(out)

    def launch(self, name: str, given: Sequence[torch.Tensor]) -> None:
        """Write a launch of a kernel that is no operator: nothing is allocated, what it does is not known."""
        if self.quiet:
            return
        self.calls += 1
        births = self._births(given)  # made where the dispatch mode cannot see it
        frame, module, thread = self.phases.place()
        op = self.encoder.op(torch.ops.aten.empty.memory_format, name)
        if thread != self._thread:
            self._thread = thread
            self.writer.event("thread", thread)
        self.writer.events(*births, ("call", op, [self.encoder.value(t) for t in given], [], frame, module))

    def follow_stream(self) -> None:
        """Write down the current stream, which the next request is for, where it is another than before."""
        if self.device.current.stream_id != self._stream:
            self._stream = self.device.current.stream_id
            self.writer.event("stream", self._stream)

    def try_out(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Any:
        """Answer a call for which PyTorch has no rule of shapes, or raise `error`."""
        return fallback.try_out(self, func, args, kwargs, error)

    def collective(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer a collective of a process group of which only this process exists."""
        return parallel.collective(self, func, args, kwargs)

    def mark(self, tensor: torch.Tensor, kind: str, name: str) -> None:
        """Say what a tensor's storage is: parameter, buffer, gradient, state, input or label."""
        tensor = unwrapped(tensor)
        if is_traceable_wrapper_subclass(tensor):
            for part in parts(tensor):
                self.mark(part, kind, name)
            return
        for part in held(tensor) if tensor.device.type == "cuda" else ():
            serial = self.storages.number(part.untyped_storage())
            if serial is not None and self.storages.kinds.get(serial) != (kind, name):
                self.storages.kinds[serial] = kind, name
                self.writer.event("is", serial, kind, name)

    def _births(self, value: Any) -> list[tuple[str, int, int]]:
        serials = []
        for tensor in (part for whole in tensors(value) for part in held(whole)):
            if tensor.device.type == "cuda":
                serial, new = self.storages.of(tensor)
                if new:
                    serials.append(serial)
        self.memory.hold(serials)
        return [self.storages.born(serial) for serial in serials]

    def _choose(self, asked: Way | None) -> tuple[Way, str]:
        """The way of this recording, and why it is not the best one."""
        if asked == "fake-cpu":
            return asked, ""
        try:
            self.engine.prepare()
        except EngineError as error:
            return ("real-cpu" if asked == "real-cpu" else "fake-cpu"), str(error)
        return asked or ("fake-cuda" if torch.cuda.is_available() else "fake-cuda-no-driver"), ""

    def _restore(self) -> None:
        self.patches.undo()
        self.engine.remove()

    def _header(self) -> dict[str, Any]:
        return {
            "producer": f"memestimate {VERSION}",
            "torch": torch.__version__,
            "python": platform.python_version(),
            "cudnn": host.cudnn_version(),
            "cuda": torch.version.cuda or "",
            "way": self.way,
            "gpu": {
                "name": self.gpu.id,
                "capability": self.gpu.capability,
                "multiprocessors": self.gpu.multiprocessors,
                "memory": self.gpu.memory,
            },
            "world_size": self.world_size,
            "rank": self.rank,
            "alloc_conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF") or "",
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "allow_tf32": torch.backends.cudnn.allow_tf32,
        }


def record(
    path: str | os.PathLike[str],
    *,
    gpu: str | GPU = "h200",
    world_size: int = 1,
    rank: int = 0,
    real: bool = False,
    compile: bool = True,
) -> Recorder:
    """Record a training loop: ``with record("step.mrec", gpu="a100-80gb") as rec: ...``.

    With `real` everything is computed on the CPU as well, and what depends on values is what they say.
    Without `compile` what the program compiles (`torch.compile`) runs eagerly.
    """
    way: Way | None = "real-cpu" if real else None
    return Recorder(path, gpu=gpu, world_size=world_size, rank=rank, way=way, compile=compile)


def _flat(out: Any) -> list[torch.Tensor | None]:
    """Results in the order of the schema, lists opened; what is no tensor is left out as null."""
    if isinstance(out, (list, tuple)):
        return [item for value in out for item in _flat(value)]
    return [out if isinstance(out, torch.Tensor) else None]

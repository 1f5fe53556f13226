"""What a handler of an operator is given of the recording under way, and what the layers above the core add to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode

from .alike import Alike
from .frames import Frames
from .gpus import GPU
from .handlers import Arguments, Composite, Handler, Keywords
from .patches import Patches
from .pinned import Pinned
from .shape_cache import Shared
from .storages import Storages
from .writer import Writer

if TYPE_CHECKING:
    from .phases import Phases

T = TypeVar("T")
Way = Literal["fake-cuda", "fake-cuda-no-driver", "fake-cpu", "real-cpu"]


class Session(Protocol):
    """A recording, as handlers see it.

    Attributes
    ----------
    by_host
        The build of PyTorch has no CUDA that can be told of a GPU (host.py).
    alone
        Each thread runs the backward passes that it asks for.
    quiet
        Nothing is logged.
    shared
        What this recording has in common with others.
    seen
        Names of the operators that run, where somebody wants them.
    calls
        How many were logged.
    steps
        How many training steps have ended.
    gpus
        How many GPUs this process has.
    here
        The GPU of the call that is being answered, -1 between calls.
    streams
        The number of the stream that is in use, on each GPU.
    notes
        Assumptions that were made, as pairs of a short code and a sentence.
    goes_on
        The program runs until it ends, and what repeats is left out.
    compared
        The most bytes of tensors up to where a recording with other answers ends; None for all of it.
    alike
        Which steps are like others.
    capture
        Within it, what handlers compute is recorded as what the program computes.
    composites
        What runs in place of operators that PyTorch takes apart itself.
    """

    gpu: GPU
    world_size: int
    rank: int
    way: Way
    by_host: bool
    alone: bool
    quiet: bool
    seen: list[str] | None
    calls: int
    steps: int
    gpus: int
    here: int
    streams: list[int]
    notes: list[tuple[str, str]]
    goes_on: bool
    compared: int | None
    writer: Writer
    alike: Alike
    storages: Storages
    frames: Frames
    phases: Phases
    pinned: Pinned
    patches: Patches
    fake: FakeTensorMode
    shared: Shared
    composites: dict[OpOverload, Composite]

    @property
    def capture(self) -> AbstractContextManager[Any]:
        """The dispatch mode."""

    def part(self, kind: Callable[[Session], T]) -> T:
        """Return the one object of a kind in this recording, made when it is first asked for."""

    def log(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, name: str = "") -> None:
        """Write one call: its arguments, its results, and the storages that it made."""

    def launch(self, name: str, given: Sequence[torch.Tensor], changed: Sequence[torch.Tensor]) -> None:
        """Write a launch of a kernel that is no operator, and forget what is known of the tensors that it changes."""

    def tell(self, text: str, /) -> object:
        """Say to who waits what is being done."""

    def note(self, code: str, text: str) -> None:
        """Write down an assumption, once for each text."""

    def mark(self, tensor: torch.Tensor, kind: str, name: str) -> None:
        """Say what a tensor's storage is: parameter, buffer, gradient, state, input or label."""

    def empty(self, size: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None) -> torch.Tensor:
        """Make a tensor on the pretended GPU; its storage is logged with the call whose result it is."""

    def pretend(
        self, like: torch.Tensor, *, dtype: torch.dtype | None = None, memory_format: torch.memory_format | None = None
    ) -> torch.Tensor:
        """Make a tensor on the pretended GPU with the layout that a copy of `like` has there."""

    def follow_stream(self) -> None:
        """Write down the stream that is in use, which the next request is for, where it is another than before."""

    def step_ended(self) -> None:
        """Take note that all optimizers have stepped and another forward begins."""


class Call(NamedTuple):
    """A call that was logged; `made` are the numbers of the storages that it made."""

    func: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    out: Any
    made: Sequence[int]


Does = Callable[[Session], object]


@dataclass(frozen=True)
class Rules:
    """What the layers above the core say and do, in the order in which it is done.

    Attributes
    ----------
    handlers, composites
        Who answers for each operator.
    namespaces
        Who answers for the operators of a library, after their handlers.
    on_host
        Runs a call of the host's tensors.
    no_shape
        Answers a call for which PyTorch has no rule of shapes, or raises its exception.
    collective
        Answers a collective of a process group of which only this process exists.
    higher_order
        Answers an operator that takes functions, or says NotImplemented.
    install, begin
        Done when a recording starts: changes of PyTorch, undone by `Session.patches`; then what is tried out.
    allocate
        Storages are about to be made.
    logged, followed, launched
        A call was logged; one was run by its rule of shapes; a kernel that is no operator was launched.
    parted, stepped
        Steps were parts of the first one; a step has ended.
    finish
        Done before the file is complete.
    explain
        Add to an exception of the program what the recording has to do with it.
    """

    handlers: Mapping[OpOverload, Handler]
    namespaces: Mapping[str, Handler]
    composites: Callable[[Session], dict[OpOverload, Composite]]
    on_host: Handler
    no_shape: Callable[[Session, OpOverload, Arguments, Keywords, Exception], Any]
    collective: Handler
    higher_order: Callable[[Session, HigherOrderOperator, Arguments], Any]
    install: Sequence[Does]
    begin: Sequence[Does]
    allocate: Callable[[Session, list[int]], None]
    logged: Sequence[Callable[[Session, Call], None]]
    followed: Callable[[Session, OpOverload, Arguments, Keywords, Any], None]
    launched: Callable[[Session, Sequence[torch.Tensor]], None]
    parted: Sequence[Does]
    stepped: Sequence[Does]
    finish: Sequence[Does]
    explain: Sequence[Callable[[Session, BaseException], None]]

"""Where a line of Inductor's wrapper belongs: the module and the line of the program that its node came from."""

from __future__ import annotations

import os
import re
import sys
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import nn

from ..core.patches import Patches
from ..core.session import Session

_STACK = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')  # as traceback.StackSummary.format writes it
_OPTIMIZERS = os.path.dirname(torch.optim.__file__)
_DEPTH = 64  # frames between a call that is logged and the wrapper that makes it


@dataclass(frozen=True)
class Place:
    """Where a node of a graph came from."""

    modules: tuple[int, ...]  # ids of the modules, outermost first
    stack: tuple[tuple[str, int, str], ...]  # file, line, function, outermost first


class Run(NamedTuple):
    """For what compiled code runs: Dynamo compiles equal blocks once, for the first of them."""

    within: int = -1  # the module that called it, as the recording has it
    first: str = ""  # the module that it was compiled for
    now: str = ""  # the one that it runs for


_FIRST = Run()


@dataclass
class Wrapper:
    """A wrapper that Inductor wrote: the places of its lines."""

    lines: list[int]
    places: list[Place]
    run: Run = _FIRST

    def at(self, line: int) -> Place | None:
        """The place of a line."""
        found = bisect_right(self.lines, line)
        return self.places[found - 1] if found else None


class Places:
    """The wrappers of a recording."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wrappers: dict[str, Wrapper] = {}
        self._modules: dict[int, weakref.ref[nn.Module]] = {}  # those that Dynamo went through, by id
        self._runs: dict[tuple[bool, int], Run] = {}  # of forward passes, by node of autograd
        self._frames: dict[tuple[tuple[str, int, str], ...], int] = {}

    def keep(self, patches: Patches) -> None:
        """Keep where lines came from when wrappers are written, and modules when they are traced."""
        from torch._dynamo.variables import nn_module
        from torch._inductor.graph import GraphLowering

        load = GraphLowering._compile_to_module_lines
        traced = nn_module.record_nn_module_stack

        def loaded(graph: Any, code: Any) -> Any:
            module: Any = load(graph, code)
            file = str(module.__file__)
            found = [(int(line), _place(node)) for line, node in code.line_map]
            wrapper = self._wrappers[file] = Wrapper([line for line, _ in found], [place for _, place in found])
            module.call = self._entering(module.call, graph.is_backward, wrapper)
            return module

        @contextmanager
        def tracing(key: str, source: Any, tx: Any, module: nn.Module) -> Iterator[None]:
            self._modules[id(module)] = weakref.ref(module)
            with traced(key, source, tx, module):
                yield

        patches.set(GraphLowering, "_compile_to_module_lines", loaded)
        patches.set(nn_module, "record_nn_module_stack", tracing)

    def here(self) -> tuple[int, int] | None:
        """Frame and module of the line of a wrapper that is running; None if there is none."""
        frame: FrameType | None = sys._getframe(1)
        for _ in range(_DEPTH):
            if frame is None or not self._wrappers:
                return None
            wrapper = self._wrappers.get(frame.f_code.co_filename)
            if wrapper is not None:
                place = wrapper.at(frame.f_lineno)
                return (-1, -1) if place is None else (self._frame(place), self._module(place, wrapper.run))
            frame = frame.f_back
        return None

    def _entering(self, call: Callable[..., Any], backward: bool, wrapper: Wrapper) -> Callable[..., Any]:
        """A wrapper's function that says that a forward pass or an optimizer begins, where no hook says so.

        Whose parameters it is given tells for which module it runs, or where these have no names, as FSDP's that are
        gathered, which module called it.
        """
        phases = self._session.phases
        roots = [place.modules[0] for place in wrapper.places if place.modules]
        optimizer = not roots and any(_OPTIMIZERS in file for place in wrapper.places for file, _, _ in place.stack)
        first: dict[int, str] = {}  # by the number of an argument: which parameter it was in the first call
        caller = ""  # the module that called it then

        def entering(args: Any) -> Any:
            nonlocal caller
            root = self._alive(roots[0]) if roots else None
            with phases.during("optimizer") if optimizer else phases.compiled(root):
                within = phases.running()
                now = phases.named(within)
                if not first:
                    first.update((i, name) for i, name in enumerate(map(self._parameter, args)) if name)
                caller = caller or now
                names = [(name, self._parameter(args[i])) for i, name in first.items()]
                named = [pair for pair in names if pair[1]] or [(caller, now)]
                wrapper.run = Run(within, *next((_moved(*pair) for pair in named if pair[0] != pair[1]), ("", "")))
                node = phases.backward_depth > 0, torch._C._autograd._get_sequence_nr() - 1
                self._runs[node] = wrapper.run
                return call(args)

        def returning(args: Any) -> Any:
            node: Any = torch._C._current_autograd_node()
            number = -1 if node is None else node._sequence_nr()
            found = self._runs.get((phases.backward_depth > 1, number))
            wrapper.run = found or self._runs.get((True, number), _FIRST)
            return call(args)

        return returning if backward else entering

    def _parameter(self, value: Any) -> str:
        """The name of a parameter; "" for another value."""
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return ""
        storages = self._session.storages  # which knows no tensor of the host: to ask for its device would be logged
        kind, name = storages.kinds.get(storages.of_address(value), ("", ""))
        return name if kind == "parameter" else ""

    def _alive(self, key: int) -> nn.Module | None:
        found = self._modules.get(key)
        return None if found is None else found()

    def _frame(self, place: Place) -> int:
        known = self._frames.get(place.stack)
        if known is None or not self._session.phases.backward_depth:
            known = self._frames[place.stack] = self._session.frames.within(place.stack)
        return known

    def _module(self, place: Place, run: Run) -> int:
        return self._session.phases.within(run.within, place.modules, (run.first, run.now))


def _moved(first: str, now: str) -> tuple[str, str]:
    """Of two names, what is before the parts that both end in: layers.0 and layers.1 of their weights."""
    before, after = first.split("."), now.split(".")
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return ".".join(before), ".".join(after)


def _place(node: Any) -> Place:
    meta = node.meta
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    modules = [int(key.partition("@")[0]) for key in stack if key.partition("@")[0].isdecimal()]
    frames = _STACK.findall(meta.get("stack_trace") or "")
    return Place(tuple(modules), tuple((file, int(line), name) for file, line, name in frames))

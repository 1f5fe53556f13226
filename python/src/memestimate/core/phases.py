"""Where in the step a call belongs: phase, module, Python frame, thread."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from . import roots

if TYPE_CHECKING:
    from .session import Session


class Phases:
    """Follows modules, backward and optimizers by PyTorch's own global hooks.

    A call in backward has no Python stack of its own: it gets the frame and the module of the
    forward call whose autograd node runs, found by the node's sequence number.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.phase = "other"
        self._modules: list[int] = []  # ids of the modules whose forward is running, outermost first
        self._names: dict[int, tuple[str, str]] = {}  # by id() of a module: full name, class
        self._entered: dict[int, tuple[str, str]] = {}  # the same by the id that the recording has for it
        self._known: dict[int, tuple[weakref.ref[nn.Module], int]] = {}  # by the same: how many parameters when named
        self._taken: set[str] = set()  # names of models
        self.parameters: dict[int, str] = {}  # names by id() of a parameter
        self._places: dict[tuple[bool, int], tuple[int, int]] = {}  # frame and module of nodes
        self._last = (-1, -1)
        self.backward_depth = 0
        self.backwards = 0  # passes that were asked for
        self.evaluated = False  # a forward pass without gradients was seen
        self._backward_modules = 0
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # made while recording, or seen to step
        self._stepped: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # since the last step ended
        self._any_stepped = False  # the same, also of an optimizer that is gone
        self.asking: list[FrameType] = []  # frames that asked for a backward pass, which runs on another thread
        self.backward_ended: list[Callable[[], object]] = []  # called when one is over
        self.compiling = 0  # how deep PyTorch is in compiling
        self.compiled_place: Callable[[], tuple[int, int] | None] = lambda: None  # frame and module of compiled code
        self.hooks = (self._enter_module, self._leave_module, self._enter_optimizer, self._leave_optimizer)
        self._leading: weakref.ref[Optimizer] | None = None  # the optimizer that stepped first

    def register(self) -> None:
        """Register the hooks."""
        patches = self._session.patches
        enter_module, leave_module, enter_optimizer, leave_optimizer = self.hooks
        for handle in (
            register_module_forward_pre_hook(enter_module),
            register_module_forward_hook(leave_module, always_call=True),
            register_optimizer_step_pre_hook(enter_optimizer),
            register_optimizer_step_post_hook(leave_optimizer),
        ):
            patches.later(handle.remove)
        run = torch.autograd.graph._engine_run_backward
        patches.set(torch.autograd.graph, "_engine_run_backward", self._backward(run))
        patches.set(torch.autograd, "_engine_run_backward", self._backward(run))
        patches.set(Optimizer, "__init__", self._made(Optimizer.__init__))
        patches.set(Optimizer, "zero_grad", self._within("zero_grad", Optimizer.zero_grad))
        patches.set(nn.Module, "zero_grad", self._within("zero_grad", nn.Module.zero_grad))

    def place(self) -> tuple[int, int, int]:
        """Frame, module and thread of the call that is being logged."""
        node = torch._C._current_autograd_node() if self.backward_depth else None
        compiled = self.compiled_place()
        if compiled is not None:
            return *compiled, int(node is not None)
        running = len(self._modules) > self._backward_modules
        if node is None or running:  # forward; or a recomputed forward within backward
            frame = self._session.frames.here()
            module = self._modules[-1] if self._modules else -1
            if node is None and torch.is_grad_enabled():
                number = self.backward_depth > 0, torch._C._autograd._get_sequence_nr() - 1
                self._places.setdefault(number, (frame, module))
            return frame, module, int(node is not None)
        # Autograd's threads count their nodes anew: those that a checkpoint makes there run in a backward within.
        found = self._places.get((self.backward_depth > 1, node._sequence_nr()))
        self._last = found or self._places.get((True, node._sequence_nr()), self._last)
        return *self._last, 1

    def after(self, out: Any) -> None:
        """Mark the result of a call as a gradient if autograd is about to keep it in ``.grad``."""
        if isinstance(out, torch.Tensor):
            node = torch._C._current_autograd_node()
            if node is not None and node.name().endswith("AccumulateGrad"):
                self._session.mark(out, "gradient", self.parameters.get(id(getattr(node, "variable", None)), ""))

    def set(self, phase: str) -> None:
        """Begin a phase."""
        if self._session.quiet or self.compiling:
            return
        if phase != self.phase:
            self.phase = phase
            self._session.writer.event("phase", phase)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """A phase that ends in "other"."""
        before = self.phase
        self.set(phase)
        try:
            yield
        finally:
            self.set(before if before in ("backward", "optimizer") else "other")

    def _made(self, function: Callable[..., None]) -> Callable[..., None]:
        def wrapped(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            function(optimizer, *args, **kwargs)
            if not self._session.quiet:
                self._optimizers.add(optimizer)

        return wrapped

    def has_stepped(self) -> bool:
        """Whether all optimizers have stepped since the last step ended."""
        return self._any_stepped and len(self._stepped) == len(self._optimizers)

    def step_ended(self) -> None:
        """Begin to count anew which optimizers have stepped."""
        self._stepped.clear()
        self._any_stepped = False

    def _within(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.during(phase):
                return function(*args, **kwargs)

        return wrapped

    def _backward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if self.compiling:  # a pass that is only traced
                return function(*args, **kwargs)
            before = self._backward_modules
            self.backward_depth += 1
            self.backwards += 1
            self._backward_modules = len(self._modules)
            asking = sys._getframe(1)
            self.asking.append(asking)
            try:
                with self.during("backward"):
                    return function(*args, **kwargs)
            finally:
                self.asking.remove(asking)  # others may be those of other threads
                self.backward_depth -= 1
                self._backward_modules = before
                if not self.backward_depth:
                    for ended in self.backward_ended:
                        ended()

        return wrapped

    def running(self) -> int:
        """The id of the innermost module whose forward is running, -1 if there is none."""
        return self._modules[-1] if self._modules else -1

    def named(self, module: int) -> str:
        """The full name of a module that the recording has by this id; "" for -1."""
        return self._entered.get(module, ("", ""))[0]

    def within(self, parent: int, modules: Sequence[int], instead: tuple[str, str] = ("", "")) -> int:
        """The id of the last of some modules, each within the one before; they are given as `id()` gives them.

        `instead` names one of them and another, equal one that stands for it.
        """
        names = [self._names.get(module, ("", "")) for module in modules]
        if instead[0] != instead[1]:
            names = [(_moved(name, *instead), kind) for name, kind in names]
        if names and self._entered.get(parent) == names[0]:  # its hook has entered it
            del names[0]
        for name, kind in names:
            parent = self._enter(parent, name, kind)
        return parent

    def _enter(self, parent: int, name: str, kind: str) -> int:
        found = self._session.writer.define("module", (parent, name, kind), parent, name, kind)
        self._entered[found] = name, kind
        return found

    @contextmanager
    def compiled(self, root: nn.Module | None) -> Iterator[None]:
        """A forward pass of compiled code, within which no module's hook runs."""
        outermost = not self._modules and not self.backward_depth
        if outermost and self.phase != "optimizer":
            self._begin_forward(root, ())
        try:
            yield
        finally:
            if outermost and self.phase == "forward":
                self.set("loss" if torch.is_grad_enabled() else "other")

    def _begin_forward(self, root: nn.Module | None, args: Any) -> None:
        if self.has_stepped():
            self._session.step_ended()
        self.evaluated |= not torch.is_grad_enabled()
        if root is not None:
            self.name(root)
        for value in args:
            if isinstance(value, torch.Tensor):
                self._session.mark(value, "input", "")
        self.set("forward")

    def _enter_module(self, module: nn.Module, args: Any) -> None:
        module = getattr(module, "_orig_mod", module)  # of torch.compile's wrapper
        if not self._modules and not self.backward_depth:  # else a checkpoint computes a part of the model again
            self._begin_forward(module, args)
        parent = self.running()
        name, kind = self._names.get(id(module), ("", ""))
        if not name and kind == "":
            kind = type(module).__name__
        self._modules.append(self._enter(parent, name, kind))

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        if self._modules:
            self._modules.pop()
        if not self._modules and not self.backward_depth:
            self.set("loss" if torch.is_grad_enabled() else "other")

    def name(self, root: nn.Module) -> None:
        """Learn the names of a model's modules, parameters and buffers, and mark their storages."""
        count = sum(1 for _ in root.parameters())
        known = self._known.get(id(root))
        if known is not None and known[0]() is root and known[1] == count:
            return
        if known is not None and known[0]() is root:  # it has other parameters than before, as with adapters
            whole, name = root, self._names[id(root)][0]
        elif count:
            whole, name = roots.find(root, not self._taken)
            name = self._free(name)
        else:
            whole, name = root, ""
        prefix = name + "." if name else ""
        for part, module in whole.named_modules(prefix=name):
            self._names[id(module)] = part, type(module).__name__
            self._known[id(module)] = weakref.ref(module), sum(1 for _ in module.parameters())
        for part, parameter in whole.named_parameters():
            self.parameters[id(parameter)] = prefix + part
            self._session.mark(parameter, "parameter", prefix + part)
        for part, buffer in whole.named_buffers():
            self._session.mark(buffer, "buffer", prefix + part)

    def _free(self, name: str) -> str:
        """A name that no other model has."""
        found, count = name, 1
        while found in self._taken:
            count += 1
            found = f"{name}_{count}" if name else f"model_{count}"
        self._taken.add(found)
        return found

    def _enter_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        """Begin the phase; forward and backward within a closure (L-BFGS, Lightning) are phases of their own."""
        if self._session.quiet:
            return None
        self._optimizers.add(optimizer)
        if optimizer is self._first() and optimizer in self._stepped:
            self._session.step_ended()  # another optimizer does not step, or not in each step
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure):
            self.set("optimizer")
            return None

        def within() -> Any:
            self.set("other")
            try:
                return closure()
            finally:
                self.set("optimizer")

        if "closure" in kwargs:
            return args, {**kwargs, "closure": within}
        return (args[0], within, *args[2:]), kwargs

    def _first(self) -> Optimizer | None:
        """The optimizer that stepped first of all."""
        return None if self._leading is None else self._leading()

    def _leave_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._session.quiet:
            return
        self._stepped.add(optimizer)
        self._any_stepped = True
        if self._first() is None:
            self._leading = weakref.ref(optimizer)
        mark = self._session.mark
        for parameter, state in optimizer.state.items():
            name = self.parameters.get(id(parameter), "")
            for key, value in state.items() if isinstance(state, dict) else ():
                if isinstance(value, torch.Tensor):
                    mark(value, "state", f"{key} {name}".strip())
        self.set("other")


def _moved(name: str, before: str, now: str) -> str:
    """The name of what lies within one module, in another."""
    return now + name[len(before) :] if name == before or name.startswith(f"{before}.") else name


def install(session: Session) -> None:
    """Follow modules, backward and optimizers until the recording ends."""
    session.phases.register()

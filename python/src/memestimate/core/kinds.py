"""What `type(x)` says in the program's modules: that a tensor on the pretended GPU is a `torch.Tensor`, as on a GPU.

Fake tensors are of a subclass, which `isinstance` accepts and `type(x) is torch.Tensor` does not. What a tensor's type
is, Python decides without asking anyone. But a module that compares types with that of tensors, and uses the name
`type` for nothing but to ask, can have a function of that name. Such modules are found by their sources, when the first
call on the GPU is recorded and whenever there are more modules; PyTorch's own ask for fake tensors, and are left alone.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from .session import Session
from .subclasses import real

_NAME = "type"
_OTHERS = sys.stdlib_module_names | {"torch", "torchgen", "functorch", "memestimate"}
_TORCH = {"torch", "th", "nn", "Tensor", "Parameter"}  # of these a module that names the type of tensors has some
# What stands before and behind that name where something is compared with it.
_TENSOR = re.compile(r"Tensor\b|Parameter\b")
_BEFORE = re.compile(
    r"""(?:\bis|\bnot|\bin|[=!]=)\s*[(\[{]?\s*['"]?(?:torch\.)?(?:nn\.)?$|[{,]\s*(?:torch\.)?(?:nn\.)?$"""
)
_BEHIND = re.compile(r"""['"]?\s*(?:is\b|[=!]=)""")
_NEAR = 40  # characters


class Use(enum.Enum):
    """For what a module uses the name `type`."""

    NONE, ASKS, OTHER = range(3)


def kind_of(value: Any) -> type:
    """What `type(value)` is on a GPU."""
    kind = type(value)
    if kind is FakeTensor:
        return nn.Parameter if isinstance(value, nn.Parameter) else torch.Tensor
    return real(kind)


class Kinds:
    """The modules of the program that compare types with that of tensors."""

    def __init__(self, session: Session) -> None:
        self._modules = 0
        self._main: ModuleType | None = None
        self._seen: dict[str, ModuleType] = {}
        self._left: set[str] = set()  # names of those that cannot have the function

    def look(self) -> None:
        """Look at the modules that are new."""
        main = sys.modules.get("__main__")  # the script's takes the place of this package's
        if len(sys.modules) == self._modules and main is self._main:
            return
        modules = dict(sys.modules)
        self._modules, self._main = len(modules), main
        for name, module in modules.items():
            if self._seen.get(name) is module:
                continue
            self._seen[name] = module
            if name.split(".")[0] in _OTHERS or not isinstance(module, ModuleType) or _NAME in vars(module):
                continue
            if _TORCH.isdisjoint(vars(module)):
                continue
            use = _use_in(vars(module).get("__file__"))
            if use is Use.ASKS:
                vars(module)[_NAME] = kind_of
            elif use is Use.OTHER:
                self._left.add(name)

    def explain(self, error: BaseException) -> None:
        """Say to an exception of the program that it may come of the type that a fake tensor has."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
        if module in self._left and sys.version_info >= (3, 11):
            error.add_note(
                f"memestimate: {module} compares the types of tensors. On the pretended GPU that is a subclass of "
                "torch.Tensor: isinstance(x, torch.Tensor) holds there, too."
            )

    def _remove(self) -> None:
        for module in [*self._seen.values(), *sys.modules.values()]:  # of which some had it by `import *`
            if isinstance(module, ModuleType) and vars(module).get(_NAME) is kind_of:
                del vars(module)[_NAME]
        self._seen.clear()


def explain(session: Session, error: BaseException) -> None:
    """Say to an exception of the program that it may come of the type that a fake tensor has."""
    session.part(Kinds).explain(error)


def install(session: Session) -> None:
    """Take the function away when the recording ends."""
    kinds = session.part(Kinds)
    session.patches.later(kinds._remove)


@functools.cache
def _use_in(path: Any) -> Use:
    """For what a file uses the name `type`, once for all recordings of a process."""
    return _use(_source(path))


def _source(path: Any) -> str:
    """The source of a module, "" if it has none."""
    if isinstance(path, str) and path.endswith(".py"):
        with contextlib.suppress(OSError, ValueError):
            return Path(path).read_text(encoding="utf-8")
    return ""


def _use(source: str) -> Use:
    """For what a source that compares something with the type of tensors uses the name `type`."""
    if f"{_NAME}(" not in source or not any(_is_compared(source, match) for match in _TENSOR.finditer(source)):
        return Use.NONE
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (ValueError, SyntaxError, RecursionError):
        return Use.NONE
    asked = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _is_plain(node)}
    names = {id(node) for node in nodes if isinstance(node, ast.Name) and node.id == _NAME}
    return Use.NONE if not names else Use.ASKS if names <= asked else Use.OTHER


def _is_compared(source: str, name: re.Match[str]) -> bool:
    before = _BEFORE.search(source[max(name.start() - _NEAR, 0) : name.start()])
    if before is None:
        return _BEHIND.match(source, name.end()) is not None
    # Among others it is a key of a dictionary, or an argument that is none.
    return before.group()[0] not in "{," or source[name.end() :].lstrip().startswith(":")


def _is_plain(call: ast.Call) -> bool:
    return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)

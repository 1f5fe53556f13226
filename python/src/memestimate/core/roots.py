"""What a program calls its models, where it has several: by their variables, as their layers would have the same names.

`encoder` and `decoder` of two Sequentials both have a layer "0".
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

import torch
from torch import nn

_OWN = [os.path.dirname(path) for path in (__file__, os.path.abspath(__file__))]  # of the core
_HIDDEN = tuple(os.path.join(os.path.dirname(path), "") for path in (torch.__file__, *_OWN))
_FRAMES = 3  # of the program's own, from the call of the model outwards
_OWN_REFERENCES = 3  # the frame's, the variable's and the argument's
_LISTS = (nn.ModuleList, nn.ModuleDict)  # which are not called themselves


def find(root: nn.Module, first: bool) -> tuple[nn.Module, str]:
    """The module whose parts are to be named, and what its own name is.

    It is `root`, or the one that keeps it in a list or runs it from a method of its own. The first model that is called
    needs no name.
    """
    direct = ""
    for scope in _scopes():
        for name, value in scope:
            if value is root:
                direct = direct or name
            elif isinstance(value, _LISTS) and _has(value, root):
                return value, name
            elif name == "self" and isinstance(value, nn.Module) and _has(value, root):
                return value, "" if first else type(value).__name__
    return root, "" if first else direct or type(root).__name__


def _scopes() -> Iterator[list[tuple[str, Any]]]:
    frame: FrameType | None = sys._getframe(1)
    seen = 0
    while frame is not None and seen < _FRAMES:
        if not frame.f_code.co_filename.startswith(_HIDDEN):
            seen += 1
            variables, own = _variables(frame)
            yield variables
            yield _named(getattr(own, "__dict__", {}))
            yield _named(frame.f_globals)
            del own
        frame = frame.f_back


def _variables(frame: FrameType) -> tuple[list[tuple[str, Any]], Any]:
    """The modules among a frame's variables, and its `self`.

    Before Python 3.13 a function's frame keeps what it was asked for, and with it tensors that the program lets go of.
    """
    variables = frame.f_locals
    found = _named(variables), variables.get("self")
    of_function = type(variables) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if of_function and sys.getrefcount(variables) <= _OWN_REFERENCES:  # else the program has called locals() itself
        variables.clear()
    return found


def _named(scope: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in list(scope.items()) if isinstance(value, nn.Module)]


def _has(module: nn.Module, part: nn.Module) -> bool:
    # One that is being made runs parts of it before it has a list of them, as spectral norms do.
    return "_modules" in vars(module) and any(m is part for m in nn.Module.modules(module))

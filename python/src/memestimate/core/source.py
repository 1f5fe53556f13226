"""Sources of the program's files, as lines and as syntax."""

from __future__ import annotations

import ast
import linecache
from types import FrameType

_trees: dict[str, ast.Module | None] = {}


def source(frame: FrameType) -> list[str]:
    """The lines of the file that a frame is in; none if it cannot be read."""
    return linecache.getlines(frame.f_code.co_filename, frame.f_globals)


def tree(frame: FrameType) -> ast.Module | None:
    """The syntax of the file that a frame is in."""
    name = frame.f_code.co_filename
    if name not in _trees:
        try:
            _trees[name] = ast.parse("".join(source(frame)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of what is nested too deep
            _trees[name] = None
    return _trees[name]

"""Python stacks, as ids of frames in a recording."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from types import CodeType, FrameType

from .writer import Writer

# As code has it: what sys.path says of a folder, "../src", is in the names of its files.
_OWN = tuple(os.path.join(os.path.dirname(os.path.dirname(path)), "") for path in (__file__, os.path.abspath(__file__)))
WRAPPERS = "memestimate-inductor-"  # how the folder begins that compiled code is written into
# What lies between the user's call and the recorder, and says nothing about the step.
_INNER = (
    f"{os.sep}torch{os.sep}utils{os.sep}_python_dispatch.py",
    f"{os.sep}torch{os.sep}_ops.py",
    f"{os.sep}torch{os.sep}_subclasses{os.sep}",
    f"{os.sep}torch{os.sep}library.py",
    f"{os.sep}torch{os.sep}_library{os.sep}",
    f"{os.sep}torch{os.sep}_compile.py",
    f"{os.sep}torch{os.sep}_dynamo{os.sep}",
    f"{os.sep}torch{os.sep}_functorch{os.sep}",
    f"{os.sep}torch{os.sep}_inductor{os.sep}",
    f"{os.sep}{WRAPPERS}",
)
_TENSOR = f"{os.sep}torch{os.sep}_tensor.py"


class Frames:
    """Interns stacks; a frame's id stands for it and all its callers."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        # By parent, code and place in it: the frame's id, and the code itself, so that its address stays its own.
        self._known: dict[tuple[int, int, int], tuple[int, CodeType]] = {}
        self._hidden: dict[str, bool] = {}  # by file: code that Dynamo makes may have no hash
        self._names: dict[str, str] = {}
        self._prefixes = sorted(
            {
                os.path.join(p, "")
                for p in (sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), os.getcwd())
                if p
            },
            key=len,
            reverse=True,
        )

    def innermost(self) -> str:
        """The name of the innermost function that `here` would name, "" if there is none."""
        frame = self.asking()
        return "" if frame is None else frame.f_code.co_name

    def asking(self) -> FrameType | None:
        """The innermost frame that `here` would name, and that is not of a tensor's own methods."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (self._is_hidden(frame.f_code) or frame.f_code.co_filename.endswith(_TENSOR)):
            frame = frame.f_back
        return frame

    def here(self) -> int:
        """The id of the calling stack without this package's own frames; -1 if that is empty."""
        stack: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            stack.append(frame)
            frame = frame.f_back
        parent, known = -1, self._known
        for frame in reversed(stack):
            code, place = frame.f_code, frame.f_lasti
            key = parent, id(code), place
            found = known.get(key)
            if found is None:
                found = known[key] = self._within(parent, frame), code
            parent = found[0]
        return parent

    def _within(self, parent: int, frame: FrameType) -> int:
        code = frame.f_code
        if self._is_hidden(code):
            return parent
        name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
        return self._define(parent, code.co_filename, frame.f_lineno, name)

    def within(self, stack: Sequence[tuple[str, int, str]]) -> int:
        """The id of a stack that ends in these files, lines and functions, which compiled code came from."""
        parent = self.here()
        for file, line, name in stack:
            parent = self._define(parent, file, line, name)
        return parent

    def _define(self, parent: int, file: str, line: int, name: str) -> int:
        return self._writer.define("frame", (parent, file, line, name), parent, self._short(file), line, name)

    def _is_hidden(self, code: CodeType) -> bool:
        name = code.co_filename
        hidden = self._hidden.get(name)
        if hidden is None:
            hidden = self._hidden[name] = name.startswith(_OWN) or any(part in name for part in _INNER)
        return hidden

    def _short(self, path: str) -> str:
        """A path without the folders of this machine, so that recordings of two machines agree."""
        short = self._names.get(path)
        if short is None:
            short = path
            for prefix in self._prefixes:
                if path.startswith(prefix):
                    short = path[len(prefix) :]
                    break
            self._names[path] = short
        return short

"""Running out of the pretended GPU's memory, for programs that try sizes until one does not fit.

A recording of what does not fit is of use: the answer says by how much. So memory is without an end, unless a program
catches that there is none left, in an `except` around what asks for it: then that is what happens.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING

import torch

from .usage import source, tree

if TYPE_CHECKING:
    from .recorder import Recorder

# What handlers name: PyTorch's exception, the words of its message, or what libraries ask about it (accelerate's
# should_reduce_batch_size, Lightning's is_oom_error).
_NAMED = re.compile(r"(?i:out.?of.?memory)|OOM|(?<![A-Za-z])oom(?![a-z])|should_reduce_batch_size")
_KINDS = {"OutOfMemoryError", "RuntimeError", "Exception", "BaseException"}
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


class OutOfMemory:
    """What is left of the pretended GPU's memory, and who would catch that nothing is."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[tuple[CodeType, int], bool] = {}
        self._named: dict[str, bool] = {}  # whether a file's text has a word of it
        self.fraction = 1.0
        self.asking: list[FrameType] = []  # frames that asked for a backward pass, which runs on another thread

    def hold(self, serials: list[int]) -> None:
        """Raise `torch.cuda.OutOfMemoryError` where storages do not fit and the program would catch it.

        They are forgotten: they were never there.
        """
        storages, gpu = self._recorder.storages, self._recorder.gpu
        limit = int(gpu.memory * self.fraction)
        sizes = [storages.size(serial) for serial in serials]
        wanted = max(sizes, default=0)
        if storages.allocated + sum(sizes) <= limit or not self._is_caught():
            return
        storages.forget(serials)
        self._recorder.note(
            "memory", f"tensors were kept to {limit / 2**30:.2f} GiB, as the program catches that it is out of memory"
        )
        asked, total, used = (n / 2**30 for n in (wanted, limit, storages.allocated))
        raise torch.cuda.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {asked:.2f} GiB. GPU 0 has a total capacity of {total:.2f} GiB of "
            f"which {total - used:.2f} GiB is free. Of the allocated memory {used:.2f} GiB is allocated by PyTorch."
        )

    def _is_caught(self) -> bool:
        for frame in (sys._getframe(2), *self.asking):
            at: FrameType | None = frame
            while at is not None:
                if self._catches(at):
                    return True
                at = at.f_back
        return False

    def _catches(self, frame: FrameType) -> bool:
        key = frame.f_code, frame.f_lineno
        found = self._known.get(key)
        if found is None:
            name = frame.f_code.co_filename
            if name not in self._named:
                own = name.startswith(_TORCH)
                self._named[name] = not own and bool(_NAMED.search("".join(source(frame))))
            found = self._known[key] = self._named[name] and _catches(frame)
        return found


def _catches(frame: FrameType) -> bool:
    """Whether the line that a frame is at lies in a `try` that knows what being out of memory is."""
    for node in ast.walk(tree(frame) or ast.Pass()):
        if not isinstance(node, ast.Try) or not node.body[0].lineno <= frame.f_lineno <= (
            node.body[-1].end_lineno or 0
        ):
            continue
        for handler in node.handlers:
            kinds = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(handler.type or ast.Pass())}
            if (handler.type is None or kinds & _KINDS) and _NAMED.search(ast.unparse(handler)):
                return True
    return False

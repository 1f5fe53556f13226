"""Running out of the pretended GPU's memory, for programs that try sizes until one does not fit.

A recording of what does not fit is of use: the answer says by how much. So memory is without an end, unless a program
catches that there is none left, in an `except` or a `contextlib.suppress` around what asks for it: then that is what
happens.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from types import CodeType, FrameType

import torch

from ..core.gpus import CONTEXT
from ..core.session import Session
from ..core.source import source, tree
from .replay import Replay

# What handlers name: PyTorch's exception, the words of its message, or what libraries ask about it (accelerate's
# should_reduce_batch_size, Lightning's is_oom_error).
_NAMED = re.compile(r"(?i:out.?of.?memory)|OOM|(?<![A-Za-z])oom(?![a-z])|should_reduce_batch_size")
_KINDS = {"OutOfMemoryError", "RuntimeError", "Exception", "BaseException"}
_ENDLESS = 1 << 48  # bytes that no recording can hold, as no address space does
# Part of the memory that tensors may fill before the allocator is asked; and after an attempt that left fragments.
_SURE, _FRAGMENTED = 0.6, 0.1
_AGAIN = 0.98  # part of what tensors took in the steps before, from which on a later step is asked about
_SEGMENT = 2 << 20  # bytes: less is served without asking the driver for more, mostly (kSmallBuffer)
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


class OutOfMemory:
    """What is left of the pretended GPU's memory, and who would catch that nothing is."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[CodeType, int], bool] = {}
        self._named: dict[str, bool] = {}  # whether a file's text has a word of it
        self.fraction = 1.0
        self._part = _SURE
        self._sure = 0  # bytes of tensors that fit with all that is beside them
        self._highest, self._step = 0, 0  # what tensors took in this attempt, and the step they took it in
        self._failed = 0  # what they would have taken where the last attempt failed
        self._context = CONTEXT  # bytes of the process on the GPU beside PyTorch's, as the answer has them

    def hold(self, serials: list[int]) -> None:
        """Raise `torch.cuda.OutOfMemoryError` where storages do not fit and the program would catch it.

        They are forgotten: they were never there.
        """
        storages, gpu = self._session.storages, self._session.gpu
        limit = int(gpu.memory * self.fraction)
        room = min(limit, gpu.memory - CONTEXT)
        sizes = [storages.size(serial) for serial in serials]
        on = storages.gpu(serials[0]) if serials else 0
        held = storages.levels[on]
        wanted, level = max(sizes, default=0), held.allocated + sum(sizes)
        if self._step < self._session.steps:  # whose fragments are others: as much as before is asked about again
            self._step, self._sure = self._session.steps, min(self._sure, int(self._highest * _AGAIN))
        self._highest = max(self._highest, level)
        if not sizes or level <= min(room, max(self._sure, int(room * self._part))):
            return
        if level < _ENDLESS and not self._is_caught():
            return
        # Where the program was given less in the middle of its run, a replay with that fails before.
        if level <= room and (held.highest > room or self._fits(level, sizes, limit, on)):
            return
        self._sure, self._part, self._highest, self._failed = 0, _FRAGMENTED, 0, min(level, room)
        storages.forget(serials)
        self._session.writer.event("out_of_memory", limit)
        self._session.note(
            "memory", f"tensors were kept to {room / 2**30:.2f} GiB, as the program catches that it is out of memory"
        )
        asked, total, used = (n / 2**30 for n in (wanted, room, held.allocated))
        raise torch.cuda.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {asked:.2f} GiB. GPU {on} has a total capacity of {total:.2f} GiB "
            f"of which {total - used:.2f} GiB is free. Of the allocated memory {used:.2f} GiB is allocated by PyTorch."
        )

    def _fits(self, level: int, sizes: list[int], limit: int, gpu: int) -> bool:
        """Whether the allocator has room for storages beside what tensors and kernels take."""
        replay, memory = self._session.part(Replay), self._session.gpu.memory
        found, context, room = None, 0, 0
        while found is None or context != int(found["context_bytes"]):  # which grows with the handles in use
            context = self._context if found is None else int(found["context_bytes"])
            room = min(limit, memory - context)
            # With a limit it says what is needed without, and where it fails.
            found = replay.answer("--memory-limit", str(room), pending=sizes, gpu=gpu)
            if found is None:
                self._session.note("memory", "whether a batch fits was told by its tensors alone: no replay answered")
                return True
        self._context = context
        if "oom" in found:
            # Or a kernel's own memory did not fit before: the replay takes this attempt to have ended there.
            return False
        # Behind a failed attempt all that there is may be cached: then what tensors took where it failed is the guide.
        left = max(room - int(found["peak"]["reserved_bytes"]), self._failed - level)
        self._sure = level + max(left // 2, _SEGMENT)
        return True

    def _is_caught(self) -> bool:
        for frame in (sys._getframe(2), *self._session.phases.asking):
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


def allocate(session: Session, serials: list[int]) -> None:
    """See that storages which are about to be made fit."""
    session.part(OutOfMemory).hold(serials)


def _catches(frame: FrameType) -> bool:
    """Whether the line that a frame is at lies in a `try` or a `suppress` that knows what being out of memory is."""
    for node in ast.walk(tree(frame) or ast.Pass()):
        if not isinstance(node, (ast.Try, ast.With, ast.AsyncWith)):
            continue
        if not node.body[0].lineno <= frame.f_lineno <= (node.body[-1].end_lineno or 0):
            continue
        caught = node.handlers if isinstance(node, ast.Try) else node.items
        if any(_knows(item) for item in caught):
            return True
    return False


def _knows(node: ast.excepthandler | ast.withitem) -> bool:
    """Whether a handler, or `contextlib.suppress`, is for being out of memory."""
    if isinstance(node, ast.withitem):
        call = node.context_expr
        if not isinstance(call, ast.Call) or _name(call.func) != "suppress":
            return False
        return bool(_NAMED.search(ast.unparse(call)))
    assert isinstance(node, ast.ExceptHandler)
    kinds = {_name(n) for n in ast.walk(node.type or ast.Pass())}
    known = node.type is None or kinds & _KINDS or _NAMED.search(ast.unparse(node.type))
    return bool(known and _NAMED.search(ast.unparse(node)))


def _name(node: ast.AST) -> str:
    """The last word of a name: "OutOfMemoryError" of `torch.cuda.OutOfMemoryError`."""
    return str(getattr(node, "attr", getattr(node, "id", "")))

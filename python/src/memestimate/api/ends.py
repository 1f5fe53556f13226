"""Ends of a script that Python does not tell it about: a signal, `os._exit`, another program in its place."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from ..core.patches import Patches


class Terminated(BaseException):
    """The process was asked to end."""


def install(patches: Patches, finish: Callable[[int], object]) -> None:
    """Have `finish` called, with the exit status, before the recorded process ends unseen.

    Processes that are forked from it end as they would.
    """
    own, leave = os.getpid(), os._exit

    def exits(status: int) -> NoReturn:
        if os.getpid() == own:
            finish(status)
            _flush()
        leave(status)

    def becomes(become: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        def wrapped(path: Any, *arguments: Any) -> NoReturn:
            if os.getpid() != own:
                become(path, *arguments)
            name = os.path.basename(os.fsdecode(path))
            print(f"memestimate: the script becomes another program, {name}: record that one", file=sys.stderr)
            finish(_NOT_RECORDED)
            _flush()
            leave(_NOT_RECORDED)

        return wrapped

    patches.set(os, "_exit", exits)
    for name in ("execv", "execve"):
        patches.set(os, name, becomes(getattr(os, name)))
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
        patches.later(_unset)


_NOT_RECORDED = 3  # exit status


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


def _unset() -> None:
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()

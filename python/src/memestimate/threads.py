"""Threads that the program starts: what they do on the pretended GPU is recorded as what its first thread does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .patches import Patches

if TYPE_CHECKING:
    from .recorder import Recorder


def install(recorder: Recorder, patches: Patches) -> None:
    """Let each thread that starts from now on see the pretended GPU: a dispatch mode is of one thread."""
    run = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def within(thread: threading.Thread) -> None:
        with recorder.capture:
            run(thread)

    patches.set(threading.Thread, "_bootstrap_inner", within)

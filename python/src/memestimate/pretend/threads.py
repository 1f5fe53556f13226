"""Threads that the program starts: what they do on the pretended GPU is recorded as what its first thread does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from ..core.patches import Patches

if TYPE_CHECKING:
    from ..api.recorder import Recorder


def install(recorder: Recorder, patches: Patches) -> None:
    """Let each thread that starts from now on see the pretended GPU: a dispatch mode is of one thread."""
    run = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def within(thread: threading.Thread) -> None:
        if recorder.alone:
            torch._C._set_multithreading_enabled(False)
        with recorder.capture, recorder.numbers:
            run(thread)

    patches.set(threading.Thread, "_bootstrap_inner", within)


def begin(recorder: Recorder) -> None:
    """Run the first backward passes, and see whether autograd has a thread for the pretended GPU.

    Its engine starts one for each device with the first backward pass of the process (`start_device_threads`,
    engine.cpp), and never again: where that was one of the host, or where there is no engine to be told of a GPU, each
    thread runs its own.
    """
    if recorder.alone:
        _alone(recorder.patches)
    try:
        recorder.sums.calibrate()
    except RuntimeError as error:
        if recorder.alone or "device_ready_queues_" not in str(error):
            raise
        recorder.alone = True
        _alone(recorder.patches)
        recorder.sums.calibrate()


def _alone(patches: Patches) -> None:
    before = torch._C._is_multithreading_enabled()
    torch._C._set_multithreading_enabled(False)
    patches.later(lambda: torch._C._set_multithreading_enabled(before))

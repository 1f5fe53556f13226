"""Threads that the program starts: what they do on the pretended GPU is recorded as what its first thread does."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import torch

from ..core.patches import Patches
from ..core.session import Session
from .device_numbers import DeviceNumbers


def install(session: Session) -> None:
    """Let each thread that starts from now on see the pretended GPU: a dispatch mode is of one thread."""
    run = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def within(thread: threading.Thread) -> None:
        if session.alone:
            torch._C._set_multithreading_enabled(False)
        torch._C._set_only_lift_cpu_tensors(True)  # see device.install
        with session.capture, DeviceNumbers() if session.by_host else nullcontext():
            run(thread)

    session.patches.set(threading.Thread, "_bootstrap_inner", within)


def begin(session: Session) -> None:
    """Have lists that index tensors copied from the host in autograd's thread too, which recomputes checkpoints.

    It has one for each GPU (`Engine::thread_init`, engine.cpp), where a hook of a tensor on that GPU is called. What is
    set there stays: an index on the host does the same. Where threads run their backward passes themselves it has none.
    """
    if session.alone:
        return
    session.quiet, before = True, session.quiet
    try:
        with torch.enable_grad():
            made = torch.ones(1, device="cuda", requires_grad=True) * 2
            made.register_hook(lambda grad: torch._C._set_only_lift_cpu_tensors(True))
            made.sum().backward()
    finally:
        session.quiet = before


def alone(patches: Patches) -> None:
    """Let each thread run the backward passes that it asks for, until the recording ends."""
    before = torch._C._is_multithreading_enabled()
    torch._C._set_multithreading_enabled(False)
    patches.later(lambda: torch._C._set_multithreading_enabled(before))

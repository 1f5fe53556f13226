"""NVML, which some libraries ask for the memory of the GPU that PyTorch uses."""

from __future__ import annotations

import os
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from ..core.session import Session
from .imports import when_imported

_HIDDEN = ("", "-1")  # values of CUDA_VISIBLE_DEVICES that hide all GPUs, as of a machine that has better to do


def install(session: Session) -> None:
    """Let NVML say of the pretended GPU what `torch.cuda` says, and let it be visible."""
    patches = session.patches
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden in _HIDDEN:
        del os.environ["CUDA_VISIBLE_DEVICES"]
        patches.later(lambda: os.environ.update(CUDA_VISIBLE_DEVICES=hidden))

    def memory(handle: Any) -> SimpleNamespace:
        free, total = torch.cuda.mem_get_info()
        return SimpleNamespace(free=free, total=total, used=total - free)

    def pretend(module: ModuleType) -> None:
        patches.set(module, "nvmlInit", lambda: None)
        patches.set(module, "nvmlShutdown", lambda: None)
        patches.set(module, "nvmlDeviceGetCount", lambda: torch.cuda.device_count())
        patches.set(module, "nvmlDeviceGetHandleByIndex", lambda index: index)
        patches.set(module, "nvmlDeviceGetMemoryInfo", memory)
        patches.set(module, "nvmlDeviceGetName", lambda handle: torch.cuda.get_device_name())

    when_imported(patches, "pynvml", pretend)

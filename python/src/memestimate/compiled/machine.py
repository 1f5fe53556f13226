"""The GPU that Dynamo, Inductor and Triton ask about while they compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ..core.session import Session


def install(session: Session) -> None:
    """Put the answers in place."""
    from torch._dynamo import device_interface

    major, minor = session.gpu.capability
    properties = torch.cuda.get_device_properties(0)
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "get_compute_capability": lambda device=None: major * 10 + minor,
        "get_raw_stream": lambda device=0: 0,
        "current_device": lambda: 0,
        "maybe_exchange_device": lambda device: 0,
        "exchange_device": lambda device: 0,
        "set_device": lambda device: None,
        "is_triton_capable": lambda device=None: major >= 7,
        "raise_if_triton_unavailable": lambda device=None: None,
        "device_count": lambda: 1,
        "synchronize": lambda device=None: None,
        "is_bf16_supported": lambda including_emulation=False: including_emulation or major >= 8,
        "memory_allocated": lambda device=None: session.storages.allocated,
        "get_device_properties": lambda device=None: properties,
    }
    session.patches.set(FakeTensorMode, "avoid_device_init", property(lambda mode: True))  # of Dynamo's own, too
    cuda: Any = device_interface.CudaInterface
    for name, answer in answers.items():
        session.patches.set(cuda, name, staticmethod(answer))
    for name in ("get_device_properties", "current_device", "set_device"):
        session.patches.set(cuda.Worker, name, staticmethod(answers[name]))

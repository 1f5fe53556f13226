"""What PyTorch before 2.11 refuses: to compile for tensors that are pretended already, by a fake mode of their own.

From 2.11 on the mode of Dynamo's tracing is taken, whatever the inputs are of (`detect_fake_mode`, torch/_guards.py),
and AOTAutograd makes inputs of another mode its own (`process_inputs`, _functorch/_aot_autograd/frontend_utils.py).
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..core.patches import Patches


def install(patches: Patches) -> None:
    """Let an older PyTorch do as 2.11 does."""
    guards: Any = torch._guards
    detect = guards.detect_fake_mode
    inputs: Any = importlib.import_module("torch._functorch._aot_autograd.frontend_utils")
    process = inputs.process_inputs

    def detected(values: Any = None) -> Any:
        context = guards.TracingContext.try_get()
        mode = None if context is None else context.fake_mode
        return detect(values) if mode is None else mode

    def own(value: Any, mode: Any) -> Any:
        return mode.from_tensor(value) if isinstance(value, FakeTensor) and value.fake_mode is not mode else value

    def processed(flat: list[Any], config: Any, mode: Any, *more: Any, **named: Any) -> Any:
        return process([own(value, mode) for value in flat], config, mode, *more, **named)

    for module in list(sys.modules.values()):
        for name, before, now in (("detect_fake_mode", detect, detected), ("process_inputs", process, processed)):
            if getattr(module, "__name__", "").startswith("torch.") and vars(module).get(name) is before:
                patches.set(module, name, now)

"""What a process has of PyTorch, and of Python where a recording touches it: taken before and after one."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

_HOOKS = [name for name in vars(modules) if name.startswith("_global_") and not callable(vars(modules)[name])]
_CALLED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, property, staticmethod, classmethod)


def _owners() -> Iterator[tuple[str, Any]]:
    """The modules of PyTorch, its classes, and the standard library's that are replaced in a recording."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("torch", "multiprocessing", "os", "signal", "builtins", "importlib"):
            yield name, module
            for key, value in list(vars(module).items()) if isinstance(module, types.ModuleType) else ():
                if key != "reduce_op" and isinstance(value, type) and getattr(value, "__module__", None) == name:
                    yield f"{name}.{key}", value


def take() -> dict[str, Any]:
    """All that is compared, by name."""
    found: dict[str, Any] = {}
    for name, owner in _owners():
        for key, value in list(getattr(owner, "__dict__", {}).items()):
            if key != "reduce_op" and isinstance(value, _CALLED):  # that one warns that it is deprecated
                found[f"{name}.{key}"] = value
    found |= {
        f"hooks {name}": tuple(vars(modules)[name]) for name in _HOOKS if hasattr(vars(modules)[name], "__iter__")
    }
    found |= {
        "optimizers' hooks": (
            tuple(optimizers._global_optimizer_pre_hooks),
            tuple(optimizers._global_optimizer_post_hooks),
        ),
        "default device": torch.get_default_device(),
        "default dtype": torch.get_default_dtype(),
        "random numbers": torch.get_rng_state().tolist(),
        "Python's random numbers": random.getstate(),
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": (torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "multithreading": torch._C._is_multithreading_enabled(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "function modes": torch._C._len_torch_function_stack(),
        "a GPU": (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized()),
        "matmul": (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32),
        "warnings": tuple(warnings.filters),
        "showing warnings": warnings.showwarning,
        "finders": tuple(sys.meta_path),
        "path": tuple(sys.path),
        "arguments": tuple(sys.argv),
        "hooks of exceptions": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "collections": tuple(gc.callbacks),
        "environment": dict(os.environ),
        "signals": {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)},
        "modules": {name for name in sys.modules if not name.startswith(("torch", "memestimate"))},
    }
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What was there before and is another now; modules that were imported since are not told."""
    return [
        name for name, value in before.items() if name in after and after[name] is not value and after[name] != value
    ] + [f"{name} is gone" for name in before if name not in after]

"""How much GPU memory a PyTorch training step takes, without a GPU.

A module is imported with the first name that needs it, and PyTorch with it where it does: the program that comes with
this package needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .api.answer import Asked, Batch, Estimate, Fit, Peak
    from .api.ask import estimate, fit
    from .api.configs import from_config
    from .api.lightning import LightningCallback as LightningCallback
    from .api.program import ProgramError
    from .api.recorder import Recorder, record
    from .api.trainer import TrainerCallback as TrainerCallback

__all__ = [
    "Asked",
    "Batch",
    "Estimate",
    "Fit",
    "Peak",
    "ProgramError",
    "Recorder",
    "__version__",
    "estimate",
    "fit",
    "from_config",
    "record",
]

_CALLBACKS = {"LightningCallback": "api.lightning", "TrainerCallback": "api.trainer"}  # import the library they are for
_MODULES = {  # of names, each imported when it is first asked for
    **_CALLBACKS,
    **dict.fromkeys(("Asked", "Batch", "Estimate", "Fit", "Peak"), "api.answer"),
    "ProgramError": "api.program",
    "estimate": "api.ask",
    "fit": "api.ask",
    "from_config": "api.configs",
    "Recorder": "api.recorder",
    "record": "api.recorder",
    "load_ipython_extension": "api.magic",  # which %load_ext calls
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_CALLBACKS])

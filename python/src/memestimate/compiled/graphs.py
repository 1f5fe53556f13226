"""CUDA graphs of compiled code (``mode="reduce-overhead"``), whose private pool is not modelled."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

from ..core.session import Session

_TEXT = "recorded without CUDA graphs: what their private pool takes is not in the figures, which are no upper bound"


def install(session: Session) -> None:
    """Run what would be captured as a CUDA graph as it is, and say so."""
    trees: Any = importlib.import_module("torch._inductor.cudagraph_trees")
    compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")

    def as_it_is(model: Any, *_: Any, **__: Any) -> Any:
        session.note("eager", _TEXT)
        return model

    # A backward pass that is not captured tells the graphs of the forward pass that it runs.
    manager = SimpleNamespace(set_to_running_backward=lambda: None)

    def get_manager(device: int, create_if_none_exists: bool = True) -> Any:
        return manager if session.phases.backward_depth else None

    session.patches.set(compile_fx, "cudagraphify", as_it_is)
    session.patches.set(trees, "cudagraphify_impl", as_it_is)
    session.patches.set(trees, "get_manager", get_manager)

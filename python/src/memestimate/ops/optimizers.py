"""Optimizers on fake parameters: the same code path that CUDA parameters take."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session
from ..values.facts import facts

_FLATTER = 0.89  # less than the part of the slope, 0.9, that `_strong_wolfe` accepts


def install(session: Session) -> None:
    """Let PyTorch take the foreach and fused paths for fake parameters.

    Both lists hold the exact types for which the default is foreach (torch/optim/optimizer.py,
    `_default_to_fused_or_foreach`; torch/utils/_foreach_utils.py, `_has_foreach_support`, which
    gradient clipping asks). A parameter made of a fake tensor has the type `FakeTensor`.
    """
    import torch.optim.optimizer as optimizer
    import torch.utils._foreach_utils as foreach

    for module in (optimizer, foreach):
        types = getattr(module, "_foreach_supported_types", None)
        if types is not None:
            session.patches.extend(types, FakeTensor)
    if session.way != "real-cpu":
        _search(session)


def _search(session: Session) -> None:
    """Let LBFGS find a better point each time that it looks, so that its history fills as in a run that succeeds.

    With losses that are all alike it would stop at once (torch/optim/lbfgs.py: `gtd > -tolerance_change`,
    `abs(loss - prev_loss) < tolerance_change`), or search as long as it may.
    """
    step, gather = torch.optim.LBFGS.step, torch.optim.LBFGS._gather_flat_grad
    slope = -1.0

    @functools.wraps(step)
    def searching(optimizer: torch.optim.LBFGS, closure: Callable[[], Any]) -> Any:
        nonlocal slope
        slope, evaluations = -1.0, 0

        def falling() -> Any:
            nonlocal evaluations
            loss = closure()
            evaluations += 1
            return (
                loss
                if evaluations == 1
                else float(loss.detach() if isinstance(loss, torch.Tensor) else loss) - evaluations
            )

        session.note("search", "LBFGS was taken to find a better point at once, in each of its iterations")
        return step(optimizer, falling)  # type: ignore[no-untyped-call]

    def gradient(optimizer: torch.optim.LBFGS) -> torch.Tensor:
        nonlocal slope
        found: torch.Tensor = gather(optimizer)  # type: ignore[no-untyped-call]
        facts(found).slope = slope
        slope *= _FLATTER
        return found

    session.patches.set(torch.optim.LBFGS, "step", searching)
    session.patches.set(torch.optim.LBFGS, "_gather_flat_grad", gradient)

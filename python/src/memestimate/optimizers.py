"""Optimizers on fake parameters: the same code path that CUDA parameters take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch._subclasses.fake_tensor import FakeTensor

from .patches import Patches

if TYPE_CHECKING:
    from .recorder import Recorder


def install(recorder: Recorder, patches: Patches) -> None:
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
            patches.extend(types, FakeTensor)

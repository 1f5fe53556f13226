"""Zero tensors without memory, which forward-mode derivatives are made of (`torch._efficientzerotensor`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session

aten = torch.ops.aten
handles: Table[Handler] = Table("zeros")


@handles(aten._efficientzerotensor.default)
def without_memory(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    # ZeroTensorAllocator gives no memory (ATen/ZeroTensorFallback.cpp); the fake tensor's storage has its size.
    out = session.fake.__torch_dispatch__(func, (FakeTensor,), args, kwargs)
    if isinstance(out, torch.Tensor) and out.is_cuda:
        session.storages.aliased(out)
        session.log(func, args, kwargs, out)
    return out


def install(session: Session) -> None:
    """Let views of zero tensors be zero tensors of another shape: PyTorch's own of a fake one are of no GPU.

    `view`, `as_strided` and `_reshape_alias` run below the dispatch mode there, and what they give is on ``meta``.
    """
    library = torch.library.Library("aten", "IMPL")
    session.patches.later(library._destroy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels of PyTorch are replaced
        for op in (aten.view.default, aten.as_strided.default, aten._reshape_alias.default):
            library.impl(op, _reshaped, "ZeroTensor")


def _reshaped(x: torch.Tensor, size: Sequence[int], *_: Any) -> torch.Tensor:
    known = math.prod(n for n in size if n != -1)
    whole = [x.numel() // known if n == -1 else n for n in size]
    out: torch.Tensor = aten._efficientzerotensor(whole, dtype=x.dtype, device=x.device)
    return out

"""Operators as CUDA puts them together, in a build of PyTorch without it: C++ decides by the device."""

from __future__ import annotations

from typing import Any

import torch

from ..core.handlers import Composite, Table
from ..core.session import Session
from ..pretend.host import MOVES
from .sums import Sums

aten = torch.ops.aten
composes: Table[Composite] = Table("host")
for _op, _function in MOVES.items():
    composes(_op)(lambda session, *args, _function=_function, **kwargs: _function(*args, **kwargs))


@composes(aten.dropout.default)
def dropout(session: Session, x: torch.Tensor, p: float, train: bool) -> Any:
    """`is_fused_kernel_acceptable` (Dropout.cpp)"""
    if p == 0 or not train or x.numel() == 0:
        return x
    if p < 1:
        return aten.native_dropout(x, p, train)[0]
    return aten.dropout.default.decompose(x, p, train)


@composes(aten.batch_norm.default)
def batch_norm(
    session: Session, x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """`_select_batch_norm_backend` (Normalization.cpp)"""
    limit = 880801 if training else 65535
    by_cudnn = (
        torch.backends.cudnn.enabled
        and weight is not None
        and bias is not None
        and torch.bfloat16 not in (x.dtype, weight.dtype)
        and (x.dtype is not torch.float16 or weight.dtype is torch.float32)
        and ((mean is not None and var is not None) or (mean is None and var is None and training))
        and x.dim() >= 3
        and 0 < x.shape[0] <= limit
        and x.numel() > 0
    )
    if not by_cudnn:
        return aten.batch_norm.default.decompose(x, weight, bias, mean, var, training, momentum, eps, cudnn_enabled)
    x = x.contiguous(memory_format=torch._prims_common.suggest_memory_format(x))
    weight, bias = weight.contiguous(), bias.contiguous()
    return aten.cudnn_batch_norm(x, weight, bias, mean, var, training, momentum, eps)[0]


@composes(aten.linear.default)
def linear(session: Session, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    """Linear.cpp, which has a path of its own for XLA."""
    if bias is not None and x.dim() > 2 and x.is_contiguous():
        out = aten.addmm(bias, x.reshape(x.shape[:-1].numel(), x.shape[-1]), weight.t())
        return out.view((*x.shape[:-1], out.shape[1]))
    with session.part(Sums).in_place(bias):
        return aten.linear.default.decompose(x, weight, bias)


@composes(aten.lstm_cell.default)
def lstm_cell(
    session: Session, x: torch.Tensor, hidden: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """`LSTMCell` (RNN.cpp)"""
    gates = aten.matmul(x, w_ih.t()), aten.matmul(hidden[0], w_hh.t())
    return aten._thnn_fused_lstm_cell(*gates, hidden[1], b_ih, b_hh)[:2]


@composes(aten.gru_cell.default)
def gru_cell(
    session: Session, x: torch.Tensor, hidden: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """`GRUCell` (RNN.cpp)"""
    gates = aten.matmul(x, w_ih.t()), aten.matmul(hidden, w_hh.t())
    return aten._thnn_fused_gru_cell(*gates, hidden, b_ih, b_hh)[0]


@composes(aten._weight_norm.default)
def weight_norm(session: Session, v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> Any:
    """WeightNorm.cpp"""
    if dim in (0, v.dim() - 1):
        return aten._weight_norm_interface(v.contiguous(), g.contiguous(), dim)[0]
    return aten._weight_norm.default.decompose(v, g, dim)


@composes(aten.grid_sampler.default)
def grid_sampler(session: Session, x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align: bool) -> Any:
    """`cond_cudnn_grid_sampler` (GridSampler.cpp)"""
    taken = x.dtype in (torch.float16, torch.float32, torch.float64) and x.dim() == 4 and x.shape[1] <= 1024
    if taken and (mode, padding, align) == (0, 0, True) and torch.backends.cudnn.enabled and x.numel() > 0:
        return aten.cudnn_grid_sampler(x, grid)
    return aten.grid_sampler.default.decompose(x, grid, mode, padding, align)

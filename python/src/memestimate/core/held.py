"""What sparse tensors on the pretended GPU hold, which fake ones forget."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

HELD = "_memestimate_held"  # attribute with the parts of a fake tensor
DISTINCT = "_memestimate_distinct"  # how many places an uncoalesced tensor has values for
COALESCED = "_memestimate_coalesced"  # whether each place has one value, which fake tensors always say


def held(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors that have a tensor's storages: itself, or the values and then the indices of a sparse one.

    Of a compressed one: the values, where rows (or columns) begin, and the columns (or rows).

    Raises
    ------
    RuntimeError
        For a sparse tensor whose parts are not known.
    """
    if tensor.layout is torch.strided:
        return (tensor,)
    if not isinstance(tensor, FakeTensor) and tensor.layout is torch.sparse_coo:
        return tensor._values(), tensor._indices()
    if not isinstance(tensor, FakeTensor) and tensor.layout is torch.sparse_csr:
        return tensor.values(), tensor.crow_indices(), tensor.col_indices()
    if not isinstance(tensor, FakeTensor) and tensor.layout is torch.sparse_csc:
        return tensor.values(), tensor.ccol_indices(), tensor.row_indices()
    parts: tuple[torch.Tensor, ...] | None = tensor.__dict__.get(HELD)
    if parts is None:
        layout = str(tensor.layout).removeprefix("torch.")
        raise RuntimeError(f"a tensor of layout {layout} cannot be recorded: how many values it has is not known")
    return parts


def hold(out: Any, parts: tuple[torch.Tensor, ...], like: torch.Tensor) -> None:
    """Say which values and indices a sparse tensor has, for the places of another one."""
    out.__dict__[HELD] = parts
    for name in (DISTINCT, COALESCED):
        if name in like.__dict__:
            out.__dict__[name] = like.__dict__[name]


def told_distinct(whole: torch.Tensor) -> int | None:
    """For how many places a tensor has values; None where that was not told yet."""
    count: int | None = whole.__dict__.get(DISTINCT)
    return held(whole)[0].shape[0] if count is None and is_coalesced(whole) else count


def tell_distinct(whole: torch.Tensor, count: int | None) -> None:
    """Say for how many places a tensor has values."""
    if count is not None:
        whole.__dict__[DISTINCT] = count


def is_coalesced(sparse: torch.Tensor) -> bool:
    """Whether each place of a sparse tensor has one value."""
    return bool(sparse.__dict__.get(COALESCED)) if isinstance(sparse, FakeTensor) else sparse.is_coalesced()

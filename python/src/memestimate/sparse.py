"""Sparse tensors on the pretended GPU: fake ones forget how many values they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from .capture import Handler
    from .recorder import Recorder

aten = torch.ops.aten
_ATTRIBUTE = "_memestimate_held"


def held(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors that have a tensor's storages: itself, or the values and then the indices of a sparse one.

    Raises
    ------
    RuntimeError
        For a sparse tensor whose parts are not known.
    """
    if tensor.layout is torch.strided:
        return (tensor,)
    if not isinstance(tensor, FakeTensor) and tensor.layout is torch.sparse_coo:
        return tensor._values(), tensor._indices()
    parts: tuple[torch.Tensor, ...] | None = tensor.__dict__.get(_ATTRIBUTE)
    if parts is None:
        layout = str(tensor.layout).removeprefix("torch.")
        raise RuntimeError(f"a tensor of layout {layout} cannot be recorded: how many values it has is not known")
    return parts


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """Making a sparse tensor of indices and values, and taking it apart."""
    make = aten._sparse_coo_tensor_with_dims_and_tensors.default

    def build(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = recorder.fake.__torch_dispatch__(make, (FakeTensor,), args, kwargs)
        out.__dict__[_ATTRIBUTE] = args[4], args[3]
        return out

    def values(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return held(args[0])[0]

    def indices(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return held(args[0])[1]

    def same(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Another tensor of the same parts."""
        whole = args[0]
        if whole.layout is not torch.sparse_coo or not isinstance(whole, FakeTensor):
            return NotImplemented
        parts = held(whole)
        if func is aten.clone.default:
            # AccumulateGrad keeps a sparse gradient of dense parts as it comes; here it copies one because Python
            # refers to it (torch/csrc/autograd/functions/accumulate_grad.h).
            node = torch._C._current_autograd_node() if recorder.phases.backward_depth else None
            kept = node is not None and node.name().endswith("AccumulateGrad")
            if not kept or not all(part.is_contiguous() for part in parts):
                with recorder.capture:
                    parts = tuple(part.clone(memory_format=torch.contiguous_format) for part in parts)
        out = recorder.fake.__torch_dispatch__(func, (FakeTensor,), args, kwargs)
        out.__dict__[_ATTRIBUTE] = parts
        return out

    def bags(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The gradient of bags of embeddings, which is put together from other operators (EmbeddingBag.cpp)."""
        grad, indices, offsets, bag_of, sizes, _, count, scale, mode, is_sparse, weights, *padding = args
        if not is_sparse or kwargs:
            return NotImplemented
        with recorder.capture:
            return aten._embedding_bag_sparse_backward(
                grad, indices, offsets, bag_of, sizes, count, scale, mode, weights, *padding
            )

    found: dict[OpOverload, Handler] = {make: build, aten._values.default: values, aten._indices.default: indices}
    found[aten._embedding_bag_backward.default] = bags
    return found | dict.fromkeys((aten.detach.default, aten.clone.default), same)


def copied(recorder: Recorder, source: torch.Tensor, func: OpOverload, kwargs: dict[str, Any]) -> torch.Tensor:
    """A sparse tensor that comes from the host: its indices and its values are copied."""
    parts = []
    for part, dtype in zip(held(source), (kwargs.get("dtype"), None), strict=True):
        parts.append(recorder.pretend(part, dtype=dtype))
        recorder.log(func, (part,), {"device": kwargs["device"]}, parts[-1])
    values, indices = parts
    shape = source.sparse_dim(), source.dense_dim(), list(source.shape)
    options = {"dtype": values.dtype, "layout": torch.sparse_coo, "device": values.device}
    out = handlers(recorder)[aten._sparse_coo_tensor_with_dims_and_tensors.default](
        func, (*shape, indices, values), options
    )
    assert isinstance(out, torch.Tensor)
    return out

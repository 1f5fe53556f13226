"""``nn.DataParallel`` on several pretended GPUs of one process: what its C++ makes on each of them.

Copies and sums between GPUs are those of torch/csrc/cuda/comm.cpp, with NCCL, which takes a result and nothing beside.
Replicas run one after the other instead of in threads, so that the same program makes the same recording.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from ..core.session import Session
from .streams import Switch


def install(session: Session) -> None:
    """Answer the functions of C++, or say how to record such a program."""
    patches = session.patches
    if session.gpus > 1:
        for name, answer in _ANSWERS.items():
            if hasattr(torch._C, name):
                patches.set(torch._C, name, answer)
        module = importlib.import_module("torch.nn.parallel.parallel_apply")
        patches.set(module, "threading", SimpleNamespace(Thread=_AtOnce, Lock=threading.Lock))
        return
    forward = torch.nn.DataParallel.forward

    def run(module: Any, *inputs: Any, **kwargs: Any) -> Any:
        if (n := len(module.device_ids)) > 1:
            raise NotImplementedError(
                f"nn.DataParallel takes {n} GPUs of each process: record it without --world-size and with --gpus {n}"
            )
        session.note(
            "gpus", "nn.DataParallel takes all GPUs that it sees, and was recorded with one: --gpus N for more"
        )
        return forward(module, *inputs, **kwargs)

    patches.set(torch.nn.DataParallel, "forward", run)


class _AtOnce:
    """A thread that runs where it is started."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...]) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        """Run."""
        self._target(*self._args)

    def join(self) -> None:
        """Return at once."""


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    own = tensor.get_device()
    return [tensor if gpu == own else torch.empty_like(tensor, device=f"cuda:{gpu}") for gpu in devices]


def _broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], size: int) -> list[list[Tensor]]:
    """Of what goes together up to a size, in bytes, each GPU has one storage."""
    found: list[list[Tensor]] = [[tensor] + [tensor] * (len(devices) - 1) for tensor in tensors]
    groups: dict[torch.dtype, list[int]] = {}
    for i, tensor in enumerate(tensors):
        group = groups.setdefault(tensor.dtype, [])
        group.append(i)
        if sum(tensors[j].numel() * tensors[j].element_size() for j in group) >= size:
            _together(tensors, groups.pop(tensor.dtype), devices, found)
    for group in groups.values():
        _together(tensors, group, devices, found)
    return [[copies[i] for copies in found] for i in range(len(devices))]


def _together(tensors: Sequence[Tensor], group: list[int], devices: Sequence[int], found: list[list[Tensor]]) -> None:
    whole = [tensors[i] for i in group]
    for at, flat in enumerate(_broadcast(_flatten_dense_tensors(whole), devices)[1:], start=1):
        for i, part in zip(group, _unflatten_dense_tensors(flat, whole), strict=True):
            found[i][at] = part.data


def _scatter(
    tensor: Tensor, devices: Sequence[int], sizes: Sequence[int] | None, dim: int, streams: Sequence[Any] | None
) -> list[Tensor]:
    chunks = list(tensor.split(list(sizes), dim) if sizes else tensor.chunk(len(devices), dim))
    own = tensor.get_device() if tensor.is_cuda else -1
    for i, chunk in enumerate(chunks):
        if devices[i] != own:
            with Switch(streams[i]) if streams and streams[i] is not None else nullcontext():
                chunks[i] = chunk.to(f"cuda:{devices[i]}", non_blocking=True)
    return chunks


def _gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    first = tensors[0]
    formats = {torch._prims_common.suggest_memory_format(t) for t in tensors}
    format = formats.pop() if len(formats) == 1 else torch.contiguous_format
    size = list(first.shape)
    size[dim] = sum(t.shape[dim] for t in tensors)
    device = "cpu" if destination == -1 else "cuda" if destination is None else f"cuda:{destination}"
    out = torch.empty(size, dtype=first.dtype, device=device, memory_format=format)
    for part, tensor in zip(out.split([t.shape[dim] for t in tensors], dim), tensors, strict=True):
        part.copy_(tensor, non_blocking=True)
    return out


_ANSWERS: dict[str, Callable[..., Any]] = {
    "_broadcast": _broadcast,
    "_broadcast_coalesced": _broadcast_coalesced,
    "_scatter": _scatter,
    "_gather": _gather,
    "_nccl_reduce": lambda *_: None,
}

"""Tensors within values: of lists, of wrappers, of subclasses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """All tensors among the arguments or results of a call, lists included, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def on_host(value: Any, real: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """An argument of a call as the CPU takes it: tensors as `real` gives them, within lists too."""
    if isinstance(value, torch.Tensor):
        return real(value)
    if isinstance(value, (list, tuple)):
        return [on_host(item, real) for item in value]
    return torch.device("cpu") if isinstance(value, torch.device) else value


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that holds the memory of one within `torch.func`'s transforms."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def parts(tensor: Any) -> list[torch.Tensor]:
    """The tensors that one of DTensor's kind holds, which newer versions of PyTorch name beside a mesh."""
    held = (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
    return [part for part in held if isinstance(part, torch.Tensor)]

"""Numbers in place of devices, as in ``x.to(0)``: C++ takes them for those of an accelerator that it was built for.

A build without CUDA has none, or another. Here they are those of the pretended GPU, whichever function gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Where a device stands among the arguments of functions that take one by its place.
_PLACES: dict[Callable[..., Any], int] = {
    torch.device: 0,
    torch.Tensor.to: 1,
    torch.Tensor.cuda: 1,
    torch._C._nn._parse_to: 0,  # of Module.to
}


class DeviceNumbers(TorchFunctionMode):
    """Devices instead of their numbers, in all calls of one thread."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if "device" in kwargs:
            kwargs["device"] = _device(kwargs["device"])
        place = _PLACES.get(func)
        if place is not None and place < len(args):
            args = (*args[:place], _device(args[place]), *args[place + 1 :])
        return func(*args, **kwargs)


def _device(value: Any) -> Any:
    return torch.device("cuda", value) if isinstance(value, int) and not isinstance(value, bool) else value

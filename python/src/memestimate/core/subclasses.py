"""Subclasses of tensors on the pretended GPU: of the program's class and fake at the same time.

PyTorch makes an instance of a subclass from a plain tensor (`_make_subclass`, `as_subclass`), and refuses one that has
an object of its own already, which fake tensors have. So an object of a fake tensor is given a class that is both.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .session import Session

_OF = "_memestimate_class"


_known: dict[type, type] = {}


class _Converts:
    """What `super().__torch_function__` of the program's class finds: Tensor's, which FakeTensor has switched off."""

    __torch_function__ = vars(torch.Tensor)["__torch_function__"]


def _metaclass(kind: type) -> Any:
    return type(kind)


def pretended(kind: type) -> type:
    """The class of tensors on the pretended GPU that the program takes for another one."""
    if issubclass(kind, FakeTensor):
        return kind
    if kind in (torch.Tensor, nn.Parameter):
        return FakeTensor
    if kind not in _known:
        names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, _OF: kind}
        both = _metaclass(kind)(kind.__name__, (kind, _Converts, FakeTensor), names)
        # Which C++ turns off for a class that has Tensor's and a __torch_dispatch__ (THPVariableMetaType_init).
        both.__torch_function__ = inspect.getattr_static(kind, "__torch_function__")
        _known[kind] = both
    return _known[kind]


def real(kind: type) -> type:
    """The class that such a class stands for: the program's own, or the class itself."""
    found: type = vars(kind).get(_OF, kind)
    return found


def become(tensor: torch.Tensor, kind: type) -> torch.Tensor:
    """Let a fake tensor that nobody else has be of a subclass."""
    tensor.__class__ = pretended(kind)
    if issubclass(kind, nn.Parameter):
        tensor._is_param = True
    return tensor


def make(kind: type, data: torch.Tensor, requires_grad: bool = False) -> torch.Tensor:
    """`torch.Tensor._make_subclass` of a fake tensor: one of this class with the same memory."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        return become(data.detach().requires_grad_(requires_grad), kind)


def install(session: Session) -> None:
    """Let the ways in which libraries make tensors of their classes take fake ones."""
    make_subclass, as_subclass = torch.Tensor._make_subclass, torch.Tensor.as_subclass
    new, parameter = FakeTensor.__new__, nn.Parameter.__new__

    def made(kind: type, data: torch.Tensor, require_grad: bool = False, *args: Any, **kwargs: Any) -> Any:
        if isinstance(data, FakeTensor) and not args and not kwargs:  # with more it is FakeTensor itself
            return make(kind, data, require_grad)
        return make_subclass(kind, data, require_grad, *args, **kwargs)

    def taken(tensor: torch.Tensor, kind: type) -> torch.Tensor:
        if not isinstance(tensor, FakeTensor):
            if tensor.is_meta and issubclass(kind, FakeTensor):  # shapes are being found: no memory of the GPU
                return tensor
            return as_subclass(tensor, real(kind))
        with torch._C.DisableTorchFunctionSubclass():
            return become(torch.ops.aten.alias.default(tensor), kind)

    def fake(kind: type, mode: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(mode, FakeTensorMode):
            return new(kind, mode, *args, **kwargs)
        # The program asked for the type of a tensor and calls it: type(p)(x, requires_grad=False), as of nn.Parameter.
        return make(nn.Parameter if "requires_grad" in kwargs or args else kind, mode, *args, **kwargs)

    def parameter_of(kind: type, data: Any = None, requires_grad: bool = True) -> Any:
        if real(kind) is not nn.Parameter and isinstance(data, FakeTensor):
            return make(kind, data, requires_grad)
        return parameter(kind, data, requires_grad)

    session.patches.later(_known.clear)
    session.patches.set(torch.Tensor, "_make_subclass", staticmethod(made))
    session.patches.set(torch.Tensor, "as_subclass", taken)
    session.patches.set(FakeTensor, "__new__", staticmethod(fake))
    session.patches.set(nn.Parameter, "__new__", staticmethod(parameter_of))

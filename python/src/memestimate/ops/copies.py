"""Copies between the host, whose tensors are real, and the pretended GPU."""

from __future__ import annotations

import copyreg
import weakref
from typing import Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.held import held
from ..core.session import Session
from ..core.subclasses import real
from ..core.tensors import parts
from ..values.unknown import Unknown
from ..values.values import Values
from .sparse import coo

aten = torch.ops.aten
handles: Table[Handler] = Table("copies")


@handles(aten._to_copy.default)
def to_copy(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    source = args[0]
    device = kwargs.get("device")
    if device is None or isinstance(source, FakeTensor) == (torch.device(device).type == "cuda"):
        return NotImplemented
    dtype = kwargs.get("dtype") or source.dtype
    if source.layout is torch.sparse_coo and not isinstance(source, FakeTensor):
        return coo.copied(session, source, func, kwargs)
    held(source)  # which refuses other layouts
    if torch.device(device).type == "meta":  # where there are no values, and no memory
        return func(torch.empty_like(source, device="meta"), *args[1:], **kwargs)
    if isinstance(source, FakeTensor):  # to the host
        return session.part(Unknown).copied(source, dtype)
    out = session.pretend(source, dtype=dtype, memory_format=kwargs.get("memory_format"))
    session.log(func, args, kwargs, out)
    if not isinstance(source, nn.Parameter):
        session.mark(out, "label", "")
    if not session.part(Unknown).has(source):
        session.part(Values).copied(out, source)
    return out


@handles(aten.copy_.default)
def copy_(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    target, source = args[:2]
    if not isinstance(target, FakeTensor):
        known = session.part(Values).get(source)
        if known is None:  # what is there may be what went to the GPU before, as in DDP's reducer
            session.part(Unknown).add(target)
            return target
        if session.part(Values).likely(source):
            known = session.part(Unknown).copied(source, source.dtype)
        return session.part(Unknown).run(func, (target, known, *args[2:]), kwargs)
    if isinstance(source, FakeTensor) and source.device == target.device:
        return NotImplemented
    session.log(func, args, kwargs, target)
    session.part(Values).follow(func, args, kwargs, target)
    return target


def install(session: Session) -> None:
    """Let modules move between host and GPU, keeping each parameter the object that it is."""
    moved = _Moved()

    def apply(self: nn.Module, fn: Any, recurse: bool = True) -> nn.Module:
        if recurse:
            for child in self.children():
                child._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            with torch.no_grad():
                applied = _apply(fn, parameter)
            if applied is parameter:
                continue
            if isinstance(applied, FakeTensor) and isinstance(parameter, UninitializedTensorMixin):
                moved.lazily(parameter, applied)
            elif _is_pretended(parameter) or _is_pretended(applied):
                gradient = parameter.grad
                if gradient is not None:
                    with torch.no_grad():
                        gradient = fn(gradient)
                    parameter.grad = None
                moved.become(parameter, _parameter(parameter, applied))
                parameter.grad = gradient
                if isinstance(self, torch.jit.ScriptModule):
                    moved.script(self, name, parameter)
            elif not torch._has_compatible_shallow_copy_type(parameter, applied):  # from the meta device to the host
                self._parameters[name] = nn.Parameter(applied, parameter.requires_grad)
            else:
                parameter.data = applied
                if parameter.grad is not None:
                    with torch.no_grad():
                        parameter.grad.data = fn(parameter.grad)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                applied = _apply(fn, buffer)
                if isinstance(applied, FakeTensor) and isinstance(buffer, UninitializedTensorMixin):
                    moved.lazily(buffer, applied)
                    continue
                self._buffers[key] = applied
                if isinstance(applied, FakeTensor) and not isinstance(buffer, FakeTensor):
                    moved.buffer(self, key, buffer)
        return self

    materialize = UninitializedTensorMixin.materialize

    def materialize_(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        wanted = moved.lazy.pop(id(self), None)
        gradient = self.requires_grad
        materialize(self, shape, device, dtype)
        if wanted is not None:
            made = torch.empty(shape, dtype=dtype or wanted, device="cuda")
            moved.become(self, nn.Parameter(made, gradient) if isinstance(self, nn.Parameter) else made)

    resize = torch.UntypedStorage.resize_

    def resize_(storage: torch.UntypedStorage, size: int) -> Any:
        out = resize(storage, size)
        number = session.storages.number(storage)
        if number is not None:
            session.follow_stream()
            session.storages.resized(number, storage.nbytes())
            beside = session.part(Values).real
            if beside is not None:
                beside.resized(number, storage.nbytes())
        return out

    data: Any = torch.Tensor.data

    def set_data(tensor: torch.Tensor, value: torch.Tensor) -> None:
        """`p.data = p.data.cuda()`: a tensor of the host becomes one of the pretended GPU, or the other way."""
        if isinstance(tensor, FakeTensor) == isinstance(value, FakeTensor) or is_traceable_wrapper_subclass(value):
            data.__set__(tensor, value)
            return
        if tensor.is_leaf and tensor.grad is not None:
            text = (
                "gradients were dropped whose tensors went between host and GPU by `.data =`, where PyTorch keeps them"
            )
            session.note("gradient", text)
        if isinstance(tensor, nn.Parameter):
            moved.become(tensor, _parameter(tensor, value))
        else:
            moved.become(tensor, value.detach().requires_grad_(tensor.requires_grad))

    exchange: Any = torch.utils.swap_tensors

    def swap_tensors(t1: torch.Tensor, t2: torch.Tensor) -> None:
        """PyTorch's own, which refuses tensors that something has a weak reference to."""
        memo = session.fake.fake_tensor_converter.tensor_memo
        for key in [key for key, tensor in memo.items() if tensor is t1 or tensor is t2]:
            del memo[key]
        first, second = moved.forget(t1), moved.forget(t2)
        exchange(t1, t2)
        moved.remember(t2, first)
        moved.remember(t1, second)

    session.patches.set(torch.Tensor, "data", property(data.__get__, set_data))
    session.patches.set(torch.utils, "swap_tensors", swap_tensors)
    session.patches.set(torch.UntypedStorage, "resize_", resize_)
    session.patches.set(nn.Module, "_apply", apply)
    session.patches.set(UninitializedTensorMixin, "materialize", materialize_)
    session.patches.later(moved.restore)


def _parameter(like: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """A parameter of another's class, as of Params4bit, with this data."""
    kind = real(type(like))
    if kind in (FakeTensor, nn.Parameter) or is_traceable_wrapper_subclass(data):
        return nn.Parameter(data, like.requires_grad)
    return torch.Tensor._make_subclass(kind, data, like.requires_grad)


def _is_pretended(tensor: torch.Tensor) -> bool:
    """Whether a tensor, or a part of one of DTensor's kind, is on the pretended GPU: its data cannot be set."""
    return isinstance(tensor, FakeTensor) or (
        is_traceable_wrapper_subclass(tensor) and any(_is_pretended(part) for part in parts(tensor))
    )


def _apply(fn: Any, tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, UninitializedTensorMixin):  # which allows little to be done with it
        with torch._C.DisableTorchFunctionSubclass():
            return fn(tensor)  # type: ignore[no-any-return]
    return fn(tensor)  # type: ignore[no-any-return]


class _Moved:
    """Parameters and buffers of the user's that went to the GPU, to be put back at the end."""

    def __init__(self) -> None:
        self._parameters: list[tuple[weakref.ref[torch.Tensor], torch.Tensor]] = []
        self._buffers: list[tuple[weakref.ref[nn.Module], str, torch.Tensor]] = []
        self._scripted: list[tuple[weakref.ref[nn.Module], str, weakref.ref[torch.Tensor]]] = []
        self._own: set[str] = set()  # names of attributes of fake tensors
        self.lazy: dict[int, torch.dtype] = {}  # by id() of what has no shape yet, but is to be on the GPU

    def lazily(self, tensor: torch.Tensor, applied: torch.Tensor) -> None:
        """Take note that a parameter or buffer without a shape went to the GPU; it goes there when it has one."""
        self.lazy[id(tensor)] = applied.dtype

    def become(self, parameter: torch.Tensor, other: torch.Tensor) -> None:
        """Give a parameter the content of another, which gets its own."""
        was_real = not isinstance(parameter, FakeTensor)
        if was_real:
            self._own |= vars(other).keys()
        swap(parameter, other)
        self._keep(parameter, other)
        if was_real:
            self._parameters.append((weakref.ref(parameter), other))

    def forget(self, parameter: torch.Tensor) -> list[torch.Tensor]:
        """Let go of a parameter; returns what it was before it went to the GPU, if it did."""
        kept = [before for reference, before in self._parameters if reference() is parameter]
        self._parameters = [pair for pair in self._parameters if pair[0]() is not parameter]
        return kept

    def remember(self, parameter: torch.Tensor, kept: list[torch.Tensor]) -> None:
        """Have a parameter be put back to what it has got from another that was forgotten."""
        self._parameters += [(weakref.ref(parameter), before) for before in kept]

    def _keep(self, tensor: torch.Tensor, before: torch.Tensor) -> None:
        """Give a tensor the attributes that the program gave it, which its data has nothing to do with."""
        vars(tensor).update((name, value) for name, value in vars(before).items() if name not in self._own)

    def script(self, module: torch.jit.ScriptModule, name: str, parameter: torch.Tensor) -> None:
        """Tell TorchScript, which holds parameters by what is in them, of a parameter that has become another."""
        module._c.setattr(name, parameter)
        self._scripted.append((weakref.ref(module), name, weakref.ref(parameter)))

    def buffer(self, module: nn.Module, key: str, before: torch.Tensor) -> None:
        """Remember what a buffer was."""
        self._buffers.append((weakref.ref(module), key, before))

    def restore(self) -> None:
        """Give the user's model back what it had."""
        for reference, before in reversed(self._parameters):
            parameter = reference()
            if parameter is not None:
                parameter.grad = None
                swap(parameter, before)
                self._keep(parameter, before)
        for scripted, name, reference in self._scripted:
            parameter, script = reference(), scripted()
            if parameter is not None and isinstance(script, torch.jit.ScriptModule):
                script._c.setattr(name, parameter)
        for module_reference, key, before in reversed(self._buffers):
            module = module_reference()
            if module is not None and key in module._buffers:
                module._buffers[key] = before
        self._parameters.clear()
        self._scripted.clear()
        self._buffers.clear()


def swap(a: torch.Tensor, b: torch.Tensor) -> None:
    """Exchange what two tensor objects hold, as `torch.utils.swap_tensors` does.

    That function refuses where a weak reference to one of them exists, because it would then
    mean the other tensor; fake tensors always have one, from the table that made them, in which
    both entries are of this recording.
    """
    slots = set(copyreg._slotnames(type(a))) & set(copyreg._slotnames(type(b)))  # type: ignore[attr-defined]
    a.__class__, b.__class__ = b.__class__, a.__class__
    for name in slots:  # where DTensor keeps what it holds
        mine, other = getattr(a, name, None), getattr(b, name, None)
        setattr(a, name, other)
        setattr(b, name, mine)
    a.__dict__, b.__dict__ = b.__dict__, a.__dict__
    torch._C._swap_tensor_impl(a, b)

"""Copies between the host, whose tensors are real, and the pretended GPU."""

from __future__ import annotations

import copyreg
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..core.dispatch import Handler
from ..core.held import held
from ..core.patches import Patches
from ..core.subclasses import real
from ..core.tensors import parts
from .sparse import coo

if TYPE_CHECKING:
    from ..api.recorder import Recorder

aten = torch.ops.aten


def handlers(recorder: Recorder) -> dict[OpOverload, Handler]:
    """How calls that cross between host and GPU are answered."""

    def to_copy(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[0]
        device = kwargs.get("device")
        if device is None or isinstance(source, FakeTensor) == (torch.device(device).type == "cuda"):
            return NotImplemented
        dtype = kwargs.get("dtype") or source.dtype
        if source.layout is torch.sparse_coo and not isinstance(source, FakeTensor):
            return coo.copied(recorder, source, func, kwargs)
        held(source)  # which refuses other layouts
        if torch.device(device).type == "meta":  # where there are no values, and no memory
            return func(torch.empty_like(source, device="meta"), *args[1:], **kwargs)
        if isinstance(source, FakeTensor):  # to the host
            return recorder.unknown.copied(source, dtype)
        out = recorder.pretend(source, dtype=dtype, memory_format=kwargs.get("memory_format"))
        recorder.log(func, args, kwargs, out)
        if not isinstance(source, nn.Parameter):
            recorder.mark(out, "label", "")
        recorder.values.copied(out, source)
        return out

    def copy_(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, source = args[:2]
        if not isinstance(target, FakeTensor):
            known = recorder.values.get(source)
            if known is None:  # what is there may be what went to the GPU before, as in DDP's reducer
                recorder.unknown.add(target)
                return target
            if recorder.values.likely(source):
                known = recorder.unknown.copied(source, source.dtype)
            return recorder.unknown.run(func, (target, known, *args[2:]), kwargs)
        if isinstance(source, FakeTensor):
            return NotImplemented
        recorder.log(func, args, kwargs, target)
        recorder.values.follow(func, args, kwargs, target)
        return target

    return {aten._to_copy.default: to_copy, aten.copy_.default: copy_}


def install(recorder: Recorder, patches: Patches) -> None:
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
        number = recorder.storages.number(storage)
        if number is not None:
            recorder.follow_stream()
            recorder.storages.resized(number, storage.nbytes())
            if recorder.values.real is not None:
                recorder.values.real.resized(number, storage.nbytes())
        return out

    data: Any = torch.Tensor.data

    def set_data(tensor: torch.Tensor, value: torch.Tensor) -> None:
        """`p.data = p.data.cuda()`: a tensor of the host becomes one of the pretended GPU, or the other way."""
        if isinstance(tensor, FakeTensor) == isinstance(value, FakeTensor) or is_traceable_wrapper_subclass(value):
            data.__set__(tensor, value)
        elif isinstance(tensor, nn.Parameter):
            moved.become(tensor, _parameter(tensor, value))
        else:
            moved.become(tensor, value.detach().requires_grad_(tensor.requires_grad))

    patches.set(torch.Tensor, "data", property(data.__get__, set_data))
    patches.set(torch.UntypedStorage, "resize_", resize_)
    patches.set(nn.Module, "_apply", apply)
    patches.set(UninitializedTensorMixin, "materialize", materialize_)
    patches.later(moved.restore)


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

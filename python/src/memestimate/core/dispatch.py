"""The dispatch mode that sees every ATen call and runs those of the GPU on fake tensors."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._python_dispatch import TorchDispatchMode

from .kinds import Kinds
from .shape_cache import ShapeCache
from .tensors import tensors

if TYPE_CHECKING:
    from .session import Rules, Session

_NO_RULE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
    NotImplementedError,
)
_DEVICES = "Unhandled FakeTensor Device Propagation"
_NO_FAKE = "no fake impl registered"
_QUESTIONS = {"prim"}  # of a tensor: on which device it is, how large
_ROOM = 500  # calls: what PyTorch's fake tensors and a handler need
STAND_IN = torch.device("xla", 0)  # of tensors of the pretended GPU to C++, where a build has no CUDA (host.py)


class _RoomForCalls:
    """
    Lets Python call deeper than the program may.

    A program that recurses until Python stops it goes on behind its `except RecursionError`. Python must not stop it
    halfway through a line of the recording.
    """

    def __enter__(self) -> None:
        self._limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self._limit)  # raises where the program itself has no call left
        sys.setrecursionlimit(self._limit + _ROOM)

    def __exit__(self, *exc: object) -> None:
        sys.setrecursionlimit(self._limit)


def to_cuda(value: Any) -> Any:
    """A device as Python is to see it."""
    return torch.device("cuda", 0) if isinstance(value, torch.device) and value.type == "xla" else value


class PretendMode(FakeTensorMode):
    """Fake tensors that never touch a device, whatever ``torch.cuda.is_available`` says."""

    @property
    def avoid_device_init(self) -> bool:
        return True

    def create_symbolic_nested_int(self, *, nt_tensor_id: int | None = None) -> torch.SymInt:
        """The size of a ragged dimension: a number of its own for each tensor of offsets, as for real ones."""
        if nt_tensor_id is None:
            nt_tensor_id = self.nt_tensor_id_counter
            self.nt_tensor_id_counter += 1
        return torch._C._get_nested_int(nt_tensor_id, 1)


def _higher_order(func: HigherOrderOperator, capture: Capture, *args: Any, **kwargs: Any) -> Any:
    return capture.higher_order(func, args, kwargs)


class Capture(TorchDispatchMode):
    """Runs what touches the pretended GPU on fake tensors and logs it; the rest runs as it is.

    Tensors on the CPU stay real, so that a data loader, a tokenizer or a metric computes what it
    always computes; tensors on ``cuda`` are fake and have no values.
    """

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether Dynamo may compile within this mode."""
        return True

    def __init__(self, session: Session, rules: Rules) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._session, self._rules = session, rules
        self._handlers = rules.handlers
        self._fake = session.fake
        self.kinds = session.part(Kinds)
        self._process = os.getpid()
        self._by_host = session.by_host
        self._shapes = session.fake.__torch_dispatch__ if session.by_host else ShapeCache(session.fake, session.shared)
        self.number: int | None = None  # of the GPU that the program names, where it names one
        self._lock = threading.RLock()  # fake tensors say in one place for all threads that one of them is in a kernel
        self._composite: dict[OpOverload, bool] = {}
        if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):  # PyTorch before 2.9 asks each for a rule
            for op in torch._ops._higher_order_ops.values():
                op.python_key_table.setdefault(Capture, functools.partial(_higher_order, op))

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return self.higher_order(func, args, kwargs)
        if kwargs.get("pin_memory"):  # memory of the host, for which C++ starts the driver
            out = self.__torch_dispatch__(func, types, args, {**kwargs, "pin_memory": False})
            return self._session.pinned.add(out) if isinstance(out, torch.Tensor) else out
        if func is torch.ops.aten.is_pinned.default:  # as DDP's reducer does of what it copies to the GPU
            return self._session.pinned.has(args[0])
        if self._by_host:
            if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
                return STAND_IN
            args = tuple(to_cuda(a) for a in args)
            kwargs = {key: to_cuda(value) for key, value in kwargs.items()}
        if kwargs.get("device") is not None and self._session.world_size == 1:
            kwargs["device"] = self._named(torch.device(kwargs["device"]))
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
            return func(*args, **kwargs)  # PyTorch itself tries something out on fake tensors, as DTensor does
        pretended = False
        for kind in types:
            if issubclass(kind, FakeTensor):
                pretended = True
            elif kind is not torch.Tensor and not issubclass(kind, (torch.nn.Parameter, UninitializedTensorMixin)):
                return NotImplemented  # a tensor subclass: it comes again with what it holds
        # An ordinary tensor stands in `types` where C++ asks for its `.data` (TensorImpl::shallow_copy_and_detach).
        if not pretended and (not _on_gpu(args, kwargs) or os.getpid() != self._process):
            return self._rules.on_host(self._session, func, args, kwargs)
        with self._lock, _RoomForCalls():
            if self._session.gpus == 1:
                return self._on_gpu(func, types, args, kwargs)
            before = self._session.here
            self._session.here = self._of(args, kwargs)
            try:
                return self._on_gpu(func, types, args, kwargs)
            finally:
                self._session.here = before

    def _of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """The GPU on which a call makes its results."""
        devices = [kwargs.get("device"), *(t.device for t in tensors([*args, *kwargs.values()]))]
        return next((d.index or 0 for d in devices if d is not None and d.type == "cuda"), 0)

    def _named(self, device: torch.device) -> torch.device:
        """The GPU that a program means: where it gives no number, its current one.

        Raises
        ------
        RuntimeError
            There is no such GPU, or the process has one and uses another one, too.
        """
        if device.type != "cuda":
            return device
        if (gpus := self._session.gpus) > 1:
            here = self._session.here
            number = device.index if device.index is not None else here if here >= 0 else torch.cuda.current_device()
            if number >= gpus:
                raise RuntimeError(f"the program uses cuda:{number}: record it with --gpus {number + 1}")
            return torch.device("cuda", number)
        if device.index is None:
            return device
        if self.number is None:
            self.number = device.index
        if device.index not in (self.number, 0):  # tensors say that they are on cuda:0
            raise RuntimeError(
                f"the program uses cuda:{self.number} and cuda:{device.index}: "
                f"record it with --gpus {max(self.number, device.index) + 1}"
            )
        return torch.device("cuda", 0)

    def _on_gpu(self, func: OpOverload, types: Sequence[type], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call of the pretended GPU."""
        self.kinds.look()
        if func.namespace in _QUESTIONS:
            return self._fake.__torch_dispatch__(func, types, args, kwargs)
        if func.namespace == "c10d":
            return self._rules.collective(self._session, func, args, kwargs)
        if self._is_composite(func):
            with self:
                composite = self._session.composites.get(func)
                if composite is None:
                    return func.decompose(*args, **kwargs)
                return composite(self._session, *args, **kwargs)
        handler = self._handlers.get(func)
        if handler is not None:
            out = handler(self._session, func, args, kwargs)
            if out is not NotImplemented:
                return out
        family = self._rules.namespaces.get(func.namespace)
        if family is not None:
            out = family(self._session, func, args, kwargs)
            if out is not NotImplemented:
                return out
        try:
            out = self._shapes(func, types, args, kwargs)
        except _NO_RULE as error:
            return self._rules.no_shape(self._session, func, args, kwargs, error)
        except RuntimeError as error:
            if _DEVICES in str(error):  # in PyTorch's words for real tensors
                found = " and ".join(sorted({str(t.device) for t in tensors([*args, *kwargs.values()])}, reverse=True))
                text = f"Expected all tensors to be on the same device, but found at least two devices, {found}!"
                raise RuntimeError(text) from None
            if _NO_FAKE not in str(error):  # of torch.library.custom_op
                raise
            return self._rules.no_shape(self._session, func, args, kwargs, error)
        if out is not NotImplemented:
            self._session.log(func, args, kwargs, out)
            self._rules.followed(self._session, func, args, kwargs, out)
        return out

    def higher_order(self, func: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that takes functions, such as flex_attention, by the operators that it is made of."""
        keys = torch._C.DispatchKey
        kernel = func.py_kernels.get(keys.CompositeExplicitAutograd) or func.py_kernels.get(keys.CUDA)
        if kernel is None:
            raise RuntimeError(f"{func} cannot be recorded: it is not made of operators of ATen")
        with self:
            out = self._rules.higher_order(self._session, func, args)
            return kernel(*args, **kwargs) if out is NotImplemented else out

    def _is_composite(self, func: OpOverload) -> bool:
        """Whether an operator is made of others, which inference mode does not take apart itself."""
        known = self._composite.get(func)
        if known is None:
            keys = torch._C.DispatchKey
            known = self._composite[func] = bool(
                func.has_kernel_for_dispatch_key(keys.CompositeImplicitAutograd)
                and not func.has_kernel_for_dispatch_key(keys.CUDA)
            )
        return known


def _on_gpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call without fake tensors makes one: a factory, or a copy from the host."""
    device = kwargs.get("device")
    if device is None:
        for value in args:
            if isinstance(value, torch.device):
                device = value
    return device is not None and torch.device(device).type == "cuda"

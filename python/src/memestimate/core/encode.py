"""ATen arguments and tensor layouts as they stand in a recording."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from .held import held
from .storages import Storages
from .writer import Writer


class Encoder:
    """Turns the arguments and results of a call into JSON values, defining layouts as needed."""

    def __init__(self, writer: Writer, storages: Storages) -> None:
        self._writer = writer
        self._storages = storages
        self._ops: dict[tuple[OpOverload, str | None], int] = {}
        self._names: dict[OpOverload, list[str]] = {}  # of arguments

    def op(self, func: OpOverload, name: str | None = None) -> int:
        """The id of an operator; `name` stands for another one than `func`."""
        known = self._ops.get((func, name))
        if known is None:
            full = name or func._schema.name
            overload = func._overloadname if name is None else name.partition(".")[2] or "default"
            known = self._writer.define("op", (full, overload), full.partition(".")[0], overload)
            self._ops[func, name] = known
        return known

    def arguments(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """All arguments in the order of the schema; defaults at the end are left out."""
        values = [self.value(value) for value in args]
        if kwargs:
            names = self._names.get(func)
            if names is None:
                names = self._names[func] = [argument.name for argument in func._schema.arguments]
            last = max((names.index(name) for name in kwargs), default=-1)
            defaults = {a.name: a.default_value for a in func._schema.arguments}
            for name in names[len(args) : last + 1]:
                values.append(self.value(kwargs[name] if name in kwargs else defaults.get(name)))
        return values

    def value(self, value: Any) -> Any:
        """One argument: a tensor as ``"storage:layout"``, a number as itself, the rest as text."""
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return _number(value)
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if isinstance(value, str):
            return "'" + value
        encode = _WORDS.get(type(value))
        return encode(value) if encode is not None else f"!{type(value).__name__}"

    def tensor(self, tensor: torch.Tensor) -> str:
        """A tensor whose storage is known already, or which is not on the GPU."""
        meta = self.layout(tensor)
        if tensor.device.type != "cuda":
            return f"c:{meta}"
        return f"{self._storages.written(self._storages.of(tensor)[0])}:{meta}"

    def layout(self, tensor: torch.Tensor) -> int:
        """The id of a tensor's dtype, sizes, strides and offset (in elements); those of a sparse one's values."""
        tensor = held(tensor)[0]
        with torch._C.DisableTorchFunctionSubclass():  # a lazy layer's parameter refuses to say that it is empty
            sizes, strides = tuple(torch._C.TensorBase.size(tensor)), tensor.stride()
        offset = int(tensor.storage_offset())
        dtype = str(tensor.dtype)[6:]
        return self._writer.define("meta", (dtype, sizes, strides, offset), dtype, sizes, strides, offset)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "!nan" if math.isnan(value) else "!inf" if value > 0 else "!-inf"


_WORDS: dict[type, Callable[[Any], Any]] = {
    torch.dtype: lambda v: "!" + str(v)[6:],
    torch.layout: lambda v: "!" + str(v)[6:],
    torch.memory_format: lambda v: "!" + str(v)[6:],
    torch.device: lambda v: "!" + v.type,
    complex: lambda v: f"!complex {v}",
}

"""What calls give that are like others, for a third of what it costs PyTorch to look it up among fake tensors.

Rules of shapes give the same for arguments of the same types and layouts: `FakeTensorMode` keeps what they gave, too,
and makes the same of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .tensors import tensors

_make_subclass = torch.Tensor._make_subclass
_DIFFER = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view}
# Views of what lies beyond a tensor's own elements; constants, whose values fake tensors keep.
_OTHERS = {"aten::as_strided", "aten::lift", "aten::lift_fresh", "aten::lift_fresh_copy"}
_MODE = "fake_mode"  # which each recording has of its own
_COMMON = {"fake_device", _MODE}  # attributes of all fake tensors; others say what only one of them has


class _Result(NamedTuple):
    """A result: one of the arguments, a view of it, or a tensor with memory of its own."""

    of: int  # the argument; -1 for none
    same: bool
    dtype: torch.dtype
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    attributes: dict[str, Any] = {}  # noqa: RUF012 of a fake tensor


@dataclass(eq=False)
class Shared:
    """What recordings of a process have in common where GPU and PyTorch's settings are the same.

    Attributes
    ----------
    results
        What rules of shapes gave.
    """

    results: dict[tuple[Any, ...], _Result] = field(default_factory=dict)


class ShapeCache:
    """Runs calls by rules of shapes, once for all that have arguments of the same layouts.

    Parameters
    ----------
    mode
        Makes the fake tensors.
    shared
        What is known before, and will be afterwards.
    """

    def __init__(self, mode: FakeTensorMode, shared: Shared) -> None:
        self._mode, self._run = mode, mode.__torch_dispatch__
        self._known = shared.results
        self._kept: dict[OpOverload, bool] = {}  # whether what an operator gives can be kept

    def __call__(self, func: OpOverload, types: Sequence[type], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kept = self._kept.get(func)
        if kept is None:
            kept = self._kept[func] = (
                func.namespace == "aten" and func._schema.name not in _OTHERS and _DIFFER.isdisjoint(func.tags)
            )
        said: list[Any] = [func, torch.is_inference_mode_enabled(), torch.get_default_dtype()]
        mode = self._mode
        if not (kept and _say(said, args, mode) and (not kwargs or _say(said, (*kwargs, *kwargs.values()), mode))):
            return self._run(func, types, args, kwargs)
        key = tuple(said)
        result = self._known.get(key)
        if result is not None:
            return _make(result, args, mode)
        out = self._run(func, types, args, kwargs)
        result = _result(out, args, kwargs, mode)
        if result is not None:
            self._known[key] = result
        return out


def _say(said: list[Any], values: Sequence[Any], mode: FakeTensorMode) -> bool:
    """Say all that a rule of shapes reads of arguments; False where it may read more."""
    for value in values:
        if isinstance(value, FakeTensor):
            if value.constant is not None or value.layout is not torch.strided or value.is_conj() or value.is_neg():
                return False
            if value.fake_mode is not mode:
                return False
            said += (value.dtype, value.shape, value.stride(), value.storage_offset(), value.is_inference())
            said += (value.untyped_storage().nbytes(), value.fake_device)
        elif isinstance(value, (list, tuple)):
            said.append(len(value))
            if not _say(said, value, mode):
                return False
        elif isinstance(value, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool, torch.Generator)):
            return False
        else:
            said += (type(value), value)
    return True


def _result(out: Any, args: Sequence[Any], kwargs: dict[str, Any], mode: FakeTensorMode) -> _Result | None:
    """What makes another result like this one; None if that is not all that there is to it."""
    for i, value in enumerate(args):
        if value is out and isinstance(out, FakeTensor):
            return _Result(i, True, out.dtype)
    if type(out) is not FakeTensor or out.layout is not torch.strided or out.requires_grad:
        return None
    attributes = dict(vars(out))
    if any(value is not None for key, value in attributes.items() if key not in _COMMON):
        return None
    if attributes.pop(_MODE) is not mode:
        return None
    layout = *out.shape, *out.stride(), out.storage_offset()
    if not all(type(number) is int for number in layout):
        return None
    memory = out.untyped_storage()._cdata
    of = [t for t in tensors([*args, *kwargs.values()]) if t.untyped_storage()._cdata == memory]
    at = next((i for i, value in enumerate(args) if of and value is of[0]), -1)
    if len(of) > 1 or (of and at < 0) or (not of and layout[-1] != 0):
        return None
    result = _Result(at, False, out.dtype, tuple(out.shape), out.stride(), layout[-1], attributes)
    made = _make(result, args, mode)
    if made.untyped_storage().nbytes() != out.untyped_storage().nbytes():
        return None
    return result if torch._C._dispatch_key_set(made) == torch._C._dispatch_key_set(out) else None


def _make(result: _Result, args: Sequence[Any], mode: FakeTensorMode) -> Any:
    if result.same:
        return args[result.of]
    if result.of < 0:
        inner = torch.empty_strided(result.size, result.stride, dtype=result.dtype, device="meta")
    else:
        inner = torch.empty(0, dtype=result.dtype, device="meta")
        inner.set_(args[result.of].untyped_storage(), result.offset, result.size, result.stride)
    device = result.attributes["fake_device"]
    out = _make_subclass(FakeTensor, inner, False, dispatch_device=True, device_for_backend_keys=device)
    torch._C._set_throw_on_mutable_data_ptr(out)
    vars(out).update(result.attributes, **{_MODE: mode})
    return out

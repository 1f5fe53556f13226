"""Values that nobody knows, on the host: what the program copied from the pretended GPU, and what it makes of that.

A copy holds plausible values. It decides nothing as long as it is kept, saved or computed with; only when the program
asks for a number of it, for its elements that are set, or takes it to NumPy, is that an answer which was taken.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Session
from ..core.tensors import tensors
from .decisions import Decisions
from .shares import spread
from .usage import Usage
from .values import Values

aten = torch.ops.aten

_NEAR = 5  # among so many numbers that follow each other are some that divide, and some that do not
_FILLED = 1 << 20  # elements of a copy that are filled; larger ones stay zero, which takes no memory
_SHAPES = ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "new_empty", "empty_like")


class Unknown:
    """Which tensors on the host hold what nobody knows, by storage."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._lists: set[tuple[Any, ...]] = set()  # that Python was given of values which nobody knows
        self._others: dict[int, torch.Tensor] = {}  # by storage: what a copy's elements might be as well
        self._process = os.getpid()

    def _adding_up(self, sizes: Any, total: int) -> Any:
        """Sizes of parts; if Python was given them and they are not those of the whole, as even ones as there are."""
        if not isinstance(sizes, (list, tuple)) or tuple(sizes) not in self._lists or sum(sizes) == total:
            return sizes
        self._session.note("routing", f"{total} elements were taken to be split evenly into {len(sizes)} parts")
        return spread(total, torch.empty(len(sizes), dtype=torch.int64, device="cpu")).tolist()

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor on the host holds what nobody knows."""
        if not self._storages or isinstance(tensor, FakeTensor) or tensor.layout is not torch.strided:
            return False
        return type(tensor) in _PLAIN and tensor.untyped_storage()._cdata in self._storages

    def add(self, tensor: torch.Tensor) -> None:
        """Say that a tensor on the host holds what nobody knows."""
        if type(tensor) in _PLAIN and tensor.layout is torch.strided and not self.has(tensor):
            storage = tensor.untyped_storage()
            address = storage._cdata
            self._others.pop(address, None)
            self._storages[address] = weakref.ref(storage, lambda _: self._storages.pop(address, None))

    def copied(self, source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A copy on the host of a tensor of the pretended GPU."""
        values = self._session.part(Values)
        known = values.get(source)
        if known is not None and not values.likely(source):
            if not source.dtype.is_floating_point:
                self._session.part(Decisions).left()
            return known.to(dtype, copy=True)
        out = torch.zeros(source.shape, dtype=dtype, device="cpu") if known is None else known.to(dtype, copy=True)
        if known is None and source.numel() <= _FILLED:
            values.fill(out, source)
        self.add(out)
        if known is None and source.numel() <= _FILLED and isinstance(source, FakeTensor):
            other = values.structures.draw(source, other=True)
            if other is not None and self.has(out):
                self._others[out.untyped_storage()._cdata] = other.to(dtype)
        return out

    def _other(self, tensor: torch.Tensor, value: Any) -> torch.Tensor:
        """What the elements of a copy might be as well: a second draw, or numbers near to one that differ."""
        other = self._others.get(tensor.untyped_storage()._cdata)
        if other is not None and other.shape == tensor.shape:
            return other.to(tensor.dtype)
        out = torch.full(tensor.shape, value, dtype=tensor.dtype, device="cpu")
        if (
            tensor.numel() > 1
            and not tensor.dtype.is_floating_point
            and tensor.dtype is not torch.bool
            and value > _NEAR
        ):
            out -= torch.arange(tensor.numel(), device="cpu").reshape(tensor.shape) % _NEAR
        return out

    def run(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call on the host, and follow into what it writes values that nobody knows."""
        if not self._storages or os.getpid() != self._process:
            return func(*args, **kwargs)
        unknown = [t for t in tensors([list(args), list(kwargs.values())]) if self.has(t)]
        if not unknown:
            return func(*args, **kwargs)
        handler = _QUESTIONS.get(func)
        if handler is not None:
            return handler(self, func, args, kwargs)
        out = func(*args, **kwargs)
        if func._schema.name.removeprefix("aten::") not in _SHAPES:
            for tensor in tensors(out):
                self.add(tensor)
        return out

    def _scalar(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        answer = self._session.part(Decisions).going_on(func(*args, **kwargs))
        self._note(f"a value copied from the GPU was asked for and taken to be {answer}")
        return self._session.part(Decisions).answer(answer, "truth" if isinstance(answer, bool) else "number")

    def _equal(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args[0].shape != args[1].shape:
            return False
        answer = self._session.part(Decisions).going_on(True)
        self._note(f"two tensors of unknown values were taken to be {'equal' if answer else 'different'}")
        return self._session.part(Decisions).answer(answer, "truth")

    def _masked(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call whose result is as large as elements of a mask are set."""
        mask = args[1] if func is aten.masked_select.default else args[0]
        given: Sequence[Any] = args
        if func is aten.index.Tensor:
            masks = [t for t in args[1] if t is not None and t.dtype in (torch.bool, torch.uint8) and self.has(t)]
            if not masks:
                out = func(*args, **kwargs)
                self.add(out)
                return out
            mask = masks[0]
        if self.has(mask):
            count = int(mask.count_nonzero())
            rows = next((n for n in mask.shape if n > 1), 1)
            text = f"{count} of {mask.numel()} elements of a mask are set"
            other = self._session.part(Decisions).size(count, mask.numel() // rows, text, mask.numel())
            if other != count:
                changed = torch.zeros_like(mask)
                changed.view(-1)[:other] = 1
                given = _replaced(args, mask, changed)
        out = func(*given, **kwargs)
        self.add(out)
        self._session.part(Decisions).made(out)
        return out

    def _left(self, tensor: torch.Tensor, leave: Callable[[torch.Tensor], Any]) -> torch.Tensor | None:
        """What to give where values leave for Python, if it is not what the tensor holds."""
        with torch._C._DisableTorchDispatch():
            return self._asked(tensor, leave)

    def _asked(self, tensor: torch.Tensor, leave: Callable[[torch.Tensor], Any]) -> torch.Tensor | None:
        if tensor.numel() == 0:
            return None
        before = tensor.detach().flatten()[0].item()
        first = self._session.part(Decisions).going_on(before)
        if tensor.numel() == 1:
            self._note(f"a value copied from the GPU was asked for and taken to be {first}")
        else:
            drawn = tensor.untyped_storage()._cdata in self._others
            what = "drawn from what they can be" if drawn else "taken to be plausible ones"
            text = f"{tensor.numel()} values copied from the GPU were {what}, the first {first}"
            self._session.part(Decisions).took(text)
        kind = "truth" if isinstance(first, bool) else "number"
        changed = self._session.part(Decisions).answer(first, kind)
        if changed is before or changed == before:  # NaN equals nothing
            return None
        return self._other(tensor, changed)

    def _note(self, text: str) -> None:
        if self._session.part(Decisions).usage() is not Usage.SHOWN:
            self._session.note("host", text)


def install(session: Session) -> None:
    """Ask what becomes of values where they leave for Python or NumPy."""
    unknown = session.part(Unknown)
    to_numpy, to_list = torch.Tensor.numpy, torch.Tensor.tolist

    def numpy(tensor: torch.Tensor, *, force: bool = False) -> Any:
        if not unknown.has(tensor):
            return to_numpy(tensor, force=force)
        other = unknown._left(tensor, to_numpy)
        if other is not None:  # an array shares its memory with the tensor, as it always does
            with torch._C._DisableTorchDispatch():
                tensor.detach().copy_(other)
        return to_numpy(tensor, force=force)

    def tolist(tensor: torch.Tensor) -> Any:
        if isinstance(tensor, FakeTensor):
            return tolist(tensor.detach().cpu())
        if not unknown.has(tensor):
            return to_list(tensor)
        other = unknown._left(tensor, to_list)
        found = to_list(tensor if other is None else other)
        if tensor.dim() == 1 and not tensor.dtype.is_floating_point:
            unknown._lists.add(tuple(found))
        return found

    session.patches.set(torch.Tensor, "numpy", numpy)
    session.patches.set(torch.Tensor, "tolist", tolist)
    session.patches.set(FakeTensor, "tolist", tolist)  # which asks for one element after the other
    split: Callable[..., Any] = torch.Tensor.split

    def split_evenly(tensor: torch.Tensor, split_size: Any, dim: int = 0) -> Any:
        return split(tensor, unknown._adding_up(split_size, tensor.shape[dim]), dim)

    session.patches.set(torch.Tensor, "split", split_evenly)


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_Question = Callable[[Unknown, OpOverload, tuple[Any, ...], dict[str, Any]], Any]
_QUESTIONS: dict[OpOverload, _Question] = {
    aten._local_scalar_dense.default: Unknown._scalar,
    aten.equal.default: Unknown._equal,
    **dict.fromkeys((aten.nonzero.default, aten.masked_select.default, aten.index.Tensor), Unknown._masked),
}


def _replaced(args: tuple[Any, ...], old: torch.Tensor, new: torch.Tensor) -> tuple[Any, ...]:
    swap = [[new if t is old else t for t in a] if isinstance(a, list) else new if a is old else a for a in args]
    return tuple(swap)


def on_host(session: Session, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a call of the host's tensors."""
    return session.part(Unknown).run(func, args, kwargs)

"""Values on the pretended GPU: those that are known, and plausible answers for the rest.

Tensors there have none, but a program that asks for one must get an answer. What a small tensor
holds is followed as long as it comes from the host or from constants alone: a mask, lengths,
positions. Everything else is answered by a rule, and the answer is noted in the recording,
because the step that is recorded depends on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.session import Call, Session
from ..core.tensors import tensors
from .chance import Chance
from .compared import Compared
from .draws import Draws
from .facts import Known, Of, facts, forget_value, known
from .guesses import Guesses
from .masks import Room, is_mask, is_zeros_and_ones, set_in, view_of
from .origins import Origins
from .real import Real
from .shares import Shares, spread
from .structure import Structures

_SMALL = 1 << 16  # elements of a mask whose values are followed where they follow from what it says of each
_SMALL_FLOAT = 1 << 14  # the same for floating point, which seldom decides anything
_COPIED = 1 << 20  # elements of integers and of masks: indices, lengths, tokens, who attends to whom
_COUNTED = 1 << 24  # elements of a mask, from the host or made of known values: of most is asked how many are set
_MADE = 1 << 28  # bytes on the host of those that were made, at a time
_HOLES = 64  # parts of a storage of which it is followed that they are not known

# What an operator gives whatever its first argument holds.
_CONSTANT = ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "zero_", "fill_")
_UNKNOWN = ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted")
# Why values are only likely.
_UPDATED, _DRAWN = "parameters before their update", "random numbers"
_SUCCEEDED = "a factorization that succeeds"
_BOTH = ("logical_and", "bitwise_and", "mul")
_EITHER = ("logical_or", "bitwise_or")
_WHOLE = (torch.int64, torch.int32)
# A gradient scaler's step in which no gradient overflowed: what it writes is what was there.
_FINITE = {"aten::_amp_foreach_non_finite_check_and_unscale_": [0], "aten::_amp_update_scale_": []}


class Values:
    """Values by tensor, forgotten when the tensor's storage is written by something unknown."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._epochs: dict[int, int] = {}  # by storage: grows when all of it is forgotten, by more than it has holes
        self._holes: dict[int, list[tuple[int, int]]] = {}  # by storage: bytes that were written by something unknown
        self._pure: dict[OpOverload, bool] = {}
        self._written: dict[OpOverload, list[int]] = {}
        self.real = Real(session) if session.way == "real-cpu" else None
        self.origins = Origins(self)
        self.shares = Shares(self)
        self.guesses = Guesses(self)
        self.structures = Structures(self)
        self._compared = Compared(self)
        self._draws = Draws()
        self._made = Room(_MADE)
        self.routed = False  # choices were counted, which nobody knows
        self.skewed = False  # they are to be as uneven as can be
        self.all_set = False  # of masks that nobody knows all elements are, by what PyTorch itself asks there

    def get(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What a tensor holds, as a tensor on the host; None if that is not known."""
        if not isinstance(tensor, FakeTensor):
            return tensor if tensor.device.type == "cpu" else None
        if self.real is not None:
            return self.real.of(tensor)
        held = self._held(tensor)
        if held is not None and (holes := self._holes.get(self.serial(tensor))):
            first, last = _extent(tensor)
            if any(first < end and begin < last for begin, end in holes):
                return None
        return held

    def _held(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What a tensor on the pretended GPU holds, where some of its elements may not be known."""
        value = known(tensor).value
        return None if value is None or value.epoch != self._epochs.get(self.serial(tensor), 0) else value.fact

    def _forget(self, tensor: torch.Tensor) -> None:
        """Something unknown was written into a tensor: forget its elements, or its storage if those are too many."""
        serial = self.serial(tensor)
        holes = self._holes.setdefault(serial, [])
        if tensor.layout is torch.strided and len(holes) < _HOLES - 1:
            first, last = _extent(tensor)
            if last - first < tensor.untyped_storage().nbytes():
                holes.append((first, last))
                return
        del self._holes[serial]
        self._epochs[serial] = self._epochs.get(serial, 0) + _HOLES

    def likely(self, tensor: torch.Tensor) -> str:
        """Why what is known of a tensor is only likely: it is drawn, or of before an update; "" if it is certain."""
        return known(tensor).likely if isinstance(tensor, FakeTensor) else ""

    def set(self, tensor: torch.Tensor, value: torch.Tensor, likely: str = "") -> None:
        """Say what a tensor holds, and why that is only likely, if it is."""
        if (
            self.real is None
            and isinstance(tensor, FakeTensor)
            and tensor.shape == value.shape
            and tensor.dtype == value.dtype
        ):
            of = facts(tensor)
            of.value, of.likely = Of(value, self._epochs.get(self.serial(tensor), 0)), likely

    def written(self, tensor: torch.Tensor, value: torch.Tensor | None) -> None:
        """A tensor was written by something that nobody sees; None where what is not known."""
        if self.real is not None:
            if value is not None:
                self.real.of(tensor).copy_(value)
        elif isinstance(tensor, FakeTensor):
            serial = self.serial(tensor)
            self._epochs[serial] = self._epochs.get(serial, 0) + _HOLES
            self._holes.pop(serial, None)
            if value is not None:
                self.set(tensor, value)

    def copied(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """A tensor has come from the host."""
        if source.device.type != "cpu" or source.numel() > _COUNTED or isinstance(source, FakeTensor):
            return
        if source.numel() > _COPIED:
            if source.layout is torch.strided and (is_mask(source) or is_zeros_and_ones(source)):
                self.set(tensor, source.detach().to(tensor.dtype).clone())
            return
        if not source.dtype.is_floating_point or source.numel() <= _SMALL_FLOAT or is_zeros_and_ones(source):
            self.set(tensor, source.detach().to(tensor.dtype).clone())
        else:
            self._compared.keep(tensor, source)

    def follow(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        """Compute what a call gives, if all that it reads is known."""
        if self.real is not None:
            return
        written = self._written.get(func)
        if written is None:
            arguments = func._schema.arguments
            written = [i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
            self._session.part(Chance).scaled |= func._schema.name in _FINITE
            written = _FINITE.get(func._schema.name, written)
            self._written[func] = written
        first = out if isinstance(out, torch.Tensor) else None
        if first is None and isinstance(out, (list, tuple)) and out and isinstance(out[0], torch.Tensor):
            first = out[0]
        if isinstance(first, FakeTensor) and first.numel() == 1:
            self.guesses.follow(first, func, args, kwargs)
        if isinstance(first, FakeTensor) and first.dtype in _WHOLE:
            self.guesses.move(first, func, args)
        share = self.shares.read(func, args, kwargs, out)
        origin = self.origins.read(func, args)
        held = self._held(args[0]) if func.is_view and args and isinstance(args[0], FakeTensor) else None
        followed = first is not None and (held is not None or self._is_followed(first, out, args, share))
        real: Any = None
        if followed and self.is_pure(func):
            constant = func._schema.name.removeprefix("aten::") in _CONSTANT
            real = [held] if held is not None else self._real([*args[:1]], constant)
            rest = None if real is None else self._real([*args[1:]], False)
            real = None if real is None or rest is None else real + rest
        keywords = None if real is None else self._real(kwargs, False)
        if real is not None and keywords is not None:
            self._share_memory(func, args, real, written)
        for position in written:
            for tensor in tensors(args[position] if position < len(args) else list(kwargs.values())):
                if isinstance(tensor, FakeTensor):
                    if real is not None and position < len(real) and real[position] is self.get(tensor):
                        continue  # what is known of this storage, by whatever view, is written, too
                    serial = self.serial(tensor)
                    before = self.get(tensor) if self._session.phases.phase == "optimizer" else None
                    self._forget(tensor)
                    if before is not None and self._session.storages.kinds.get(serial, ("", ""))[0] == "parameter":
                        self.set(tensor, before, _UPDATED)  # a step moves it by little
        if share != Known():
            self.shares.write(share, out)
        self.structures.follow(func, args, kwargs, out)
        if origin is not None:
            self.origins.write(origin, out)
        if real is None or keywords is None:
            self._succeeded(func, out)
            wide = view_of(self.get(args[0]), func, args, kwargs) if is_mask(out) and is_mask(args[0]) else None
            if wide is not None:
                self.set(out, wide, self.likely(args[0]))
                return
            if isinstance(first, FakeTensor) and self._draw(first, func, args, kwargs):
                return
            settled = self._compared.follow(func, args, kwargs, out)
            likely = "" if settled is None else self.likely(args[0])
            if settled is None:
                settled = self._settled(func, args, out)
            if settled is not None:
                self.set(out, settled, likely)
                return
            counts = self.shares.counts(func, args, kwargs, out)
            if counts is not None and counts.numel() <= _SMALL:
                self.note_spread(args[0], int(counts.sum()))
                self.set(out, counts)
            return
        if isinstance(keywords.get("device"), torch.device):
            keywords["device"] = torch.device("cpu")
        real = [torch.device("cpu") if isinstance(a, torch.device) else a for a in real]
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = func(*real, **keywords)
        except (RuntimeError, TypeError, ValueError, IndexError):
            for tensor in tensors([args[position] for position in written if position < len(args)]):
                forget_value(tensor)
                self._forget(tensor)
            return
        likely = max(map(self.likely, tensors([list(args), list(kwargs.values())])), default="")
        for fake, value in zip(tensors(out), tensors(result), strict=False):
            self.set(fake, value, likely)
            if value.numel() > _COPIED and value.layout is torch.strided:
                self._made.add(value)

    def _draw(self, out: torch.Tensor, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        """Keep what a call draws, if it draws something; as data, where it is too much to follow."""
        follows = out.numel() <= _limit(out)
        if not follows and (out.numel() > _COPIED or out.requires_grad):
            return False
        drawn = self._draws.draw(func, args, kwargs, self._real)
        if drawn is not None and (follows or is_zeros_and_ones(drawn)):
            self.set(out, drawn, _DRAWN)
        elif drawn is not None:
            self._compared.keep(out, drawn, _DRAWN)
        return drawn is not None

    def _succeeded(self, func: OpOverload, out: Any) -> None:
        """A factorization says in `info` whether it failed, which is zero where it did not."""
        for i, result in enumerate(func._schema.returns):
            if result.name == "info" and isinstance(out, (list, tuple)) and out[i].numel() <= _SMALL:
                zeros = torch.zeros(out[i].shape, dtype=out[i].dtype, device="cpu")
                self.set(out[i], zeros, _SUCCEEDED)

    def _is_followed(self, out: torch.Tensor, results: Any, args: Sequence[Any], share: Known) -> bool:
        """Whether what a call gives is small, or follows from a mask that is followed, as what is added to scores.

        A larger mask, be it of numbers, is followed while those that were made before leave room.
        """
        if out.numel() <= _limit(out):
            return True
        given = [t for t in tensors(args) if t.numel() > 1]
        if not given or any(self.get(t) is None for t in given):
            return False
        if out.numel() > _COPIED:
            masks = share.mask or all(map(is_mask, tensors(results)))
            return masks and out.numel() <= _COUNTED and self._made.has_room(out.numel() * out.element_size())
        return max(t.numel() for t in given) > _SMALL_FLOAT

    def _share_memory(self, func: OpOverload, args: Sequence[Any], real: list[Any], written: list[int]) -> None:
        """Let a view's value be a view of the value, and a write go into the value itself.

        All that is known of a storage then lies in one storage on the host.
        """
        schema = func._schema
        views = [
            position
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and not argument.alias_info.is_write
        ]
        for position in [*views, *written]:
            if position < len(args) and isinstance(args[position], FakeTensor):
                known = self._held(args[position]) if position in views else self.get(args[position])
                if known is not None:
                    real[position] = known

    def _settled(self, func: OpOverload, args: Sequence[Any], out: Any) -> torch.Tensor | None:
        """What one operand decides alone: zero and anything is zero, true or anything is true."""
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name not in _EITHER + _BOTH or out.dtype.is_floating_point or out.numel() > _SMALL:
            return None
        for operand in args[:2]:
            known = self.get(operand) if isinstance(operand, torch.Tensor) else None
            if known is None:
                continue
            if name in _BOTH and not known.any():
                return torch.zeros(out.shape, dtype=out.dtype, device="cpu")
            if name in _EITHER and out.dtype is torch.bool and known.all():
                return torch.ones(out.shape, dtype=out.dtype, device="cpu")
        return None

    def note_spread(self, mask: torch.Tensor, count: int) -> None:
        """Note that nobody knows which elements of a mask are set, only how many."""
        text = f"of {list(mask.shape)} elements {count} were taken to be set, spread evenly"
        self._session.note("routing", text)
        self.routed = True

    def _real(self, values: Any, shapes_only: bool) -> Any:
        """Arguments with each tensor replaced by what it holds; None if one is not known."""
        if isinstance(values, torch.Tensor):
            known = self.get(values)
            if known is None and shapes_only:  # of a large one nothing but its shape and type is asked
                few = values.numel() <= _COPIED
                known = torch.empty(values.shape if few else (), dtype=values.dtype, device="cpu")
                return known if few else known.expand(values.shape)
            if known is None or known.numel() > _COUNTED:
                return None
            # A copy, since the call may write into it; a large one is forgotten then.
            return known if known.numel() > _COPIED else known.clone()
        if isinstance(values, dict):
            found = {key: self._real(value, shapes_only) for key, value in values.items()}
            return None if any(found[key] is None and values[key] is not None for key in found) else found
        if isinstance(values, (list, tuple)):
            items = [self._real(value, shapes_only) for value in values]
            if any(item is None and value is not None for item, value in zip(items, values, strict=True)):
                return None
            return items
        return values

    def is_pure(self, func: OpOverload) -> bool:
        """Whether what an operator gives follows from its arguments."""
        known = self._pure.get(func)
        if known is None:
            name = func._schema.name.removeprefix("aten::")
            known = self._pure[func] = (
                torch.Tag.nondeterministic_seeded not in func.tags and name not in _UNKNOWN and func.namespace == "aten"
            )
        return known

    def serial(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage."""
        return self._session.storages.of_address(tensor)

    def epoch(self, tensor: torch.Tensor) -> int:
        """A number that grows with each write into a tensor's storage of something unknown, be it into a part."""
        serial = self.serial(tensor)
        return self._epochs.get(serial, 0) + len(self._holes.get(serial, ()))

    def fill(self, out: torch.Tensor, source: torch.Tensor) -> None:
        """Write into `out`, on the host, what the unknown values of `source` are taken to be."""
        if source.numel() == 1:
            out.fill_(self.guesses.of(source).value)
        elif source.dtype is torch.bool:
            out.copy_(spread(self.taken_count(source), source))
        elif isinstance(source, FakeTensor) and (drawn := self.structures.draw(source)) is not None:
            out.copy_(drawn)
        elif self.shares.of(source).choices != 1:  # there is no second one to choose
            out.fill_(1)

    def taken_count(self, mask: torch.Tensor) -> int:
        """How many elements of a mask are taken not to be zero: all of them, where nothing is known."""
        known, share = self.get(mask), self.shares.of(mask)
        if known is not None and not (share.most and self.likely(mask)):
            return set_in(known)
        return mask.numel() if share.taken is None else round(mask.numel() * share.taken)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The bytes of its storage between which a tensor's elements lie."""
    if tensor.numel() == 0:
        return 0, 0
    first = int(tensor.storage_offset())
    last = sum(int((size - 1) * stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first * tensor.element_size(), (first + last + 1) * tensor.element_size()


def _limit(tensor: torch.Tensor) -> int:
    return _SMALL_FLOAT if tensor.dtype.is_floating_point else _COPIED


def logged(session: Session, call: Call) -> None:
    """Do with real values what a call did."""
    real = session.part(Values).real
    if real is not None:
        real.run(call.func, call.args, call.kwargs, call.out, set(call.made))


def followed(session: Session, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
    """Follow what a call gives."""
    session.part(Values).follow(func, args, kwargs, out)


def launched(session: Session, changed: Sequence[torch.Tensor]) -> None:
    """Forget what a kernel has written that is no operator."""
    for tensor in changed:
        session.part(Values).written(tensor, None)

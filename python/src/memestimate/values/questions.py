"""What programs ask of values that nobody knows: the answers, and how large results are that depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.dispatch import Handler
from .guesses import Guess
from .shares import spread
from .usage import Usage

if TYPE_CHECKING:
    from ..api.recorder import Recorder

aten = torch.ops.aten

_COPIED = 1 << 20  # elements of integers: indices, lengths, tokens
_ALL, _EVEN = "masks with all elements set", "values as different as they can be"


class Questions:
    """Operators whose answer, or whose result's size, is a matter of values."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._values = recorder.values

    def handlers(self) -> dict[OpOverload, Handler]:
        """Operators whose answer, or whose result's size, is a matter of values."""
        found: dict[OpOverload, Handler] = {
            aten._local_scalar_dense.default: self._scalar,
            aten.equal.default: self._equal,
            aten.allclose.default: self._close,
            aten.nonzero.default: self._nonzero,
            aten.masked_select.default: self._masked_select,
            aten.index.Tensor: self._index,
            aten.bincount.default: self._bincount,
            aten._assert_async.default: self._nothing,
            aten._assert_async.msg: self._nothing,
        }
        for op in (aten._unique2.default, aten.unique_dim.default, aten.unique_consecutive.default):
            found[op] = self._unique
        return found

    def _nothing(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return None

    def _scalar(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        known = self._values.get(tensor)
        likely = self._values.likely(tensor)
        if known is not None and not likely:
            return known.item()
        guess = self._values.guesses.of(tensor) if known is None else Guess(known.item(), likely)
        answer: Any = guess.value
        decisions = self._recorder.decisions
        if guess.counted is not None:
            text = f"{answer} elements of a mask are set"
            answer = decisions.size(int(answer), self._fewer(guess.counted), text, guess.counted.numel())
        elif guess.made_by == "any" and not guess.sane and decisions.usage() is Usage.BRANCH:
            answer = True  # as where it is indexed by such a mask; a check for what should not be is no branch
        answer = decisions.going_on(answer)
        of = f" (result of {guess.made_by})" if guess.made_by else ""
        text = f"a value was asked for and taken to be {answer}{of}: recorded with real values it would be the real one"
        self._recorder.note("item", text)
        if guess.counted is None and not guess.sane:
            answer = decisions.answer(answer, "truth" if isinstance(answer, bool) else "number", guess.span)
        return answer

    def _equal(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Whether two tensors are equal: those of one shape are compared, and the GPU asked (cuda/Equal.cpp)."""
        x, y = args
        a, b = self._values.get(x), self._values.get(y)
        known = a if b is None else b
        if (a is None or b is None) and known is not None and known.dtype is torch.bool and known.numel() == 1:
            # is_scalar_tensor_true of TensorSubclassLikeUtils.h, which asks for the value where no fake tensors are.
            return bool(known.item()) == self._scalar(aten._local_scalar_dense.default, (x if a is None else y,), {})
        if x.shape != y.shape or x.numel() == 0 or _same(x, y):
            return bool(x.shape == y.shape)
        if x.layout is torch.strided:
            with self._recorder.capture:
                torch.eq(x, y).all()
        if a is not None and b is not None:
            return torch.equal(a, b)
        answer = self._recorder.decisions.going_on(True)
        text = "equal" if answer else "different"
        self._recorder.note("equal", f"two tensors of unknown values were taken to be {text}")
        return self._recorder.decisions.answer(answer, "truth")

    def _close(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`allclose` asks for the value of what `isclose` gives (TensorCompare.cpp)."""
        with self._recorder.capture:
            return bool(torch.isclose(*args, **kwargs).all())

    def _count(self, mask: torch.Tensor) -> int:
        """How many elements of a mask are not zero, which decides about the size of a tensor."""
        count, share = self._values.taken_count(mask), self._values.shares.of(mask)
        if self._values.get(mask) is not None and not (share.most and self._values.likely(mask)):
            if self._values.likely(mask) and 0 < count < mask.numel():
                text = f"{count} of {mask.numel()} elements of a mask are set: {self._values.likely(mask)}"
                self._recorder.note("nonzero", f"as many elements of masks are set as {self._values.likely(mask)} say")
                return self._recorder.decisions.size(count, min(2 * count, mask.numel()), text, mask.numel())
            return count
        if self._values.all_set:
            return mask.numel()
        if share.share is not None and share.most:
            text = f"at most {count} of {mask.numel()} elements of a mask"
            self._recorder.note("nonzero", f"{text} can be set, and were taken to be: an upper bound")
            return self._recorder.decisions.size(count, min(count, self._fewer(mask)), f"{text} are set", count)
        if share.share is not None:
            self._values.note_spread(mask, count)
            if count in (0, mask.numel()):  # where nothing is strange, as `isnan` asks
                return count
            text = f"{count} of {mask.numel()} elements of a mask are set, spread evenly"
            return self._recorder.decisions.size(count, min(2 * count, mask.numel()), text, mask.numel())
        self._recorder.note("nonzero", f"all of {count} elements of a mask were taken to be set: an upper bound")
        text = f"all of {count} elements of a mask are set"
        return self._recorder.decisions.size(count, self._fewer(mask), text, count)

    def _fewer(self, mask: torch.Tensor) -> int:
        """Another count: one row's, so that what is made of it can still be folded as the mask's rows are."""
        rows = next((n for n in mask.shape if n > 1), 1)
        return mask.numel() // rows

    def _nonzero(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mask = args[0]
        count = self._count(mask)
        out = self._recorder.empty((count, mask.dim()), torch.int64, (1, max(count, 1)))
        self._recorder.log(func, args, kwargs, out)
        self._recorder.decisions.made(out)
        origin = self._values.origins.read(func, args)
        if origin is not None:
            self._values.origins.write(origin, out)
        known = self._values.get(mask)
        if known is not None and known.numel() <= _COPIED:
            self._values.set(out, known.nonzero(), self._values.likely(mask))
        elif count == mask.numel() <= _COPIED:  # then it is known which they are
            self._values.set(out, torch.ones(mask.shape, dtype=torch.bool, device="cpu").nonzero(), _ALL)
        return out

    def _masked_select(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source, mask = args
        shape = torch.broadcast_shapes(source.shape, mask.shape)
        count = self._count(mask) * (shape.numel() // max(mask.numel(), 1))
        out = self._recorder.empty((count,), source.dtype)
        self._recorder.log(func, args, kwargs, out)
        self._recorder.decisions.made(out)
        self._values.follow(func, args, kwargs, out)
        return out

    def _index(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source, indices = args
        if not any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in indices):
            return NotImplemented
        places: list[torch.Tensor | None] = []
        for index in indices:
            if index is not None and index.dtype in (torch.bool, torch.uint8):
                count = self._count(index)
                places += [self._recorder.empty((count,), torch.int64) for _ in range(index.dim())]
            else:
                places.append(index)
        out = self._recorder.fake.__torch_dispatch__(func, (FakeTensor,), (source, places), {})
        assert isinstance(out, torch.Tensor)
        self._recorder.log(func, args, kwargs, out)
        self._recorder.decisions.made(out)
        self._values.follow(func, args, kwargs, out)
        return out

    def _bincount(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        choices = self._values.shares.of(args[0]).choices
        if self._values.get(args[0]) is not None or not choices or (len(args) > 1 and args[1] is not None):
            return NotImplemented
        minimum = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
        out = self._recorder.empty((max(choices, minimum),), torch.int64)
        self._recorder.log(func, args, kwargs, out)
        self._values.note_spread(args[0], args[0].numel())
        self._values.set(out, spread(args[0].numel(), out))
        return out

    def _unique(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = self._values.get(args[0])
        if known is None and self._values.shares.of(args[0]).share == 0.0:
            known = torch.zeros(args[0].shape, dtype=args[0].dtype, device="cpu")
        if known is not None:
            results = func(known, *args[1:], **kwargs)
        else:
            count, choices = args[0].numel(), self._values.shares.of(args[0]).choices
            count = min(count, choices) if choices else count
            self._recorder.note("unique", f"all of {count} elements were taken to be different")
            taken = self._recorder.decisions.size(count, 1, f"all of {count} values are different", count)
            values = torch.arange(args[0].numel(), device="cpu") % max(taken, 1)
            results = func(values.reshape(args[0].shape).to(args[0].dtype), *args[1:], **kwargs)
        out = tuple(self._recorder.empty(t.shape, t.dtype, t.stride()) for t in results)
        self._recorder.log(func, args, kwargs, out)
        if known is not None:
            for fake, value in zip(out, results, strict=True):
                self._values.set(fake, value)
        else:
            self._recorder.decisions.made(out[0])
            for fake, value in zip(out[1:], results[1:], strict=True):  # numbers of values that are there, and how many
                self._values.set(fake, value, _EVEN)
        return out


def _same(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors are the same elements of one storage."""
    if x.layout is not torch.strided or y.layout is not torch.strided:
        return x is y
    alike = x.dtype == y.dtype and x.stride() == y.stride() and x.storage_offset() == y.storage_offset()
    return alike and x.untyped_storage()._cdata == y.untyped_storage()._cdata

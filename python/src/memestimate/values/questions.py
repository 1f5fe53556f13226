"""What programs ask of values that nobody knows: the answers, and how large results are that depend on them."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Session
from .decisions import Decisions
from .facts import Guess
from .usage import Usage
from .values import Values

aten = torch.ops.aten
handles: Table[Handler] = Table("questions")

_COPIED = 1 << 20  # elements of integers: indices, lengths, tokens
_ALL, _EVEN = "masks with all elements set", "values as different as they can be"


@handles(aten._assert_async.default, aten._assert_async.msg)
def _nothing(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    return None


@handles(aten._local_scalar_dense.default)
def _scalar(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    tensor = args[0]
    known = session.part(Values).get(tensor)
    likely = session.part(Values).likely(tensor)
    if known is not None and not likely:
        session.part(Decisions).left()
        return known.item()
    guess = session.part(Values).guesses.of(tensor) if known is None else Guess(known.item(), likely)
    answer: Any = guess.value
    decisions = session.part(Decisions)
    if guess.counted is not None:
        text = f"{answer} elements of a mask are set"
        answer = decisions.size(int(answer), _fewer(guess.counted), text, guess.counted.numel())
    elif guess.made_by == "any" and not guess.sane and decisions.usage() is Usage.BRANCH:
        answer = True  # as where it is indexed by such a mask; a check for what should not be is no branch
    answer = decisions.going_on(answer)
    of = f" (result of {guess.made_by})" if guess.made_by else ""
    text = f"a value was asked for and taken to be {answer}{of}: recorded with real values it would be the real one"
    session.note("item", text)
    if guess.counted is None and not guess.sane:
        answer = decisions.answer(answer, "truth" if isinstance(answer, bool) else "number", guess.span)
    return answer


@handles(aten.equal.default)
def _equal(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """Whether two tensors are equal: those of one shape are compared, and the GPU asked (cuda/Equal.cpp)."""
    x, y = args
    a, b = session.part(Values).get(x), session.part(Values).get(y)
    known = a if b is None else b
    if (a is None or b is None) and known is not None and known.dtype is torch.bool and known.numel() == 1:
        # is_scalar_tensor_true of TensorSubclassLikeUtils.h, which asks for the value where no fake tensors are.
        return bool(known.item()) == _scalar(session, aten._local_scalar_dense.default, (x if a is None else y,), {})
    if x.shape != y.shape or x.numel() == 0 or _same(x, y):
        return bool(x.shape == y.shape)
    if x.layout is torch.strided:
        with session.capture:
            torch.eq(x, y).all()
    if a is not None and b is not None:
        return torch.equal(a, b)
    answer = session.part(Decisions).going_on(True)
    text = "equal" if answer else "different"
    session.note("equal", f"two tensors of unknown values were taken to be {text}")
    return session.part(Decisions).answer(answer, "truth")


@handles(aten.allclose.default)
def _close(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """`allclose` asks for the value of what `isclose` gives (TensorCompare.cpp)."""
    with session.capture:
        return bool(torch.isclose(*args, **kwargs).all())


def _count(session: Session, mask: torch.Tensor) -> int:
    """How many elements of a mask are not zero, which decides about the size of a tensor."""
    count, share = session.part(Values).taken_count(mask), session.part(Values).shares.of(mask)
    if session.part(Values).get(mask) is not None and not (share.most and session.part(Values).likely(mask)):
        if session.part(Values).likely(mask) and 0 < count < mask.numel():
            text = f"{count} of {mask.numel()} elements of a mask are set: {session.part(Values).likely(mask)}"
            session.note("nonzero", f"as many elements of masks are set as {session.part(Values).likely(mask)} say")
            return session.part(Decisions).size(count, min(2 * count, mask.numel()), text, mask.numel())
        return count
    if session.part(Values).all_set:
        return mask.numel()
    if share.share is not None and share.between:
        most = round(mask.numel() * share.share)
        text = f"{count} of at most {most} elements of a mask"
        session.note("nonzero", f"{text} were taken to be set, the middle of none and the most")
        return session.part(Decisions).size(count, most, f"{text} are set", most)
    if share.share is not None and share.most:
        text = f"at most {count} of {mask.numel()} elements of a mask"
        session.note("nonzero", f"{text} can be set, and were taken to be: an upper bound")
        return session.part(Decisions).size(count, min(count, _fewer(mask)), f"{text} are set", count)
    if share.share is not None:
        session.part(Values).note_spread(mask, count)
        if count in (0, mask.numel()):  # where nothing is strange, as `isnan` asks
            return count
        if share.one_of:
            most = max(mask.numel() // share.picks, count)
            text = f"balanced routing, {count} of {most} choose each; the other answer is all choosing the same"
            return session.part(Decisions).routed(count, most, share.one_of, text)
        text = f"{count} of {mask.numel()} elements of a mask are set, spread evenly"
        return session.part(Decisions).size(count, min(2 * count, mask.numel()), text, mask.numel())
    session.note("nonzero", f"all of {count} elements of a mask were taken to be set: an upper bound")
    text = f"all of {count} elements of a mask are set"
    return session.part(Decisions).size(count, _fewer(mask), text, count)


def _fewer(mask: torch.Tensor) -> int:
    """Another count: one row's, so that what is made of it can still be folded as the mask's rows are."""
    rows = next((n for n in mask.shape if n > 1), 1)
    return mask.numel() // rows


@handles(aten.nonzero.default)
def _nonzero(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    mask = args[0]
    count = _count(session, mask)
    out = session.empty((count, mask.dim()), torch.int64, (1, max(count, 1)))
    session.log(func, args, kwargs, out)
    session.part(Decisions).made(out)
    origin = session.part(Values).origins.read(func, args)
    if origin is not None:
        session.part(Values).origins.write(origin, out)
    known = session.part(Values).get(mask)
    if known is not None and known.numel() <= _COPIED:
        session.part(Values).set(out, known.nonzero(), session.part(Values).likely(mask))
    elif count == mask.numel() <= _COPIED:  # then it is known which they are
        session.part(Values).set(out, torch.ones(mask.shape, dtype=torch.bool, device="cpu").nonzero(), _ALL)
    return out


@handles(aten.masked_select.default)
def _masked_select(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    source, mask = args
    shape = torch.broadcast_shapes(source.shape, mask.shape)
    count = _count(session, mask) * (shape.numel() // max(mask.numel(), 1))
    out = session.empty((count,), source.dtype)
    session.log(func, args, kwargs, out)
    session.part(Decisions).made(out)
    session.part(Values).follow(func, args, kwargs, out)
    return out


@handles(aten.index.Tensor)
def _index(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    source, indices = args
    if not any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in indices):
        return NotImplemented
    places: list[torch.Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            count = _count(session, index)
            places += [session.empty((count,), torch.int64) for _ in range(index.dim())]
        else:
            places.append(index)
    out = session.fake.__torch_dispatch__(func, (FakeTensor,), (source, places), {})
    assert isinstance(out, torch.Tensor)
    session.log(func, args, kwargs, out)
    session.part(Decisions).made(out)
    session.part(Values).follow(func, args, kwargs, out)
    return out


@handles(aten.bincount.default)
def _bincount(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    choices = session.part(Values).shares.of(args[0]).choices
    if session.part(Values).get(args[0]) is not None or not choices or (len(args) > 1 and args[1] is not None):
        return NotImplemented
    minimum = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    out = session.empty((max(choices, minimum),), torch.int64)
    session.log(func, args, kwargs, out)
    session.part(Values).note_spread(args[0], args[0].numel())
    counts = session.part(Values).shares.spread(args[0].numel(), out, session.part(Values).shares.of(args[0]).picks)
    session.part(Values).set(out, counts)
    return out


@handles(aten._unique2.default, aten.unique_dim.default, aten.unique_consecutive.default)
def _unique(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    known = session.part(Values).get(args[0])
    if known is None and session.part(Values).shares.of(args[0]).share == 0.0:
        known = torch.zeros(args[0].shape, dtype=args[0].dtype, device="cpu")
    if known is not None:
        results = func(known, *args[1:], **kwargs)
    else:
        count, choices = args[0].numel(), session.part(Values).shares.of(args[0]).choices
        count = min(count, choices) if choices else count
        session.note("unique", f"all of {count} elements were taken to be different")
        taken = session.part(Decisions).size(count, 1, f"all of {count} values are different", count)
        values = torch.arange(args[0].numel(), device="cpu") % max(taken, 1)
        results = func(values.reshape(args[0].shape).to(args[0].dtype), *args[1:], **kwargs)
    out = tuple(session.empty(t.shape, t.dtype, t.stride()) for t in results)
    session.log(func, args, kwargs, out)
    if known is not None:
        for fake, value in zip(out, results, strict=True):
            session.part(Values).set(fake, value)
    else:
        session.part(Decisions).made(out[0])
        for fake, value in zip(out[1:], results[1:], strict=True):  # numbers of values that are there, and how many
            session.part(Values).set(fake, value, _EVEN)
    return out


def _same(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors are the same elements of one storage."""
    if x.layout is not torch.strided or y.layout is not torch.strided:
        return x is y
    alike = x.dtype == y.dtype and x.stride() == y.stride() and x.storage_offset() == y.storage_offset()
    return alike and x.untyped_storage()._cdata == y.untyped_storage()._cdata

"""The largest batch of a data set, which decides what a run takes where lengths differ.

A recording has a few steps. So when a loader is first asked, some batches are fetched before their time, and the
largest of them takes the place of one that is recorded. None is there twice; and none is left out, but where the loop
over them is made shorter (shorter.py).
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.data import DataLoader

from ..core.session import Session
from .shorter import Pass, Shorter

_SECONDS = 1.0
_ALIKE = 8  # batches of one size, after which no other is looked for
_ELEMENTS = 1 << 28  # of all that are kept at a time
_AFTER = 1  # steps: the first lacks the optimizer's states


class Batches:
    """Looks ahead in the program's loaders."""

    def __init__(self, session: Session, looked: int = 0) -> None:
        self._session = session
        self._given = looked
        self.looked = looked  # batches, at the most, so that another recording looks at as many

    def ahead(self, iterator: Iterator[Any]) -> tuple[list[Any], int]:
        """The next batches, and which of them is the largest; -1 where they are alike."""
        found: list[Any] = []
        sizes: list[int] = []
        began = 0.0
        for batch in iterator:
            found.append(batch)
            sizes.append(_size(batch))
            began = began or time.monotonic()  # workers take their time to start
            if min(sizes) < 0 or sum(sizes) > _ELEMENTS or (len(sizes) == _ALIKE and len(set(sizes)) == 1):
                break
            if len(found) == self._given if self._given else time.monotonic() - began > _SECONDS:
                break
        self.looked = max(self.looked, len(found))
        if not sizes or min(sizes) < 0 or len(set(sizes)) == 1:
            return found, -1
        return found, max(range(len(sizes)), key=sizes.__getitem__)

    def is_time(self) -> bool:
        """Whether the largest batch is to be given now."""
        return self._session.steps + self._session.phases.has_stepped() >= _AFTER

    def note(self, count: int, elements: int) -> None:
        """Say that the largest batch was given early."""
        text = f"of {count} that were looked at the largest, of {elements} elements, was recorded"
        self._session.note("batches", f"batches differ in size: {text}")


def install(session: Session) -> None:
    """Let loaders of PyTorch give the largest batch early, when they are first asked."""
    batches = session.part(Batches)
    begin: Callable[..., Iterator[Any]] = DataLoader.__iter__
    known: set[int] = set()

    def beginning(loader: Any) -> Iterator[Any]:
        iterator = begin(loader)
        if session.quiet or (id(loader) in known and not session.goes_on):
            return iterator
        looks = id(loader) not in known
        known.add(id(loader))
        return _Ahead(iterator, batches if looks else None, session.part(Shorter).pass_over(loader))

    session.patches.set(DataLoader, "__iter__", beginning)


class _Ahead:
    """A loader's iterator that has looked ahead, and may come to its end early."""

    def __init__(self, iterator: Iterator[Any], batches: Batches | None, turns: Pass) -> None:
        self._iterator, self._batches, self._pass = iterator, batches, turns
        self._found: list[Any] | None = None
        self._largest = -1
        self._given = 0
        self._ended = False

    def __iter__(self) -> _Ahead:
        return self

    def __next__(self) -> Any:
        if self._found is None:
            self._found, self._largest = ([], -1) if self._batches is None else self._batches.ahead(self._iterator)
        if self._largest < 0:
            keep = self._pass.keep(self._left())
            if keep is not None:
                self._keep(keep)
        self._given += 1
        if not self._found:
            if self._ended:
                raise StopIteration
            return next(self._iterator)
        if self._largest == 0:  # it is its turn
            self._note()
        elif self._largest > 0 and self._batches is not None and self._batches.is_time():
            self._found.insert(0, self._found.pop(self._largest))
            self._note()
        self._largest -= 1
        return self._found.pop(0)

    def _left(self) -> float:
        try:
            return len(self) - self._given
        except (TypeError, NotImplementedError):  # of data that has no length
            return math.inf

    def _keep(self, count: int) -> None:
        """Give no more than the last batches, and what workers are about to give."""
        assert self._found is not None
        iterator: Any = self._iterator
        rest = deque(itertools.islice(iterator._sampler_iter, len(self)), count) if count else deque()
        iterator._sampler_iter = iter(rest)
        missing = max(count - len(rest), 0)
        self._found = self._found[len(self._found) - missing :] if missing else []
        self._ended = not count

    def _note(self) -> None:
        assert self._found is not None
        assert self._batches is not None
        self._batches.note(self._given - 1 + len(self._found), _size(self._found[0]))
        self._largest = -1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __len__(self) -> int:
        return len(self._iterator)  # type: ignore[arg-type]


def _size(batch: Any) -> int:
    """Elements of all tensors of a batch; below zero where one is on the GPU already, or there is none."""
    if isinstance(batch, FakeTensor):
        return -1 << 60
    if isinstance(batch, torch.Tensor):
        return batch.numel()
    if isinstance(batch, Mapping):
        return sum(map(_size, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(_size, batch))
    return 0

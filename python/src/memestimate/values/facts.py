"""What is known of a tensor on the pretended GPU, which has no values: one record each, a field a kind of fact.

Whatever hangs on the values that its storage holds is kept with the storage's epoch (`Values.epoch`), and is over when
something unknown was written there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch

_ATTRIBUTE = "_memestimate_facts"
T = TypeVar("T")


class Guess(NamedTuple):
    """What a tensor of one element is taken to hold."""

    value: bool | int | float | complex
    made_by: str = ""  # the operator that gave it
    span: int = 0  # the largest dimension of the tensor that it was taken from: an index is below that
    counted: torch.Tensor | None = None  # the mask whose elements it counts
    sane: bool = False  # whether a number is finite: it is, or nothing would be worth recording
    among: torch.Tensor | None = None  # known whole numbers of which its tensor holds some: which is not known


class Known(NamedTuple):
    """What is known of the elements of a tensor whose values nobody knows."""

    share: float | None = None  # of the elements that are not zero
    choices: int = 0  # among how many alternatives each element chooses; 0 for none
    most: bool = False  # no larger share is possible
    between: bool = False  # any share up to that is: the middle is taken
    whole: int = 0  # how many whole numbers its range has: the alternatives, once it is made an integer
    picks: int = 1  # how many alternatives are chosen together, all different, as `topk` does
    one_of: int = 0  # of how many alternatives a mask says where one was chosen; 0 where it says something else
    mask: bool = False  # each number is zero or one, as those of a mask are that was made numbers

    @property
    def taken(self) -> float | None:
        """The share that is taken where a number is asked for."""
        return self.share / 2 if self.share is not None and self.between else self.share

    @property
    def is_sure(self) -> bool:
        """Whether no larger share is possible."""
        return self.most or self.is_exact

    @property
    def is_exact(self) -> bool:
        """Whether none is set, or all are: a bound of all is not that."""
        return self.share == 0.0 or (self.share == 1.0 and not self.most)


class Structure(NamedTuple):
    """What the elements of a tensor can be, whatever they are made of: see `structure`."""

    kind: str  # "indices", "rising", "probabilities"
    below: int = 0  # of indices: all are less
    dim: int | None = None  # along which they are different, rise, or add up to one; None where none is known


class Part(NamedTuple):
    """So many elements, at most, that lie between two limits."""

    most: int
    low: float
    high: float


class Origin(NamedTuple):
    """What is known of the elements of a tensor, or of those that a mask or indices choose.

    `chosen` says of which tensor they are, at one point of time; empty where the elements themselves are meant.
    """

    parts: tuple[Part, ...]
    chosen: tuple[Any, ...] = ()


class Of(NamedTuple, Generic[T]):
    """A fact as of an epoch of the tensor's storage."""

    fact: T
    epoch: int


@dataclass(slots=True)
class Facts:
    """What is known of one tensor.

    Attributes
    ----------
    value
        What it holds, on the host.
    likely
        Why that is only likely: it is drawn, or of before an update; "" if it is certain.
    data
        What was copied from the host or drawn, where it is too much to follow: comparisons are answered of it.
    share
        How many of its elements are set, or among how many choices they are.
    origin
        Between which limits its elements lie, or those that it chooses.
    guess
        What its single element is taken to hold.
    slope
        What the product of a gradient with a direction of search is taken to be.
    structure
        What its elements can be, by the operator that gave them.
    """

    value: Of[torch.Tensor] | None = None
    likely: str = ""
    data: Of[torch.Tensor] | None = None
    share: Of[Known] | None = None
    origin: Of[Origin] | None = None
    guess: Guess | None = None
    slope: float | None = None
    structure: Of[Structure] | None = None


_NONE = Facts()


def known(tensor: torch.Tensor) -> Facts:
    """What is known of a tensor, to be read."""
    found: Facts = tensor.__dict__.get(_ATTRIBUTE, _NONE)
    return found


def facts(tensor: torch.Tensor) -> Facts:
    """What is known of a tensor, to be added to."""
    found: Facts | None = tensor.__dict__.get(_ATTRIBUTE)
    if found is None:
        found = tensor.__dict__[_ATTRIBUTE] = Facts()
    return found


def forget_value(tensor: Any) -> None:
    """A tensor no longer holds what was known."""
    of = facts(tensor)
    of.value, of.likely = None, ""

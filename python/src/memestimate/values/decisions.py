"""On which answers a recording hangs, and by how much: what was taken where nobody knows a tensor's values.

A recording has shapes and no values. Where the program asks for one, a plausible answer is taken. Most decide nothing:
a loss is printed, a check passes. Which do decide is found by recording the step again with the other answer: if its
peak is another, the recording depends on data there, and says so.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from . import asserted, usage
from .usage import Usage
from .values import Values

if TYPE_CHECKING:
    import torch

    from ..core.session import Session

_AGAIN = 4  # recordings with other answers, at most
_SECONDS = 60.0  # that all of them may take, or twice what the first one took
_MOST_CHANGED = 1000  # answers changed in one recording: a loop that waits for the other one has an end
_CHECK = 3  # calls between an answer and an exception for which it is the reason
_LITTLE = 1000  # the part of the peak that is not told
_LARGER = 16  # what a number is changed to where nothing says how large it may be


Direction = Literal["", "more", "fewer", "skewed"]
_DIRECTIONS: tuple[Direction, ...] = ("skewed", "more", "fewer")


@dataclasses.dataclass(frozen=True)
class Change:
    """What a recording answers otherwise."""

    places: frozenset[str] = frozenset()  # as `Place.key`
    # how many elements of masks are set, and how many values are different; skewed: all choose the same alternatives
    sizes: Direction = ""
    larger: bool = False  # numbers are larger, not zero

    def to_json(self) -> str:
        """As text, for another process."""
        return json.dumps(dataclasses.asdict(self) | {"places": sorted(self.places)})

    @staticmethod
    def from_json(text: str) -> Change:
        """What `to_json` wrote."""
        found = json.loads(text)
        return Change(frozenset(found["places"]), found["sizes"], bool(found["larger"]))


NOTHING = Change()


@dataclasses.dataclass
class Outcome:
    """What came of recording again.

    Attributes
    ----------
    highest : int
        Peak of the live storages in bytes, as far as the program came.
    failed : bool
        It raised, or took too long.
    refused : bool
        It raised as soon as it had the other answer: that was a check.
    """

    highest: int
    failed: bool = False
    refused: bool = False


Again = Callable[[Change, float], Outcome]


@dataclasses.dataclass
class Place:
    """A line of the program that asked for a value which nobody knows."""

    key: str
    frame: int
    kind: str  # truth, number or size
    taken: str
    usage: Usage
    bytes: int = -1  # by how much the peak is another with another answer; -1 where that is not known
    more: int = -1  # by how much it is higher, 0 where no other answer takes more; -1 where that is not known
    most: bool = False  # the size that was taken is the largest that there can be
    limited: bool = False  # that one, or the other one which a trial takes
    ways: set[Direction] = dataclasses.field(default_factory=set)  # in which its sizes can be changed
    made: int = 0  # bytes of the largest tensor that has the size which was taken
    decides: bool = False
    late: bool = False  # it asked behind the end of recordings with other answers
    tried: bool = False  # with another answer, which went on
    many: str = ""  # what is said of an answer that is many values


class Decisions:
    """The answers that were taken for unknown values, by the line that asked."""

    def __init__(self, session: Session, change: Change = NOTHING) -> None:
        self._session = session
        self.change = change
        session.part(Values).skewed = change.sizes == "skewed"
        self.again: Again | None = None  # records the same once more with other answers, if that can be done
        self.places: dict[str, Place] = {}
        self._last: Place | None = None
        self._began = time.monotonic()
        self._turns: dict[tuple[str, int], int] = {}  # how often an instruction asked who chose an alternative
        self._left = _MOST_CHANGED
        self._changed_at: int | None = None  # how many calls there were when an answer was last changed

    def answer(self, answer: Any, kind: str, span: int = 0) -> Any:
        """Take an answer, a truth or a number: it is returned, or the other one if that is asked for."""
        place = self._place(kind, str(answer))
        if place is None or place.key not in self.change.places or self._left == 0:
            return answer
        self._left -= 1
        self._changed_at = self._session.calls
        if isinstance(answer, bool):
            return not answer
        if isinstance(answer, int) and answer > 1:
            return 1
        if isinstance(answer, int) or self.change.larger:
            return type(answer)(max(span, _LARGER))
        return 0.0 if answer else 1.0

    def took(self, text: str) -> None:
        """Say, once it is known whether they decide, which values were taken for those that a line asks for."""
        place = self._place("number", text)
        if place is not None and place.usage is not Usage.SHOWN:
            place.many = place.many or text

    def going_on(self, answer: Any) -> Any:
        """The answer to take so that what the program itself asserts of it holds."""
        frame = self._session.frames.asking()
        found = asserted.going_on(frame, answer)
        if found != answer and answer == answer and frame is not None:  # NaN is no other answer than itself
            where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            self._session.note("asserted", f"{where} got {found}, with which what the program asserts there holds")
        return found

    def usage(self) -> Usage:
        """What the program does with the answer that it is asking for."""
        return usage.of(self._session.frames.asking())

    def size(self, count: int, other: int, taken: str, limit: int) -> int:
        """Take how many elements a result has, of at most `limit`."""
        place = self._place("size", taken)
        way: Direction = "more" if other > count else "fewer"
        if place is not None:
            place.most = count >= limit and (place.most or not place.ways)
            place.limited = max(count, other) >= limit and (place.limited or not place.ways)
            place.ways.add(way)
        if self.change.sizes == way:
            self._changed_at = self._session.calls
            return other
        return count

    def routed(self, count: int, most: int, alternatives: int, taken: str) -> int:
        """Take how many choose an alternative: as many as choose each other one.

        Where all choose the same, it is those that are asked about first, which backward comes to last, when all
        gradients are there. As many choices are made.
        """
        place = self._place("size", taken)
        if place is None:
            return count
        place.ways.add("skewed")
        frame = self._session.frames.asking()
        where = place.key, -1 if frame is None else frame.f_lasti  # a line may ask for rows and for weights
        turn = self._turns[where] = self._turns.get(where, -1) + 1
        if self.change.sizes != "skewed":
            return count
        self._changed_at = self._session.calls
        chosen = max(round(alternatives * count / most), 1)
        return most if turn % alternatives < chosen else 0

    def left(self) -> None:
        """Take note that known numbers leave for the program, which are made of counted choices if there were some."""
        values = self._session.part(Values)
        if not values.routed or self.usage() is Usage.SHOWN:
            return
        if values.skewed:
            self._changed_at = self._session.calls
        place = self._place("size", "balanced routing; the other answer is all choosing the same")
        if place is not None and not place.ways:
            place.usage = min(place.usage, Usage.ELSEWHERE)  # it may be another number: a trial says whether it counts
            place.ways.add("skewed")

    def made(self, out: torch.Tensor) -> None:
        """Say what the size that was last taken makes."""
        frame = self._session.frames.asking()
        place = self.places.get(_key(frame)) if frame is not None else None
        if place is not None and place.kind == "size":
            place.made = max(place.made, out.numel() * out.element_size())

    def _place(self, kind: str, taken: str) -> Place | None:
        """The place that is asking, known from now on."""
        frame = self._session.frames.asking()
        if self._session.quiet or frame is None:
            return None
        key = _key(frame)
        place = self.places.get(key)
        how = Usage.SIZE if kind == "size" else usage.of(frame)
        if place is None:
            place = self.places[key] = Place(key, self._session.frames.here(), kind, taken, how)
            place.late = self._session.compared is not None
        elif how > place.usage:
            place.kind, place.taken, place.usage = kind, taken, how
        if how is not Usage.SHOWN:
            self._last = place
        return place

    def explain(self, error: BaseException) -> None:
        """Say to an exception of the program that it may come of an answer that was taken."""
        if self._last is None or self._session.part(Values).real is not None:
            return
        if isinstance(error, Exception) and sys.version_info >= (3, 11):
            error.add_note(
                f"memestimate: a recording has no values; {len(self.places)} lines asked for some, the last "
                f"{self._last.key}, where {self._last.taken} was taken. If that is why this was raised, "
                "record(..., real=True) and --real compute them."
            )

    def failed(self, highest: int) -> Outcome:
        """What to say of a recording that raised."""
        at = self._changed_at
        return Outcome(highest, failed=True, refused=at is not None and self._session.calls - at <= _CHECK)

    def write(self) -> None:
        """Find out which answers decide, and write those down."""
        if self.places:
            self._weigh(self.again)
        for place in self.places.values():
            if place.many:
                verdict = "others were not tried" if not place.tried else "with others the peak is the same"
                verdict = "the peak hangs on which" if place.decides else verdict
                self._session.note("host", f"{place.many}: {verdict}")
            if place.decides:
                known = f", in a tensor of {place.made} bytes" if place.made and place.bytes < 0 else ""
                more = max(place.more, 0) if place.kind == "size" and place.most else place.more
                tried_most = place.kind == "size" and place.limited and place.tried and not place.most
                kind = "part" if tried_most else place.kind
                self._session.writer.event("depends", kind, place.taken + known, place.bytes, place.frame, more)

    def _weigh(self, again: Again | None) -> None:
        found = [p for p in self.places.values() if p.kind == "size" or p.usage >= Usage.ELSEWHERE]
        for place in found:
            place.decides = place.usage >= Usage.LOOP
        sizes = [p for p in found if p.kind == "size" and not p.late]
        asked = [p for p in found if p.kind != "size" and not p.late]
        if again is None:
            return
        end = time.monotonic() + max(_SECONDS, 2 * (time.monotonic() - self._began))
        for places, change in self._trials(sizes, asked):
            if time.monotonic() < end and not (change.larger and places[0].decides):
                self._tried(places, again(change, end - time.monotonic()))

    def _trials(self, sizes: list[Place], asked: list[Place]) -> list[tuple[list[Place], Change]]:
        """Which answers to change together, those that most likely decide first."""
        asked = sorted(asked, key=lambda p: -p.usage)
        trials: list[tuple[list[Place], Change]] = []
        for way in _DIRECTIONS:
            some = [p for p in sizes if way in p.ways]
            if some:
                trials.append((some, Change(sizes=way)))
        alone = len(asked) if len(asked) <= _AGAIN - len(trials) else _AGAIN - len(trials) - 1
        trials += [([p], Change(places=frozenset([p.key]))) for p in asked[:alone]]
        if asked[alone:]:
            trials.append((asked[alone:], Change(places=frozenset(p.key for p in asked[alone:]))))
        larger = [p for p in asked[:alone] if p.kind == "number" and p.usage is Usage.SIZE and "." in p.taken]
        trials += [([p], Change(places=frozenset([p.key]), larger=True)) for p in larger]
        return trials[:_AGAIN]

    def _tried(self, places: Iterable[Place], outcome: Outcome) -> None:
        """Take note of what came of other answers at some places."""
        highest = self._session.storages.highest if self._session.compared is None else self._session.compared
        higher = outcome.highest - highest
        if outcome.failed and outcome.highest <= highest:
            if outcome.refused:
                for place in places:
                    place.decides = place.kind == "size"
            return
        for i, place in enumerate(places):
            place.tried = True
            moves = abs(higher) * _LITTLE > highest
            place.decides = moves or (place.decides and place.bytes >= 0)  # by a change that was tried before
            place.bytes = max(place.bytes, abs(higher))
            if i == 0 or place.kind == "size":  # of truths that were changed together the others were not tried alone
                place.more = max(place.more, higher if i == 0 else 0, 0)


def _key(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"

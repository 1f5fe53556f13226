"""Steps that are like the ones before: a recording has three of them, and leaves out those that follow.

Two steps are alike where they make the same calls on tensors of the same types and sizes, and their storages are born
and die in the same order. Then the second leaves behind it what the first did, under other numbers: what lives on in it
takes the numbers of what died in it, and its lines are taken away again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .writer import Writer

if TYPE_CHECKING:
    from .storages import Storages

RECORDED = 3  # steps that are alike, after which others are left out
_BASE, _MODULUS = 1_000_003, (1 << 61) - 1  # of a polynomial over events, so that parts of it can be compared
_SIZED = {"alloc", "free", "resize"}
_UNSEEN = {"note", "depends", "step"}


class Point(NamedTuple):
    """How far a recording has come: what lies between two of them can be compared."""

    exact: int
    events: int
    calls: int
    called: int


class Part(NamedTuple):
    """What lies between two points."""

    exact: int  # stands for all events
    calls: int  # stands for the operators alone, whatever their sizes


@dataclass
class _Mark:
    numbered: int  # storages that had numbers
    live: dict[int, tuple[int, int]]  # bytes and GPU of those that lived
    state: object


class Alike:
    """Compares the steps of a recording, and takes away those that repeat it."""

    def __init__(self, writer: Writer, storages: Storages) -> None:
        self._writer, self._storages = writer, storages
        writer.watch = self._see
        self.leaves_out = False
        self.left_out = 0  # steps
        self.run = 0  # steps in a row that are alike, up to the last one
        self.run_of_calls = 0  # the same, whatever their sizes
        self.growth = 0  # bytes that the last step left behind it
        self.more = 0  # storages that it left behind it
        self._exact = self._calls = self._count = self._called = 0
        self._sizes: dict[int, int] = {}
        self._began = Point(0, 0, 0, 0)
        self._live = (0, 0)
        self._last = Part(-1, -1)
        self._mark: _Mark | None = None

    def point(self) -> Point:
        """How far the recording has come."""
        self._writer.order()
        return Point(self._exact, self._count, self._calls, self._called)

    def since(self, point: Point) -> Part:
        """What has happened since a point."""
        now = self.point()
        exact = (now.exact - point.exact * pow(_BASE, now.events - point.events, _MODULUS)) % _MODULUS
        calls = (now.calls - point.calls * pow(_BASE, now.called - point.called, _MODULUS)) % _MODULUS
        return Part(exact, calls)

    def _see(self, event: tuple[Any, ...]) -> None:
        word = event[0]
        key: Any
        if word == "call":
            _, op, arguments, results, *_ = event
            key = op, _plain(arguments), _plain(results)
            self._calls = (self._calls * _BASE + hash(op)) % _MODULUS
            self._called += 1
        elif word in _SIZED:
            before = self._sizes.pop(event[1], 0)
            if word != "free":
                self._sizes[event[1]] = event[2]
            key = word, before, *event[2:]
        elif word in _UNSEEN:
            return
        else:
            key = word, *(item for item in event[1:] if isinstance(item, str))
        self._exact = (self._exact * _BASE + hash(key)) % _MODULUS
        self._count += 1

    def step_ended(self, state: object) -> bool:
        """Whether the step that has ended was taken away, as it was like those before.

        `state` is what a reader of the recording takes for granted between two lines: thread, stream and phase.
        """
        storages = self._storages
        part = self.since(self._began)
        self.run = self.run + 1 if part == self._last else 1
        self.run_of_calls = self.run_of_calls + 1 if part.calls == self._last.calls else 1
        self._last = part
        self.growth, self.more = storages.allocated - self._live[0], storages.live - self._live[1]
        gone = self.leaves_out and self.run > RECORDED and self._take_away(state)
        self.left_out += gone
        return gone

    def begin(self, state: object) -> None:
        """Begin a step, which may be taken away when it has ended."""
        storages = self._storages
        storages.begin_step()
        self._began, self._live = self.point(), (storages.allocated, storages.live)
        if self.leaves_out:
            self._mark = _Mark(storages.numbered, storages.sizes(), state)
            self._writer.mark()

    def _take_away(self, state: object) -> bool:
        mark = self._mark
        if mark is None or mark.state != state:
            return False
        live = self._storages.sizes()
        if any(live.get(serial, size) != size for serial, size in mark.live.items()):
            return False
        died = {serial: size for serial, size in mark.live.items() if serial not in live}
        born = {serial: size for serial, size in live.items() if serial not in mark.live}
        if Counter(died.values()) != Counter(born.values()) or not self._writer.take_back():
            return False
        free: dict[tuple[int, int], list[int]] = defaultdict(list)
        for serial, size in died.items():
            free[size].append(serial)
        self._storages.renumber({serial: free[size].pop(0) for serial, size in born.items()}, mark.numbered)
        self._sizes = {self._storages.written(serial): size for serial, (size, _) in live.items()}
        return True


def _plain(value: Any) -> Any:
    """What an argument says without naming a storage; numbers that are no sizes may be other ones in each step."""
    if isinstance(value, str):
        return value if value[:1] in "'!" else value.partition(":")[2]
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return None if isinstance(value, float) else value

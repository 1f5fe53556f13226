"""Recording a model of many equal layers from a few of them, to the byte.

A decoder repeats one layer, or a short pattern of layers. Each further repetition adds the same lines to a recording,
wherever the program goes through the layers: when they are moved, in forward, in backward, in the optimizer. Two
recordings of few layers show which lines these are and how the numbers in them count on; the recording of all layers
follows. Where the two do not show it, all layers are recorded.
"""

from __future__ import annotations

import gzip
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .living import Unlike, check

__all__ = ["Depth", "Unlike", "cut", "find", "learn"]

_MORE = 2  # repetitions that the second recording has more than the first
_LONGEST = 200_000  # pieces that a repetition may have
_AGREE = (24, 12, 6, 3)  # pieces behind a repetition that have to be alike: as many as can be


@dataclass(frozen=True)
class Depth:
    """How the layers of a model repeat.

    Attributes
    ----------
    stacks : tuple of str
        The lists of layers, by their names: of an encoder and a decoder that are as deep, both.
    layers : int
        How many each has.
    period : int
        How many layers the repeated pattern has.
    first : int
        How many are before the pattern.
    """

    stacks: tuple[str, ...]
    layers: int
    period: int
    first: int

    @property
    def few(self) -> tuple[int, int]:
        """How many layers to record, and how many the second time.

        The first and the last are often unlike the others: a pattern is to be between them.
        """
        least = self.first + self.period + 2
        least += (self.layers - least) % self.period
        return least, least + _MORE * self.period


def find(model: nn.Module, inputs: dict[str, torch.Tensor]) -> Depth | None:
    """Find how the layers of a model repeat, or None where recording a few saves little.

    Layers are alike if they have the same parameters and if their forward calls the same operators with the same
    sizes, on the same tensors of those that several are given, such as masks. This is seen on the meta device.
    """
    stacks = _stacks(model)
    if not stacks:
        return None
    layers = len(next(iter(stacks.values())))
    try:
        seen = _forward(model, stacks, inputs)
    except Exception:  # of any kind: a forward that needs values has none on the meta device
        return None
    marks = [[(_parameters(stack[i]), seen.get(stack[i])) for i in range(layers)] for stack in stacks.values()]
    if any(called is None for stack in marks for _, called in stack):
        return None
    columns = list(zip(*marks, strict=True))
    first, period = _pattern(columns)
    found = Depth(tuple(stacks), layers, period, first)
    return found if 4 * sum(found.few) <= 3 * layers else None


def cut(model: nn.Module, depth: Depth, layers: int) -> None:
    """Leave a model the first of its layers."""
    for name in depth.stacks:
        del model.get_submodule(name)[layers:]  # type: ignore[operator]


def _stacks(model: nn.Module) -> dict[str, nn.ModuleList]:
    """The longest lists of layers that are in no other."""
    found: dict[str, nn.ModuleList] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) > 1 and not any(name.startswith(f"{s}.") for s in found):
            found[name] = module
    longest = max(map(len, found.values()), default=0)
    return {name: stack for name, stack in found.items() if len(stack) == longest}


def _parameters(layer: nn.Module) -> tuple[Any, ...]:
    named = itertools.chain(layer.named_parameters(), layer.named_buffers())
    return tuple((name, tuple(t.shape), t.dtype, t.requires_grad) for name, t in named)


def _pattern(marks: Sequence[Any]) -> tuple[int, int]:
    """How many are before the repeated pattern, and how many it has; with the fewest to be recorded."""
    count = len(marks)
    best = (0, count)
    for period in range(1, count // 2 + 1):
        first = count - period
        while first > 0 and marks[first - 1] == marks[first - 1 + period]:
            first -= 1
        if first + 2 * period < best[0] + 2 * best[1]:
            best = first, period
    return best


def _forward(
    model: nn.Module, stacks: dict[str, nn.ModuleList], inputs: dict[str, torch.Tensor]
) -> dict[nn.Module, tuple[Any, ...]]:
    """What each layer calls in a forward pass on the meta device."""
    log = _Log()
    handles = []
    for layer in itertools.chain.from_iterable(stacks.values()):
        handles.append(layer.register_forward_pre_hook(log.enter, with_kwargs=True))
        handles.append(layer.register_forward_hook(lambda module, _, __: log.leave()))
    try:
        with torch.no_grad(), torch.device("meta"), log:
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    given = Counter(id(t) for tensors in log.given.values() for t in tensors)
    common = {number: i for i, number in enumerate(n for n, layers in given.items() if layers > 1)}
    return {layer: (*calls, *(common.get(id(t), -1) for t in log.given[layer])) for layer, calls in log.calls.items()}


class _Log(TorchDispatchMode):
    """Which operators run within a layer, and on what."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: dict[nn.Module, list[Any]] = {}
        self.given: dict[nn.Module, list[torch.Tensor]] = {}
        self._into: list[Any] = []

    def enter(self, layer: nn.Module, args: Any, kwargs: Any) -> None:
        self._into = self.calls.setdefault(layer, [])
        self.given[layer] = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]

    def leave(self) -> None:
        self._into = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [
            (tuple(x.shape), x.stride(), x.dtype) if isinstance(x, torch.Tensor) else repr(x)
            for x in tree_leaves((args, kwargs))
        ]
        self._into.append((func, given))
        # Values are asked for as well. Any will do: what is compared is what equal layers do with equal answers.
        if func is torch.ops.aten._local_scalar_dense.default:
            return False if args[0].dtype is torch.bool else 0
        if func is torch.ops.aten.nonzero.default:
            return args[0].new_empty((args[0].numel(), args[0].dim()), dtype=torch.long)
        return func(*args, **(kwargs or {}))


# A recording is read as pieces: a text without whole numbers, and the number behind it.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[^"\d-]+|-')
_DIGITS = re.compile(r"(\d+)")
_TENSOR = re.compile(r'"\d+:\d+"')
_NUMBERED = ("alloc", "free", "resize", "is", "sum", "record_stream", "module", "end", "allocated")


@dataclass(frozen=True)
class _Pieces:
    """A recording in pieces.

    Numbers of storages and modules, and those in names, differ between layers that are alike: `keys` are the texts with
    the other numbers, which do not.
    """

    texts: list[str]
    numbers: list[int]
    keys: list[tuple[str, int]]


def _read(path: Path) -> tuple[str, _Pieces]:
    """The header of a recording, and its lines in pieces."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        header = file.readline()
        lines = file.readlines()
    pieces = _Pieces([], [], [])
    kinds: dict[tuple[str, ...], list[bool]] = {}  # of a line's numbers, by what is between them
    before = ""
    for line in lines:
        parts = _DIGITS.split(line)
        between = tuple(parts[::2])
        moves = kinds.get(between)
        if moves is None:
            moves = kinds[between] = _moves(line)
        for text, part, moved in zip(between, parts[1::2], moves, strict=False):
            number = int(part)
            before += text + "0" * (len(part) - len(str(number)))
            pieces.texts.append(before)
            pieces.numbers.append(number)
            pieces.keys.append((before, -1 if moved else number))
            before = ""
        before += parts[-1]
    pieces.texts.append(before)
    pieces.numbers.append(0)
    pieces.keys.append((before, 0))
    return header, pieces


def _moves(line: str) -> list[bool]:
    """Which numbers of a line differ between layers that are alike."""
    word = line[2 : line.index('"', 2)]
    counts = word in _NUMBERED  # with its first number
    tokens = _TOKEN.findall(line)
    module = len(tokens) - 2 if word == "call" else -1  # ...,3]
    found: list[bool] = []
    for place, token in enumerate(tokens):
        numbers = len(_DIGITS.findall(token))
        if token[0] == '"':
            tensor = _TENSOR.fullmatch(token) is not None  # whose second number is that of its layout
            found += [True, False] if tensor else [word in ("is", "module")] * numbers
        elif numbers:
            found += [token.isdigit() and (counts or place == module)] * numbers
            counts = False
    return found


@dataclass(frozen=True)
class _Part:
    """Pieces that are there once, and behind them those that each repetition adds.

    A number of the pieces that are there once is `once` and `grows` more with each repetition. One of those behind
    them is `behind`, `counts` more in each following repetition, and `shifts` more with each repetition that there is.
    """

    start: int
    end: int
    grows: list[int]
    length: int = 0
    behind: tuple[list[int], list[int], list[int]] = ([], [], [])


@dataclass(frozen=True)
class Rule:
    """What each repetition of a pattern of layers adds to a recording."""

    header: str
    once: _Pieces
    parts: list[_Part]

    def of(self, path: Path) -> Rule:
        """The rule for another recording of as few layers, of the same program on other sizes."""
        header, other = _read(path)
        if other.texts != self.once.texts:
            raise Unlike("another program")
        moved = [b - a for a, b in zip(self.once.numbers, other.numbers, strict=True)]
        parts = []
        for part in self.parts:
            first, counts, shifts = part.behind
            shift = moved[part.end - part.length : part.end]
            behind = [n + d for n, d in zip(first, shift, strict=True)]
            parts.append(_Part(part.start, part.end, part.grows, part.length, (behind, counts, shifts)))
        return Rule(header, other, parts)

    def write(self, path: Path, more: int) -> None:
        """Write the recording that has so many repetitions more than the smaller of the two."""
        text = "".join(self._texts(more))
        check(text)
        with path.open("wb") as raw, gzip.GzipFile("", "wb", 5, raw, mtime=0) as file:
            file.write((self.header + text).encode())

    def is_as(self, path: Path, more: int) -> bool:
        """Whether a recording with so many repetitions more is what the rule says."""
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return file.read() == self.header + "".join(self._texts(more))

    def _texts(self, more: int) -> list[str]:
        out: list[str] = []
        for part in self.parts:
            texts = self.once.texts[part.start : part.end]
            for text, number, grows in zip(texts, self.once.numbers[part.start : part.end], part.grows, strict=True):
                out += (text, str(number + grows * more))
            texts = self.once.texts[part.end - part.length : part.end]
            for i in range(more if part.length else 0):
                for text, number, counts, shifts in zip(texts, *part.behind, strict=True):
                    out += (text, str(number + counts * i + shifts * more))
        out.pop()  # the number behind the last text
        return out


def learn(small: Path, large: Path) -> Rule:
    """Learn what a repetition adds, from two recordings of which the second has two repetitions more.

    Raises
    ------
    Unlike
        The second is not the first with further repetitions.
    """
    header, a = _read(small)
    other, b = _read(large)
    if header != other:
        raise Unlike("another header")
    parts: list[_Part] = []
    i = j = 0
    while True:
        start, n = i, _common(a.keys, b.keys, i, j)
        i, j = i + n, j + n
        length = 0
        if i < len(a.keys) or j < len(b.keys):
            length = _repetition(a.keys, b.keys, i, j)
            back = _turn(b, j, length, i - start)
            i, j = i - back, j - back
        once = zip(a.numbers[start:i], b.numbers[j - (i - start) : j], strict=True)
        parts.append(_Part(start, i, [_share(few, more) for few, more in once], length, _behind(a, b, i, j, length)))
        j += _MORE * length
        if i == len(a.keys) and j == len(b.keys):
            return Rule(header, a, parts)


def _behind(a: _Pieces, b: _Pieces, i: int, j: int, length: int) -> tuple[list[int], list[int], list[int]]:
    """How the numbers of a repetition count on: see `_Part`."""
    first, counts, shifts = [], [], []
    rows = [b.numbers[j + k * length : j + (k + 1) * length] for k in (-1, 0, 1)]
    for few, y, z, last in zip(a.numbers[i - length : i], *rows, strict=True):
        if last - z != z - y:
            raise Unlike(f"{y}, {z} and {last} in repetitions that follow each other")
        first.append(few + (z - y))
        counts.append(z - y)
        shifts.append(_share(few, y))
    return first, counts, shifts


def _turn(b: _Pieces, j: int, length: int, most: int) -> int:
    """How far back what is repeated begins.

    What follows the last layer may begin as a layer does. Numbers tell the two apart: they count on evenly from one
    repetition to the next, and to nothing else.
    """
    keys, numbers = b.keys, b.numbers
    even = 0
    for k in range(j - 1, max(j - most, 2 * length) - length - 1, -1):
        back = j - 1 - k - even  # where the pieces that count on evenly end
        if numbers[k] - numbers[k + length] == numbers[k + length] - numbers[k + 2 * length]:
            even += 1
            if even == length:
                return back
        else:
            even = 0
            if k >= j - most and keys[k] != keys[k + _MORE * length]:
                break
    return 0


_Keys = list[tuple[str, int]]


def _share(few: int, more: int) -> int:
    if (more - few) % _MORE:
        raise Unlike(f"{few}, and {more} with {_MORE} repetitions more")
    return (more - few) // _MORE


def _common(a: _Keys, b: _Keys, i: int, j: int) -> int:
    """How many keys agree from two places on."""
    n, step = 0, 1024
    while step:
        if a[i + n : i + n + step] == b[j + n : j + n + step] and len(b) - j - n >= step <= len(a) - i - n:
            n += step
        else:
            step //= 2
    return n


def _repetition(a: _Keys, b: _Keys, i: int, j: int) -> int:
    """How long what two repetitions have added is, where the second recording parts from the first."""
    longest = min(i, (len(b) - j) // _MORE, _LONGEST)
    lengths = [n for n in range(1, longest + 1) if b[j - n] == b[j] and b[j + _MORE * n - 1] == b[j - 1]]
    for agree in _AGREE:
        tail = a[i : i + agree]
        for length in lengths:
            end = j + _MORE * length
            once = b[j : j + length]
            if b[end : end + agree] == tail and b[j - length : j] == once == b[j + length : end] == a[i - length : i]:
                return length
    raise Unlike("what the larger recording has more is no repetition")

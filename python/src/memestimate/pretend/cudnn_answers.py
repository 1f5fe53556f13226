"""
What cuDNN itself answers, without a GPU, about the workspaces of convolutions.

cuDNN's graph API finds engines for a device that is described and not there (`CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR`,
since 9.8). What PyTorch would do with its answer is in aten/src/ATen/native/cudnn/Conv_v8.cpp: of the engines in
the order of the heuristic, those that convert their inputs are left out, and the first that can be built runs.

This file is run as a program, in a process of its own: a question is read from the standard input, and the answer
written to the standard output, both JSON. It needs nothing but the library.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypedDict

# Numbers of cudnn_graph.h.
_TYPE, _BOOLEAN_MODE, _HEURISTIC, _INT64, _FLOAT, _DESCRIPTOR, _NOTE, _CHAR = 1, 7, 8, 3, 4, 15, 11, 24
_CONVOLUTION, _ENGINE, _CONFIG, _HEURISTICS, _PLAN, _GRAPH, _TENSOR, _DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
_TENSOR_CORE, _DOWN_CONVERT, _NONDETERMINISTIC = 0, 1, 4
_FP32, _CROSS_CORRELATION, _INSTANT, _FALLBACK = 0, 1, 0, 2
_MOST_NOTES = 16
# Of each operation: its descriptor, then the attributes alpha, beta, convolution, x, y and w.
_OPERATIONS = {
    "forward": (10, (700, 701, 702, 704, 705, 703)),
    "weight": (11, (712, 713, 714, 716, 717, 715)),
    "input": (12, (706, 707, 708, 710, 711, 709)),
}
_ALIGNMENT = 32  # of addresses, as far as PyTorch looks (getAlignment)
_LONGEST = 20000  # characters of a plan's description
# Rows and columns of the result that a thread block of a Hopper engine works on, by the value of its knob.
_TILES = {
    0: (128, 128),
    1: (128, 64),
    3: (256, 128),
    4: (256, 64),
    5: (64, 64),
    6: (128, 256),
    7: (64, 128),
    9: (64, 256),
}
# Blocks of a cluster that run at once on 132 multiprocessors, by the cluster's size: a cluster does not leave its GPC.
_AT_ONCE = {1: 132, 2: 132, 3: 117, 4: 120, 5: 110, 6: 102, 7: 105, 8: 120, 16: 112}
_UNKNOWN_AT_ONCE = 18  # multiprocessors that cuDNN counts on where it cannot ask the driver
# The fewest steps in which a block may add up its part of a sum, by engine and tile: where the tiles are a single wave,
# and where they are more. A step is 64 bytes of a row. Fitted on an H200: simulate/kernels/testdata/README.md.
_STEPS = {
    ("forward", 62): {0: (66, 52), 1: (144, 72), 3: (48, 48), 4: (96, 52), 5: (160, 88), 6: (80, 16), 7: (80, 56)},
    ("forward", 67): {0: (18, 18), 3: (28, 8), 5: (48, 20), 9: (32, 8)},
    ("input", 67): {
        0: (40, 40),
        1: (144, 88),
        3: (16, 16),
        4: (60, 52),
        5: (160, 60),
        6: (16, 16),
        7: (80, 52),
    },
    ("input", 71): {0: (32, 12), 1: (36, 18), 3: (24, 12)},
    ("weight", 65): {
        0: (44, 44),
        1: (48, 44),
        3: (80, 44),
        4: (56, 56),
        5: (160, 88),
        6: (40, 40),
        7: (20, 8),
        9: (8, 8),
    },
    ("weight", 68): {0: (66, 8), 1: (40, 16), 4: (66, 12), 5: (66, 20), 7: (66, 16)},
}


class Convolution(TypedDict):
    """One pass: sizes are those of PyTorch's tensors, of two or three spatial dimensions."""

    operation: str  # forward, input or weight
    type: int  # cudnnDataType_t
    channels_last: bool
    x: list[int]
    w: list[int]
    y: list[int]
    padding: list[int]
    stride: list[int]
    dilation: list[int]


class Question(TypedDict):
    """What the process is asked."""

    library: str
    loaded: list[str]  # libraries to load before
    device: str  # as cuDNN writes one down
    allow_tf32: bool
    deterministic: bool
    engines: int  # of how many, in cuDNN's order, the largest workspace is wanted; 0 for all
    convolutions: list[Convolution]


class CuDNNError(Exception):
    """cuDNN refused a call."""


class _Library:
    """The calls of cudnn_graph.h, and the descriptors that they made."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.made: list[ctypes.c_void_p] = []

    def call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self.library, f"cudnnBackend{name}")(*arguments):
            raise CuDNNError(f"cudnnBackend{name}: {status}")

    def make(self, kind: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.call("CreateDescriptor", kind, ctypes.byref(pointer))
        self.made.append(pointer)
        return pointer

    def put(self, what: ctypes.c_void_p, name: int, kind: int, of: Any, *values: Any) -> None:
        array = (of * len(values))(*values)
        self.call("SetAttribute", what, name, kind, ctypes.c_int64(len(values)), array)

    def finalized(self, what: ctypes.c_void_p) -> ctypes.c_void_p:
        self.call("Finalize", what)
        return what

    def get(self, what: ctypes.c_void_p, name: int, kind: int, room: Any) -> int:
        count = ctypes.c_int64()
        self.call("GetAttribute", what, name, kind, ctypes.c_int64(len(room) if room else 0), ctypes.byref(count), room)
        return count.value

    def free(self) -> None:
        while self.made:
            self.library.cudnnBackendDestroyDescriptor(self.made.pop())

    def device(self, text: str) -> ctypes.c_void_p:
        device = self.make(_DEVICE)
        self.made.pop()  # it outlives the convolutions
        self.put(device, 2702, _CHAR, ctypes.c_char, *(bytes([c]) for c in text.encode()))
        return self.finalized(device)

    def tensor(self, name: str, kind: int, shape: Sequence[int], channels_last: bool) -> ctypes.c_void_p:
        tensor = self.make(_TENSOR)
        self.put(tensor, 900, _INT64, ctypes.c_int64, _ALIGNMENT)
        self.put(tensor, 901, _TYPE, ctypes.c_int, kind)
        self.put(tensor, 902, _INT64, ctypes.c_int64, *shape)
        self.put(tensor, 903, _INT64, ctypes.c_int64, *strides(shape, channels_last))
        self.put(tensor, 906, _INT64, ctypes.c_int64, ord(name))
        return self.finalized(tensor)

    def graph(self, c: Convolution) -> ctypes.c_void_p:
        """The graph of one operation, as build_opgraph makes it."""
        spread = self.make(_CONVOLUTION)
        self.put(spread, 100, _TYPE, ctypes.c_int, _FP32)
        self.put(spread, 101, _BOOLEAN_MODE, ctypes.c_int, _CROSS_CORRELATION)
        self.put(spread, 102, _INT64, ctypes.c_int64, *c["dilation"])
        self.put(spread, 103, _INT64, ctypes.c_int64, *c["stride"])
        self.put(spread, 104, _INT64, ctypes.c_int64, *c["padding"])
        self.put(spread, 105, _INT64, ctypes.c_int64, *c["padding"])
        self.put(spread, 106, _INT64, ctypes.c_int64, len(c["padding"]))
        self.finalized(spread)
        kind, (alpha, beta, convolution, x, y, w) = _OPERATIONS[c["operation"]]
        operation = self.make(kind)
        self.put(operation, alpha, _FLOAT, ctypes.c_float, 1.0)
        self.put(operation, beta, _FLOAT, ctypes.c_float, 0.0)
        self.put(operation, convolution, _DESCRIPTOR, ctypes.c_void_p, spread)
        for name, attribute, shape in (("x", x, c["x"]), ("y", y, c["y"]), ("w", w, c["w"])):
            tensor = self.tensor(name, c["type"], shape, c["channels_last"])
            self.put(operation, attribute, _DESCRIPTOR, ctypes.c_void_p, tensor)
        self.finalized(operation)
        graph = self.make(_GRAPH)
        self.put(graph, 801, _DESCRIPTOR, ctypes.c_void_p, operation)
        return self.finalized(graph)

    def configs(self, graph: ctypes.c_void_p, device: ctypes.c_void_p, mode: int) -> Iterator[ctypes.c_void_p]:
        """The engines that a heuristic names, in its order."""
        heuristics = self.make(_HEURISTICS)
        self.put(heuristics, 201, _DESCRIPTOR, ctypes.c_void_p, graph)
        self.put(heuristics, 200, _HEURISTIC, ctypes.c_int, mode)
        self.put(heuristics, 204, _DESCRIPTOR, ctypes.c_void_p, device)
        self.finalized(heuristics)
        room = [self.make(_CONFIG) for _ in range(self.get(heuristics, 202, _DESCRIPTOR, None))]
        array = (ctypes.c_void_p * len(room))(*room)
        if room:
            yield from room[: self.get(heuristics, 202, _DESCRIPTOR, array)]

    def notes(self, config: ctypes.c_void_p) -> set[int]:
        """What is noted down about the numbers of a configuration's engine."""
        engine = self.make(_ENGINE)
        self.get(config, 300, _DESCRIPTOR, (ctypes.c_void_p * 1)(engine))
        notes = (ctypes.c_int * _MOST_NOTES)()
        return set(notes[: self.get(engine, 1303, _NOTE, notes)])

    def workspace(self, config: ctypes.c_void_p, device: ctypes.c_void_p) -> tuple[int, str]:
        """What the plan of a configuration takes, in bytes, and how cuDNN describes the plan, in JSON."""
        plan = self.make(_PLAN)
        self.put(plan, 401, _DESCRIPTOR, ctypes.c_void_p, config)
        self.put(plan, 407, _DESCRIPTOR, ctypes.c_void_p, device)
        self.finalized(plan)
        size = (ctypes.c_int64 * 1)()
        self.get(plan, 402, _INT64, size)
        try:
            text = (ctypes.c_char * _LONGEST)()
            self.get(plan, 405, _CHAR, text)
        except CuDNNError:
            return size[0], ""
        return size[0], text.value.decode()


def strides(shape: Sequence[int], channels_last: bool) -> list[int]:
    """Strides of a tensor without gaps."""
    order = [0, *range(2, len(shape)), 1] if channels_last else list(range(len(shape)))
    result, step = [0] * len(shape), 1
    for i in reversed(order):
        result[i] = step
        step *= shape[i]
    return result


def partial_sums(convolution: Convolution, engine: dict[str, Any], multiprocessors: int) -> int:
    """
    What a plan takes more on the GPU than cuDNN says without it.

    Hopper's engines split the sums of the tiles that are left after the last full wave, as CUTLASS's stream-K scheduler
    does (tile_scheduler_params.h): each of the blocks that run at once keeps a tile of 4-byte sums. How many run at
    once is asked of the driver; without a GPU it counts on the multiprocessors of one GPC.

    Returns
    -------
    int
        Bytes, likely less than none where a split was counted on that the GPU does not make; 0 for other engines.
    """
    knobs = {name.removeprefix("CUDNN_KNOB_TYPE_"): value for name, value in engine["knobChoices"].items()}
    high, wide = _TILES.get(knobs.get("TILE_SIZE", -1), (0, 0))
    fewest = _STEPS.get((convolution["operation"], engine["engineId"]), {}).get(knobs.get("TILE_SIZE", -1))
    cluster = knobs.get("TILE_CGA_M", 0), knobs.get("TILE_CGA_N", 0)
    at_once = _AT_ONCE.get(math.prod(cluster))
    grouped = convolution["x"][1] != convolution["w"][1]
    if fewest is None or at_once is None or grouped or knobs.get("WORKSPACE") != 0:
        return 0
    (n, c, *x), (k, _, *w), (_, _, *y) = convolution["x"], convolution["w"], convolution["y"]
    step, filters = 16 if convolution["type"] == _FP32 else 32, math.prod(w)
    if convolution["operation"] == "weight":
        rows, columns, steps = -(-k // high), -(-c // wide) * filters, -(-n * math.prod(y) // step)
    elif convolution["operation"] == "forward":
        rows, columns, steps = -(-n * math.prod(y) // high), -(-k // wide), -(-c // step) * filters
    else:
        rows, columns, steps = -(-n * math.prod(x) // high), -(-c // wide), -(-k // step) * filters
    tiles = math.prod(-(-count // of) * of for count, of in zip((rows, columns), cluster, strict=True))
    size = math.prod(cluster)
    at_once = at_once * multiprocessors // 132 // size * size
    unknown = _UNKNOWN_AT_ONCE // size * size
    return (_split(tiles, steps, at_once, fewest) - _split(tiles, steps, unknown, fewest)) * high * wide * 4


def _split(tiles: int, steps: int, at_once: int, fewest: tuple[int, int]) -> int:
    """Count the parts of tiles that are kept, when the tiles after the last full wave are split."""
    if at_once == 0:
        return 0
    left = tiles % at_once if tiles > at_once else tiles
    parts = min(at_once // left, steps // fewest[tiles > at_once]) if left else 0
    return left * parts if parts > 1 else 0


def answers(question: Question) -> list[int]:
    """
    Ask about each convolution of a question.

    Returns
    -------
    list of int
        Bytes of the workspace, -1 where cuDNN names no engine.
    """
    for path in question["loaded"]:
        with suppress(OSError):  # cuDNN says itself what it lacks
            ctypes.CDLL(path)
    library = _Library(question["library"])
    device = library.device(question["device"])
    result = []
    for convolution in question["convolutions"]:
        modes = (_INSTANT,) if question["engines"] == 1 else (_INSTANT, _FALLBACK)
        try:
            plans = _plans(library, device, convolution, question, modes)
            wanted = islice(plans, question["engines"] or None)
            result.append(max((_on_gpu(convolution, *plan, question) for plan in wanted), default=-1))
        except CuDNNError:
            result.append(-1)
        finally:
            library.free()
    return result


def _on_gpu(convolution: Convolution, size: int, plan: str, question: Question) -> int:
    """What a plan takes on the GPU, in bytes, that takes `size` without one."""
    if not plan:
        return size
    multiprocessors = json.loads(question["device"])["multiProcessorCount"]
    return max(size + partial_sums(convolution, json.loads(plan)["engine"], multiprocessors), 0)


def _plans(
    library: _Library,
    device: ctypes.c_void_p,
    convolution: Convolution,
    question: Question,
    modes: Sequence[int],
) -> Iterator[tuple[int, str]]:
    """The plans that can be built, in the order of the heuristics: bytes of the workspace, and the description."""
    refused = {_DOWN_CONVERT}
    if question["deterministic"]:
        refused.add(_NONDETERMINISTIC)
    if convolution["type"] == _FP32 and not question["allow_tf32"]:
        refused.add(_TENSOR_CORE)
    graph = library.graph(convolution)
    for mode in modes:
        for config in library.configs(graph, device, mode):
            if library.notes(config) & refused:
                continue
            try:
                yield library.workspace(config, device)
            except CuDNNError:
                continue


if __name__ == "__main__":
    json.dump(answers(json.load(sys.stdin)), sys.stdout)

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
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

# Numbers of cudnn_graph.h.
_TYPE, _BOOLEAN_MODE, _HEURISTIC, _INT64, _FLOAT, _DESCRIPTOR, _NOTE, _CHAR = 1, 7, 8, 3, 4, 15, 11, 24
_CONVOLUTION, _ENGINE, _CONFIG, _HEURISTICS, _PLAN, _GRAPH, _TENSOR, _DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
_TENSOR_CORE, _DOWN_CONVERT, _NONDETERMINISTIC = 0, 1, 4
_FP32, _CROSS_CORRELATION, _INSTANT = 0, 1, 0
_MOST_NOTES = 16
# Of each operation: its descriptor, then the attributes alpha, beta, convolution, x, y and w.
_OPERATIONS = {
    "forward": (10, (700, 701, 702, 704, 705, 703)),
    "weight": (11, (712, 713, 714, 716, 717, 715)),
    "input": (12, (706, 707, 708, 710, 711, 709)),
}
_ALIGNMENT = 32  # of addresses, as far as PyTorch looks (getAlignment)


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
    device: str  # as cuDNN writes one down
    allow_tf32: bool
    deterministic: bool
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

    def configs(self, graph: ctypes.c_void_p, device: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
        """The engines that the heuristic names, in its order."""
        heuristics = self.make(_HEURISTICS)
        self.put(heuristics, 201, _DESCRIPTOR, ctypes.c_void_p, graph)
        self.put(heuristics, 200, _HEURISTIC, ctypes.c_int, _INSTANT)
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

    def workspace(self, config: ctypes.c_void_p, device: ctypes.c_void_p) -> int:
        """What the plan of a configuration takes, in bytes."""
        plan = self.make(_PLAN)
        self.put(plan, 401, _DESCRIPTOR, ctypes.c_void_p, config)
        self.put(plan, 407, _DESCRIPTOR, ctypes.c_void_p, device)
        self.finalized(plan)
        size = (ctypes.c_int64 * 1)()
        self.get(plan, 402, _INT64, size)
        return size[0]


def strides(shape: Sequence[int], channels_last: bool) -> list[int]:
    """Strides of a tensor without gaps."""
    order = [0, *range(2, len(shape)), 1] if channels_last else list(range(len(shape)))
    result, step = [0] * len(shape), 1
    for i in reversed(order):
        result[i] = step
        step *= shape[i]
    return result


def answers(question: Question) -> list[int]:
    """
    Ask about each convolution of a question.

    Returns
    -------
    list of int
        Bytes of the workspace, -1 where cuDNN names no engine.
    """
    library = _Library(question["library"])
    device = library.device(question["device"])
    result = []
    for convolution in question["convolutions"]:
        try:
            result.append(_answer(library, device, convolution, question))
        except CuDNNError:
            result.append(-1)
        finally:
            library.free()
    return result


def _answer(library: _Library, device: ctypes.c_void_p, convolution: Convolution, question: Question) -> int:
    refused = {_DOWN_CONVERT}
    if question["deterministic"]:
        refused.add(_NONDETERMINISTIC)
    if convolution["type"] == _FP32 and not question["allow_tf32"]:
        refused.add(_TENSOR_CORE)
    for config in library.configs(library.graph(convolution), device):
        if library.notes(config) & refused:
            continue
        try:
            return library.workspace(config, device)
        except CuDNNError:
            continue
    return -1


if __name__ == "__main__":
    json.dump(answers(json.load(sys.stdin)), sys.stdout)

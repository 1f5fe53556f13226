"""Additions, and what else is in place on real tensors.

PyTorch does not write into a tensor where somebody looks on: with any dispatch mode, or a tensor
subclass, it adds out of place (`isTensorSubclassLike`). Here such an addition is recognised and
answered with the operand into which real tensors would have been added, so that the recording
is that of real tensors in what follows, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from ..core.handlers import Arguments, Handler, Keywords, Table
from ..core.session import Call, Session
from ..pretend.threads import alone
from .sparse import coo

aten = torch.ops.aten
handles: Table[Handler] = Table("sums")
_ANY = object()
_ENGINE = ("", "_engine_run_backward")  # innermost Python function while C++ runs backward

# What gradients' formulas write into zeros of their own: those of gather, index_select, max, topk, sort, median,
# cummax, take, masked_select and trace (FunctionsManual.cpp, ReduceOps.cpp and TensorAdvancedIndexing.cpp say so
# where they ask "for composite compliance").
_INTO_ZEROS = {
    aten.scatter.src: aten.scatter_.src,
    aten.scatter_add.default: aten.scatter_add_.default,
    aten.index_add.default: aten.index_add_.default,
    aten.put.default: aten.put_.default,
    aten.masked_scatter.default: aten.masked_scatter_.default,
    aten.index_fill.int_Tensor: aten.index_fill_.int_Tensor,
    aten.index_fill.int_Scalar: aten.index_fill_.int_Scalar,
}
# And what the formulas of single nodes do to what they have just made: binary_cross_entropy_with_logits_backward of
# Loss.cpp, and atan2_backward of FunctionsManual.cpp.
_LOGITS = "BinaryCrossEntropyWithLogitsBackward"
_OF_NODE = {
    aten.sub.Tensor: (_LOGITS, aten.sub_.Tensor),
    aten.mul.Tensor: (_LOGITS, aten.mul_.Tensor),
    aten.masked_fill.Scalar: ("Atan2Backward", aten.masked_fill_.Scalar),
}


class Sums:
    """Decides about each ``aten::add.Tensor`` between two tensors on the GPU."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._operand: object = None  # what a composite that is running adds in place
        self._node: tuple[str, int] | None = None
        self._made: set[int] = set()  # storages made by the autograd node that is running
        self._owners: tuple[int, int] | None = None  # references to a sole owner's tensor, and to its storage

    @contextmanager
    def in_place(self, operand: torch.Tensor | None) -> Iterator[None]:
        """Composites in C++ that add `operand` in place, or whatever they add if it is None."""
        before = self._operand
        self._operand = _ANY if operand is None else operand
        try:
            yield
        finally:
            self._operand = before

    def calibrate(self) -> None:
        """See how many references the operand of a sum has which only autograd holds.

        The numbers are PyTorch's own affair and differ between versions, so they are taken from a
        small backward whose answer is known: two gradients that meet and that nobody else holds.
        """
        seen: list[tuple[int, int]] = []
        self._owners = None
        self._session.quiet, before = True, self._session.quiet
        self._probe = seen
        try:
            with torch.enable_grad():
                leaf = torch.ones(4, 4, device="cuda", requires_grad=True)
                met = leaf * 2
                (met.relu() * met.sigmoid()).sum().backward()
        finally:
            self._session.quiet = before
            del self._probe
        if len(seen) == 1:
            self._owners = seen[0]
        else:
            self._session.note("sums", f"{len(seen)} sums in the trial backward, wanted 1: sums stay out of place")

    def made(self, serials: Sequence[int]) -> None:
        """Take note of the storages that a call in backward made."""
        node = self._current()
        if node != self._node:
            self._node = node
            self._made.clear()
        self._made.update(serials)

    def _current(self) -> tuple[str, int] | None:
        node = torch._C._current_autograd_node()
        return None if node is None else (node.name(), node._sequence_nr())

    def _is_fan_in(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        """Whether autograd itself adds: `a` waits where `b` arrives, from the node that just ran.

        An addition within the formula of a node adds what the node has made; one written in
        Python has a Python frame.
        """
        if torch.is_grad_enabled() or a.shape != b.shape:
            return False
        node = torch._C._current_autograd_node()
        if node is None or self._session.frames.innermost() not in _ENGINE:
            return False
        if (node.name(), node._sequence_nr()) != self._node:
            return True  # the node has made nothing: it passed on what it got
        number = self._session.storages.number
        made = [number(t.untyped_storage()) in self._made for t in (a, b)]
        edges = node.next_functions
        return not all(made) or len(set(edges)) < len(edges)  # x * x sends two gradients to one place

    def _is_sole_owner(self, a: torch.Tensor) -> bool:
        """`can_accumulate_inplace` of torch/csrc/autograd/input_buffer.cpp."""
        tensor: Any = a
        counts = int(tensor._use_count()), _references(a.untyped_storage())
        if self._owners is None:
            if hasattr(self, "_probe"):
                self._probe.append(counts)
            return False
        return counts <= self._owners and counts[1] <= self._owners[1] and _is_dense(a)


@handles(aten.add.Tensor)
def _add(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    sums = session.part(Sums)
    if kwargs or len(args) != 2 or not isinstance(args[0], torch.Tensor) or not isinstance(args[1], torch.Tensor):
        return NotImplemented
    a, b = args
    if torch.sparse_coo in (a.layout, b.layout):
        return coo.sum_of(session, a, b)
    in_place = (sums._operand is b or sums._operand is _ANY) or (
        session.phases.backward_depth > 0 and sums._is_fan_in(a, b) and sums._is_sole_owner(a)
    )
    if not in_place or a.dtype != b.dtype or torch.broadcast_shapes(a.shape, b.shape) != a.shape:
        return NotImplemented
    if not isinstance(a, FakeTensor):
        return NotImplemented
    session.log(aten.add_.Tensor, args, kwargs, a)
    return a


@handles(aten.index_put.default)
def _index_put(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """`index_backward` of FunctionsManual.cpp puts the gradient into zeros of its own."""
    node = torch._C._current_autograd_node() if session.phases.backward_depth else None
    if node is None or not node.name().startswith("IndexBackward") or session.frames.innermost() not in _ENGINE:
        return NotImplemented
    session.log(aten._index_put_impl_.default, (*args, True), kwargs, args[0])
    return args[0]


@handles(*_INTO_ZEROS, *_OF_NODE)
def _formula(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
    """What the formula of a gradient does to a tensor that it has made itself."""
    sums = session.part(Sums)
    if not session.phases.backward_depth or torch.is_grad_enabled():
        return NotImplemented
    into, node = args[0], sums._current()
    if (
        node is None
        or node != sums._node
        or not isinstance(into, FakeTensor)
        or session.storages.number(into.untyped_storage()) not in sums._made
        or session.frames.innermost() not in _ENGINE
    ):
        return NotImplemented
    written = _INTO_ZEROS.get(func)
    if written is None:
        name, written = _OF_NODE[func]
        other = args[1]
        if not node[0].startswith(name) or not isinstance(other, torch.Tensor):
            return NotImplemented
        if other.dtype not in (into.dtype, torch.bool) or torch.broadcast_shapes(into.shape, other.shape) != into.shape:
            return NotImplemented
    session.log(written, args, kwargs, into)
    return into


def _references(storage: torch.UntypedStorage) -> int:
    """How many references a storage has, Python's own included."""
    count = getattr(torch._C, "_storage_Use_Count", None)  # old builds without CUDA lack it
    if count is not None:
        return int(count(storage._cdata))
    behind_the_table = storage._cdata + ctypes.sizeof(ctypes.c_void_p)  # c10::intrusive_ptr_target's first member
    return ctypes.c_uint32.from_address(behind_the_table).value


def _is_dense(tensor: torch.Tensor) -> bool:
    """`is_non_overlapping_and_dense`: a permutation of its dimensions makes it contiguous."""
    expected = 1
    for stride, size in sorted((n, s) for n, s in zip(tensor.stride(), tensor.shape, strict=True) if s != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def logged(session: Session, call: Call) -> None:
    """Take note of the storages that a call in backward made."""
    if session.phases.backward_depth:
        session.part(Sums).made(call.made)


def begin(session: Session) -> None:
    """Run the first backward passes, and see whether autograd has a thread for the pretended GPU.

    Its engine starts one for each device with the first backward pass of the process (`start_device_threads`,
    engine.cpp), and never again: where that was one of the host, or where there is no engine to be told of a GPU, each
    thread runs its own.
    """
    if session.alone:
        alone(session.patches)
    try:
        session.part(Sums).calibrate()
    except RuntimeError as error:
        if session.alone or "device_ready_queues_" not in str(error):
            raise
        session.alone = True
        alone(session.patches)
        session.part(Sums).calibrate()

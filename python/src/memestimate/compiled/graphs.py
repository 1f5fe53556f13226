"""CUDA graphs of compiled code (``mode="reduce-overhead"``, ``backend="cudagraphs"``).

PyTorch's own manager (torch/_inductor/cudagraph_trees.py) decides which function runs as it is to warm up, which is
recorded and which is replayed. Its nodes run on the pretended GPU here, where a private pool is a stream of its own.
A replay runs the function in silence: what it makes lies in the pool, which the allocator counts as reserved alone.
"""

from __future__ import annotations

import importlib
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from ..core.held import held
from ..core.session import Session


class Output:
    """A storage that a node returned; the pool has memory for it whether or not it lives."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.address = storage._cdata  # for as long as it lives
        self.bytes = storage.nbytes()
        self._storage = weakref.ref(storage)

    def alive(self) -> torch.UntypedStorage | None:
        """The storage, if anything refers to it."""
        return self._storage()


class Node:
    """One run of a function within a path of runs, each of which finds what those before it returned."""

    path_user_visible_storage_groups = ()  # since 2.15: outputs to clone, where config.triton asks for it

    def __init__(self, session: Session, function: Any, parent: Node | None, pool: Any, traces: Any, key: Any) -> None:
        self.session, self.wrapped_function, self.pool = session, function, pool
        self._parent = parent
        self.stack_traces, self.id = traces, key
        self.outputs: list[Output | None] = []
        self.children: defaultdict[Any, list[Node]] = defaultdict(list)

    @property
    def parent(self) -> Node | None:
        """The run before it."""
        return self._parent

    @property
    def _path_from_root(self) -> list[Node]:
        path = [] if self.parent is None else self.parent._path_from_root
        return [*path, self]

    def path_outputs(self) -> Iterator[Output]:
        """What is alive of all that the path returned."""
        for node in self._path_from_root:
            yield from (output for output in node.outputs if output is not None and output.alive() is not None)

    def all_outputs_are_dead(self) -> bool:
        """Whether nothing of the path is alive."""
        return not any(True for _ in self.path_outputs())

    def _is_cuda_graph_recorded_tensor(self, tensor: torch.Tensor) -> bool:
        address = _storage(tensor)._cdata
        return any(output.address == address for output in self.path_outputs())

    def add_child(self, function: Any, node: Node) -> None:
        """Another run follows this one."""
        self.children[function].append(node)

    def keep(self, outputs: Sequence[Any], given: set[int]) -> None:
        """Remember what the function returned: storages that are neither those that it was given nor twice there."""
        found, self.outputs = set(given), []
        for value in outputs:
            storage = _storage(value) if isinstance(value, torch.Tensor) and value.is_cuda else None
            fresh = storage is not None and storage._cdata not in found
            self.outputs.append(Output(storage) if storage is not None and fresh else None)
            found.update(set() if storage is None else {storage._cdata})

    @contextmanager
    def in_pool(self) -> Iterator[None]:
        """What is allocated meanwhile is the pool's."""
        with self.pool:
            self.session.follow_stream()
            yield
        self.session.follow_stream()


class Warmup(Node):
    """A run as it is, in the pool."""

    def run(self, inputs: list[Any]) -> Any:
        """Run the function; the list is emptied meanwhile."""
        given = _given(inputs, self.wrapped_function)
        with _cleared_cublas(), self.in_pool():
            outputs = self.wrapped_function.model(inputs)
        self.keep(outputs, given)
        return outputs


class Recorded(Node):
    """A run that is captured, and replayed from then on."""

    def __init__(
        self, session: Session, function: Any, key: Any, parent: Node | None, inputs: list[Any], pool: Any,
        traces: Any, stream: Any, trees: Any,
    ) -> None:  # fmt: skip
        super().__init__(session, function, parent, pool, traces, key)
        self._statuses = trees.CheckInvariantStatus
        before = [] if parent is None else parent._path_from_root
        self._before = [(output, output.alive() is None) for node in before for output in node.outputs if output]
        managed = {i for i, value in enumerate(inputs) if self._managed(value)}
        self._managed_inputs = managed
        self._fixed = set(function.static_input_idxs) | managed
        self._addresses = self._static(inputs)
        with self.in_pool():
            copies = [self._copied(i, value) for i, value in enumerate(inputs)]
        inputs.clear()
        given = _given([copies[i] for i in self._fixed], function)  # copies are the pool's own
        self.graph: Any = torch.cuda.CUDAGraph()
        with _cleared_cublas(), torch.cuda.graph(self.graph, stream=stream, pool=pool):
            session.follow_stream()
            outputs = function.model(copies)
        session.follow_stream()
        self._first: Any = outputs
        self.keep(outputs, given)

    def _managed(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and self.parent is not None and _is_of(self.parent, value)

    def _static(self, inputs: Sequence[Any]) -> dict[int, int]:
        return {
            i: _storage(inputs[i])._cdata
            for i in self._fixed - self._managed_inputs
            if isinstance(inputs[i], torch.Tensor)
        }

    def _copied(self, i: int, value: Any) -> Any:
        """What the graph reads in place of an input: a copy within the pool, unless it always lies where it lies."""
        if not isinstance(value, torch.Tensor) or i in self._fixed:
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)

    def run_first_inputs(self, inputs: list[Any]) -> Any:
        """What the recording returned."""
        outputs, self._first = self._first, None
        return outputs

    def check_invariants(self, inputs: list[Any]) -> tuple[Any, Callable[..., str]]:
        """Whether a replay finds everything where the recording found it."""
        status = self._statuses.SUCCESS
        if {i for i, value in enumerate(inputs) if self._managed(value)} != self._managed_inputs:
            status = self._statuses.CudagraphManagedIdxMismatch
        elif any(dead and output.alive() is not None for output, dead in self._before):
            status = self._statuses.ExpectedDeadIndicesBeforeGraphMismatch
        elif self._static(inputs) != self._addresses:
            status = self._statuses.StaticInputIdxMismatch
        return status, lambda: str(status)

    def mismatched_cudagraph_managed_idxs(self, inputs: list[Any]) -> tuple[int, ...]:
        """Inputs for which 2.15 stops recording anew after some tries, which is not followed."""
        return ()

    def run(self, inputs: list[Any]) -> Any:
        """Replay: the function runs, and neither it nor its memory is logged."""
        session = self.session
        quiet, session.quiet = session.quiet, True
        try:
            copies = [self._copied(i, value) for i, value in enumerate(inputs)]
            given = _given([copies[i] for i in self._fixed], self.wrapped_function)
            inputs.clear()
            outputs = self.wrapped_function.model(copies)
        finally:
            session.quiet = quiet
        for value in outputs:
            if isinstance(value, torch.Tensor) and value.is_cuda:
                session.storages.aliased(value)
        self.keep(outputs, given)
        return outputs

    def clear_path_state(self) -> None:
        """Nothing is kept that a new path has to clear."""

    remove_node_cached_tensors = clear_path_state


def install(session: Session) -> None:
    """Put the nodes in place of the real ones."""
    trees: Any = importlib.import_module("torch._inductor.cudagraph_trees")
    backward = trees.CompilationMode.BACKWARD

    def warmup(
        function: Any, parent: Any, pool: Any, graph: Any, device: int, traces: Any, stream: Any, warm: bool, key: Any
    ) -> Node:
        return Warmup(session, function, parent, pool, traces, key)

    def recorded(
        function: Any, key: Any, parent: Any, inputs: Any, pool: Any, device: int, traces: Any, stream: Any, *_: Any
    ) -> Node:
        return Recorded(session, function, key, parent, inputs, pool, traces, stream, trees)

    class Manager(trees.CUDAGraphTreeManager):  # type: ignore[misc]
        """The real one, for storages of the pretended GPU."""

        def run(self, inputs: list[Any], function_id: Any) -> Any:
            """Run a function, which within a replay nothing would show to be a forward pass."""
            within = self.id_to_mode[function_id] is backward
            with nullcontext() if within else session.phases.compiled(None):
                return super().run(inputs, function_id)

        def dealloc_current_path_weakrefs(self) -> None:
            """A new step takes the memory of what the one before returned, though the program may still refer to it."""
            self._resize(lambda output: 0)

        def apply_checkpoint_execution_state_in_allocator(self) -> None:
            """What replays returned is counted again, so that what is recorded next does not take its place."""
            self._resize(lambda output: output.bytes)

        def _resize(self, size: Callable[[Output], int]) -> None:
            node: Node = self.current_node
            with node.in_pool():
                for output in node.path_outputs():
                    storage = output.alive()
                    serial = None if storage is None else session.storages.number(storage)
                    if serial is not None:
                        session.storages.resized(serial, size(output))

    session.patches.set(trees, "CUDAWarmupNode", _callable_class(Warmup, warmup))
    session.patches.set(trees, "CUDAGraphNode", _callable_class(Recorded, recorded))
    session.patches.set(trees, "CUDAGraphTreeManager", Manager)


def _callable_class(kind: type[Node], make: Callable[..., Node]) -> type:
    """A class for isinstance that makes nodes as the manager does."""

    class Meta(type):
        def __call__(cls, *args: Any) -> Node:
            return make(*args)

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, kind)

    return Meta(kind.__name__, (), {})


@contextmanager
def _cleared_cublas() -> Iterator[None]:
    """Neither does the pool serve cuBLAS's workspaces for good, nor does a graph use those of before."""
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    return held(tensor)[0].untyped_storage()


def _is_of(node: Node, tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and node._is_cuda_graph_recorded_tensor(tensor)


def _given(inputs: Sequence[Any], function: Any) -> set[int]:
    tensors = [value for value in (*inputs, *function.constants) if isinstance(value, torch.Tensor) and value.is_cuda]
    return {_storage(tensor)._cdata for tensor in tensors}

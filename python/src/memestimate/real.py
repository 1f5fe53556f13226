"""Real values beside the pretended tensors: what each storage of the GPU would hold, on the host.

Where a step depends on values (how many boxes a network finds, which tokens an expert gets) or runs
operators that have code for the CPU and no rule of shapes, the recorder computes on real tensors, too.
What is recorded stays what CUDA runs; only the answers come from the CPU's operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from . import norms, real_rnn, sparse
from .capture import tensors

if TYPE_CHECKING:
    from .recorder import Recorder

aten = torch.ops.aten


class Real:
    """One storage on the host for each on the pretended GPU; views and writes follow from that."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._random: torch.Tensor | None = None  # state of the GPU's own generator
        recorder.storages.on_death = lambda serial: self._storages.pop(serial, None)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a tensor holds: a real one that shares its memory with all that share the pretended one's."""
        if not isinstance(tensor, FakeTensor):
            return tensor
        if tensor.layout is torch.sparse_coo:
            values, indices = map(self.of, sparse.held(tensor))
            ordered = sparse.is_coalesced(tensor)
            out: torch.Tensor = aten._sparse_coo_tensor_unsafe(indices, values, tensor.shape, is_coalesced=ordered)
            return out
        if tensor.layout is not torch.strided:
            raise NotImplementedError(f"a tensor of layout {tensor.layout} has no real one beside it")
        storage = self._storage(tensor)
        like = torch.empty(0, dtype=tensor.dtype, device="cpu")
        return like.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())

    def resized(self, serial: int, size: int) -> None:
        """A storage has another size."""
        if serial in self._storages:
            self._storages[serial].resize_(size)

    def run(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, new: set[int]) -> None:
        """Do on the host what a call does; `new` are the storages that it makes."""
        if func.namespace == "c10d" or not (new or func._schema.is_mutable):
            return
        try:
            results = self._call(func, args, kwargs)
            for fake, result in zip(tensors(out), tensors(results), strict=False):
                if isinstance(fake, FakeTensor) and self._recorder.storages.of_address(fake) in new:
                    self.of(fake).copy_(result)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
            reason = str(error).partition("\n")[0][:120]
            self._recorder.note("real", f"what {func} gives was taken to be zero: on the CPU it fails ({reason})")

    def fill(self, out: Sequence[torch.Tensor], make: Callable[[], Sequence[torch.Tensor]]) -> None:
        """Give results that were put together of others the values that the operator itself gives."""
        with torch.no_grad():
            for tensor, result in zip(out, make(), strict=True):
                self.of(tensor).copy_(result)

    def _call(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        real_args, real_kwargs = self._map(list(args)), {key: self._map(value) for key, value in kwargs.items()}
        with torch.no_grad():
            if torch.Tag.nondeterministic_seeded in func.tags:
                with torch.random.fork_rng(devices=[]):
                    if self._random is not None:
                        torch.set_rng_state(self._random)
                    out = _stand_in(func)(*real_args, **real_kwargs)
                    self._random = torch.get_rng_state()
                return out
            return _stand_in(func)(*real_args, **real_kwargs)

    def _map(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.of(value)
        if isinstance(value, (list, tuple)):
            return [self._map(item) for item in value]
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def _storage(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        serial = self._recorder.storages.of_address(tensor)
        found = self._storages.get(serial)
        if found is None:
            found = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.uint8, device="cpu").untyped_storage()
            if serial >= 0:
                self._storages[serial] = found
        return found


def _stand_in(func: OpOverload) -> Callable[..., Any]:
    """The CPU's operator for one that only a GPU has."""
    name = func._schema.name.removeprefix("aten::")
    if name.startswith("_scaled_dot_product_") and not name.endswith("_math"):
        return _attention_backward(func) if name.endswith("_backward") else _attention(func)
    return _STAND_INS.get(name, func)


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    return aten.native_batch_norm(x, weight, bias, mean, var, training, momentum, eps)


def _batch_norm_backward(
    x: Any, grad: Any, weight: Any, mean: Any, var: Any, saved_mean: Any, saved_var: Any, eps: float, reserve: Any
) -> Any:
    return aten.native_batch_norm_backward(
        grad, x, weight, mean, var, saved_mean, saved_var, True, eps, [True, True, True]
    )


_STAND_INS: dict[str, Callable[..., Any]] = {
    "cudnn_batch_norm": _batch_norm,
    "cudnn_batch_norm_backward": _batch_norm_backward,
    "cudnn_grid_sampler": lambda x, grid: aten.grid_sampler_2d(x, grid, 0, 0, True),
    "cudnn_grid_sampler_backward": lambda x, grid, grad: aten.grid_sampler_2d_backward(
        grad, x, grid, 0, 0, True, [True, True]
    ),
    **norms.STAND_INS,
    **real_rnn.STAND_INS,
}


def _named(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {a.name: value for a, value in zip(func._schema.arguments, args, strict=False)} | dict(kwargs)


def _attention(func: OpOverload) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        given = _named(func, args, kwargs)
        return [_weights(given) @ _repeated(given, "value")]

    return forward


def _attention_backward(func: OpOverload) -> Callable[..., Any]:
    def backward(*args: Any, **kwargs: Any) -> Any:
        given = _named(func, args, kwargs)
        grad = given["grad_out" if "grad_out" in given else "grad_out_"]
        weights = _weights(given)
        towards = grad @ _repeated(given, "value").transpose(-1, -2)
        scores = weights * (towards - (weights * towards).sum(-1, keepdim=True)) * _scale(given)
        key, value = scores.transpose(-1, -2) @ given["query"], weights.transpose(-1, -2) @ grad
        heads = given["key"].shape[1]
        shared = [t.unflatten(1, (heads, -1)).sum(2) for t in (key, value)]
        return [scores @ _repeated(given, "key"), *shared]

    return backward


def _weights(given: Mapping[str, Any]) -> torch.Tensor:
    """What each query takes of each value, without dropout."""
    scores: torch.Tensor = given["query"] @ _repeated(given, "key").transpose(-1, -2) * _scale(given)
    if given.get("attn_bias") is not None:
        scores = scores + given["attn_bias"]
    if given.get("is_causal"):
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cpu").tril()
        scores = scores.masked_fill(seen.logical_not(), -math.inf)
    return scores.softmax(-1)


def _repeated(given: Mapping[str, Any], name: str) -> torch.Tensor:
    tensor: torch.Tensor = given[name]
    return tensor.repeat_interleave(given["query"].shape[1] // tensor.shape[1], 1)


def _scale(given: Mapping[str, Any]) -> float:
    scale: float | None = given.get("scale")
    return given["query"].shape[-1] ** -0.5 if scale is None else scale

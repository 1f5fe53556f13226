"""Real values beside the pretended tensors: what each storage of the GPU would hold, on the host.

Where a step depends on values (how many boxes a network finds, which tokens an expert gets) or runs
operators that have code for the CPU and no rule of shapes, the recorder computes on real tensors, too.
What is recorded stays what CUDA runs; only the answers come from the CPU's operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ..core.held import held, is_coalesced
from ..core.session import Session
from ..core.tensors import on_host, tensors
from . import stand_ins

aten = torch.ops.aten


class Real:
    """One storage on the host for each on the pretended GPU; views and writes follow from that."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._random: torch.Tensor | None = None  # state of the GPU's own generator
        session.storages.on_death = lambda serial: self._storages.pop(serial, None)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a tensor holds: a real one that shares its memory with all that share the pretended one's."""
        if not isinstance(tensor, FakeTensor):
            return tensor
        if tensor.layout is torch.sparse_coo:
            values, indices = map(self.of, held(tensor))
            ordered = is_coalesced(tensor)
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
            with _untraced():
                results = self._call(func, args, kwargs)
                for fake, result in zip(tensors(out), tensors(results), strict=False):
                    if not isinstance(fake, FakeTensor) or self._session.storages.of_address(fake) not in new:
                        continue
                    if (fake.numel() and result.numel()) or fake.shape == result.shape:
                        self.of(fake).copy_(result)  # what one of the two leaves empty is for its own backward pass
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
            reason = str(error).partition("\n")[0][:120]
            self._session.note("real", f"what {func} gives was taken to be zero: on the CPU it fails ({reason})")

    def fill(self, out: Sequence[torch.Tensor], make: Callable[[], Sequence[torch.Tensor]]) -> None:
        """Give results that were put together of others the values that the operator itself gives."""
        with torch.no_grad():
            for tensor, result in zip(out, make(), strict=True):
                self.of(tensor).copy_(result)

    def _call(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        real_args, real_kwargs = (
            on_host(list(args), self.of),
            {key: on_host(value, self.of) for key, value in kwargs.items()},
        )
        with torch.no_grad():
            if torch.Tag.nondeterministic_seeded in func.tags:
                with torch.random.fork_rng(devices=[]):
                    if self._random is not None:
                        torch.set_rng_state(self._random)
                    out = stand_ins.run(func, real_args, real_kwargs)
                    self._random = torch.get_rng_state()
                return out
            return stand_ins.run(func, real_args, real_kwargs)

    def _storage(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        serial = self._session.storages.of_address(tensor)
        found = self._storages.get(serial)
        if found is None:
            found = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.uint8, device="cpu").untyped_storage()
            if serial >= 0:
                self._storages[serial] = found
        return found


def _untraced() -> AbstractContextManager[Any]:
    """Without the eyes of `make_fx`, by which flex_attention looks at the function of its scores."""
    traced = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None
    return _disable_current_modes() if traced else nullcontext()

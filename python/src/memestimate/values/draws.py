"""Random numbers that a program draws on the GPU: drawn here, since any that the generator may give are as good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

# Coins, indices and orders, by which programs decide. Numbers of a normal distribution stand for data.
_DRAWN = ("rand", "rand_like", "randint", "randint_like", "randperm", "random_", "uniform_", "bernoulli_")
_OF_VALUES = ("bernoulli", "multinomial")  # whose probabilities are values
_SEED = 0


class Draws:
    """A generator beside the program's own, so that those of the host give what they would without a recording."""

    def __init__(self) -> None:
        self._state = torch.Generator().manual_seed(_SEED).get_state()

    def draw(
        self,
        func: OpOverload,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        real: Callable[[Any, bool], Any],
    ) -> torch.Tensor | None:
        """What a call draws, on the host; None if it draws nothing, or from what is not known.

        `real` gives arguments with what tensors hold, or with others of their shapes.
        """
        name = func._schema.name.removeprefix("aten::")
        if name not in _DRAWN + _OF_VALUES:
            return None
        shapes_only = name in _DRAWN and not any(isinstance(a, torch.Tensor) for a in args[1:])
        positional, keywords = real([_on_host(a) for a in args], shapes_only), real(kwargs, False)
        if positional is None or keywords is None:
            return None
        keywords = {key: _on_host(value) for key, value in keywords.items()}
        before = torch.get_rng_state()
        torch.set_rng_state(self._state)
        try:
            with torch.no_grad():
                out = func(*positional, **keywords)
            self._state = torch.get_rng_state()
        except (RuntimeError, TypeError, ValueError):
            return None
        finally:
            torch.set_rng_state(before)
        return out if isinstance(out, torch.Tensor) else None


def _on_host(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value

"""Measure what optimizers allocate: estimate/torch/testdata/optimizers.json.gz.

    python3 optimizers.py OUT.json.gz

writes the sizes that the first and the second optimizer.step() allocated over eight parameters of 4 MiB with
gradients, in order, and less than 0 those that they freed; and the same of clip_grad_norm_ and GradScaler.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, optim
from torch.amp.grad_scaler import GradScaler

sys.path.insert(0, str(Path(__file__).parent))
import allocator

COUNT, SHAPE = 8, (1 << 20,)
MATRICES = ("adafactor", "muon")  # they treat vectors otherwise
KINDS: dict[str, dict[str, bool]] = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "loop": {"foreach": False},
}
LISTS, FUSED = ("default", "foreach", "loop"), ("default", "foreach", "fused", "loop")
OPTIMIZERS: dict[str, tuple[Callable[..., optim.Optimizer], dict[str, Any], tuple[str, ...]]] = {
    "sgd": (optim.SGD, {}, FUSED),
    "sgdm": (optim.SGD, {"momentum": 0.9}, FUSED),
    "sgdm-nesterov": (optim.SGD, {"momentum": 0.9, "nesterov": True}, FUSED),
    "sgdm-wd": (optim.SGD, {"momentum": 0.9, "weight_decay": 0.01}, FUSED),
    "adam": (optim.Adam, {}, FUSED),
    "adam-amsgrad": (optim.Adam, {"amsgrad": True}, FUSED),
    "adam-wd": (optim.Adam, {"weight_decay": 0.01}, FUSED),
    "adamw": (optim.AdamW, {}, FUSED),
    "adamax": (optim.Adamax, {}, LISTS),
    "nadam": (optim.NAdam, {}, LISTS),
    "radam": (optim.RAdam, {}, LISTS),
    "rmsprop": (optim.RMSprop, {}, LISTS),
    "rmsprop-momentum": (optim.RMSprop, {"momentum": 0.9}, LISTS),
    "adagrad": (optim.Adagrad, {}, LISTS),
    "adadelta": (optim.Adadelta, {}, LISTS),
    "adafactor": (optim.Adafactor, {}, ("default", "loop")),
    "muon": (optim.Muon, {}, ("default",)),
}


def parameters(shape: tuple[int, ...], dtype: torch.dtype) -> list[Tensor]:
    """Make parameters with gradients."""
    made = [torch.randn(*shape, dtype=dtype).requires_grad_() for _ in range(COUNT)]
    for p in made:
        p.grad = torch.randn_like(p)
    return made


def steps(name: str, kind: str, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    """Measure two steps of an optimizer."""
    make, settings, _ = OPTIMIZERS[name]
    of = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    optimizer = make(parameters(shape, of), lr=1e-4, **settings, **KINDS[kind])
    (_, first), (_, steady) = (allocator.sizes_of(optimizer.step) for _ in range(2))
    about = {"name": name, "kind": kind, "dtype": dtype, "shape": list(shape)}
    return {**about, "first": first, "first_cut": False, "steady": steady, "steady_cut": False}


def helpers() -> dict[str, Any]:
    """Measure clipping, and what GradScaler does in a step."""
    own = parameters(SHAPE, torch.float32)
    _, clip = allocator.sizes_of(lambda: torch.nn.utils.clip_grad_norm_(own, 1.0))
    scaler, optimizer = GradScaler("cuda"), torch.optim.SGD(own, lr=1e-4)
    loss = torch.ones(())
    _, scale = allocator.sizes_of(lambda: scaler.scale(loss))
    _, unscale = allocator.sizes_of(lambda: scaler.unscale_(optimizer))
    scaler.step(optimizer)
    _, update = allocator.sizes_of(scaler.update)
    return {"clip": clip, "scale": scale, "unscale": unscale, "update": update}


def questions() -> list[tuple[str, str, tuple[int, ...], str]]:
    """Return what is measured: the name, the kind, the shape and the dtype."""
    plain = [(name, kind, SHAPE, "fp32") for name, (_, _, kinds) in OPTIMIZERS.items() for kind in kinds]
    matrices = [(*case[:2], (1024, 1024), case[3]) if case[0] in MATRICES else case for case in plain]
    return [*matrices, ("adamw", "default", (2 << 20,), "bf16")]


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    args = parser.parse_args(arguments)
    torch.set_default_device("cuda")
    cases = [steps(*question) for question in questions()]
    source = allocator.provenance("signed allocation sizes of the first and the second optimizer.step()")
    allocator.write(args.out, {"source": source, "cases": cases, "helpers": helpers()})
    print(f"{args.out}: {len(cases)} optimizers")
    return 0


if __name__ == "__main__":
    sys.exit(main())

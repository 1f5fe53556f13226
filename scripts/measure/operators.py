"""Measure what single operators allocate: the swept rows of operator-events.json.gz and operators.json.gz.

    python3 operators.py OUT.json.gz [--only sdpa,lstm] [--seconds N]

runs operators over many shapes, each once before it counts, and writes for each the sizes that its forward and its
backward pass allocated, in order, with those that they freed less than 0. These are the rows under "swept" in
estimate/torch/testdata/operator-events.json.gz; simulate/kernels/testdata/operators.json.gz has those of recurrent
layers, tables and norms. Shapes are drawn at random, always the same ones.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
import allocator

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
TWO = ("fp32", "bf16")


class Call(NamedTuple):
    """An operator at one shape: what is written of it, and how it is made, on the device that is the default."""

    about: dict[str, Any]
    make: Callable[[], tuple[Callable[..., Any], list[Tensor]]]


def leaf(*shape: int, dtype: str) -> Tensor:
    """Make an input that collects a gradient."""
    return torch.randn(*shape, dtype=DTYPES[dtype]).requires_grad_()


def of_layer(layer: Callable[[], nn.Module], shape: list[int], dtype: str, last: bool = False) -> Any:
    """Return how a layer and its input are made."""

    def make() -> tuple[Callable[..., Any], list[Tensor]]:
        form = torch.channels_last if last else torch.contiguous_format
        m: Any = layer().to(DTYPES[dtype])
        x = torch.randn(*shape, dtype=DTYPES[dtype])
        if last:
            m, x = m.to(memory_format=form), x.to(memory_format=form)
        return m, [x.requires_grad_(shape[1] != 3)]

    return make


def attentions(choose: random.Random) -> Iterator[Call]:
    """Scaled dot product attention: plain, causal, masked, with dropout, from joined heads."""
    lengths = [49, 64, 100, 128, 197, 256, 384, 512, 1000, 1024, 2048]
    for _ in range(70):
        b, h = choose.choice([1, 2, 4, 8, 16, 32]), choose.choice([1, 4, 6, 8, 12, 16, 32])
        s, d = choose.choice(lengths), choose.choice([16, 32, 40, 64, 72, 80, 96, 128, 160, 256])
        if b * h * s * s * 4 > 4 << 30:
            continue
        for dtype in TWO:
            for kind in ("none", "causal", "fmask", "drop", "heads"):
                about: dict[str, Any] = {"op": "sdpa", "dtype": dtype, "kind": kind, "b": b, "h": h, "s": s, "d": d}
                yield Call(about, partial(attention, b, h, s, d, dtype, kind))


def attention(b: int, h: int, s: int, d: int, dtype: str, kind: str) -> tuple[Callable[..., Any], list[Tensor]]:
    """Make one attention and its queries, keys and values."""
    if kind == "heads":

        def joined(*parts: Tensor) -> Tensor:
            q, k, v = (t.view(b, s, h, d).transpose(1, 2) for t in parts)
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, h * d)

        return joined, [leaf(b, s, h * d, dtype=dtype) for _ in range(3)]
    kinds: dict[str, dict[str, Any]] = {
        "none": {},
        "causal": {"is_causal": True},
        "fmask": {"attn_mask": torch.zeros(b, 1, s, s, dtype=DTYPES[dtype])},
        "drop": {"dropout_p": 0.1},
    }
    run = partial(F.scaled_dot_product_attention, **kinds[kind])
    return run, [leaf(b, h, s, d, dtype=dtype) for _ in range(3)]


def recurrent(choose: random.Random) -> Iterator[Call]:
    """LSTM, GRU and RNN."""
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for _ in range(25):
            b, steps = choose.choice([1, 8, 16, 64, 128]), choose.choice([16, 50, 100, 200])
            n, hidden = choose.choice([64, 128, 256, 512]), choose.choice([64, 128, 256, 512, 1024])
            layers, both, dropout = choose.choice([1, 2, 3]), choose.random() < 0.3, choose.choice([0, 0, 0.2])
            dropout = dropout if layers > 1 else 0
            for dtype in TWO:
                about: dict[str, Any] = {
                    "op": kind.__name__.lower(),
                    "dtype": dtype,
                    "x": [b, steps, n],
                    "hidden": hidden,
                }
                about |= {"layers": layers, "bi": both, "dropout": dropout}
                sizes = {"batch_first": True, "bidirectional": both, "dropout": dropout}
                build = partial(kind, n, hidden, layers, **sizes)
                yield Call(about, of_layer(build, [b, steps, n], dtype))


def linears(choose: random.Random) -> Iterator[Call]:
    """Linear layers, with and without bias."""
    for _ in range(60):
        n, i = choose.choice([8, 64, 512, 4096, 16384]), choose.choice([64, 256, 768, 1024, 4096])
        o, bias = choose.choice([2, 10, 64, 768, 1000, 3072, 4096, 50257]), choose.random() < 0.6
        for dtype in TWO:
            about = {"op": "linear", "dtype": dtype, "x": [n, i], "w": [o, i], "bias": bias}
            yield Call(about, of_layer(partial(nn.Linear, i, o, bias=bias), [n, i], dtype))


def tables(choose: random.Random) -> Iterator[Call]:
    """Embeddings, and the same read by an index."""
    for _ in range(30):
        v, d = choose.choice([100, 10000, 50257, 128256]), choose.choice([64, 256, 768, 1024])
        n = choose.choice([16, 128, 1024, 3072, 3073, 4096, 16384, 65536])
        for op in ("embedding", "index_put"):

            def make(op: str = op, v: int = v, d: int = d, n: int = n) -> tuple[Callable[..., Any], list[Tensor]]:
                ids = torch.randint(0, v, (n,))
                return (lambda w: F.embedding(ids, w) if op == "embedding" else w[ids]), [leaf(v, d, dtype="fp32")]

            yield Call({"op": op, "dtype": "fp32", "w": [v, d], "n": n}, make)


def norms(_: random.Random) -> Iterator[Call]:
    """Batch, layer and root mean square norms."""
    images = [(8, 64, 56), (32, 64, 112), (32, 256, 56), (64, 512, 7), (2, 2048, 7), (16, 24, 112), (8, 1280, 7)]
    for n, c, h in [*images, (4, 3, 224)]:
        for dtype in DTYPES:
            for last in (False, True):
                about = {"op": "batch_norm", "dtype": dtype, "layout": "nhwc" if last else "nchw", "x": [n, c, h, h]}
                yield Call(about, of_layer(partial(nn.BatchNorm2d, c), [n, c, h, h], dtype, last))
    rows = [(64, 64), (6304, 768), (4096, 1024), (25088, 96), (4096, 768), (8, 4096), (65536, 192)]
    for n, d in rows:
        for dtype in TWO:
            for op, kind in (("layer_norm", nn.LayerNorm), ("rms_norm", nn.RMSNorm)):
                about = {"op": op, "dtype": dtype, "x": [n, d]}
                yield Call(about, of_layer(partial(kind, d), [n, d], dtype))


FAMILIES: dict[str, Callable[[random.Random], Iterator[Call]]] = {
    "sdpa": attentions,
    "rnn": recurrent,
    "linear": linears,
    "embedding": tables,
    "norm": norms,
}


def one(call: Call) -> dict[str, Any]:
    """Measure an operator."""
    try:
        run, inputs = call.make()
        first = _tensor(run(*inputs))
        first.backward(torch.ones_like(first))
        own = [*inputs, *(run.parameters() if isinstance(run, nn.Module) else ())]
        del first
        for t in own:
            t.grad = None
        out, forward = allocator.sizes_of(lambda: run(*inputs))
        y = _tensor(out)
        del out
        gradient = torch.ones_like(y)
        _, backward = allocator.sizes_of(lambda: y.backward(gradient))
    except (RuntimeError, torch.OutOfMemoryError) as error:
        return {**call.about, "error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return {**call.about, "out": list(y.shape), "fwd": forward, "bwd": backward}


def _tensor(out: Any) -> Tensor:
    first: Tensor = out[0] if isinstance(out, tuple) else out
    return first


def calls(families: list[str]) -> Iterator[Call]:
    """Return the calls of some families, the same ones whichever others are left out."""
    for name in families:
        yield from FAMILIES[name](random.Random(name))


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help=f"some of {', '.join(FAMILIES)}, with commas")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args(arguments)
    families = [name for name in args.only.split(",") if name] or list(FAMILIES)
    if unknown := [name for name in families if name not in FAMILIES]:
        parser.error(f"no operators {unknown[0]!r}: want some of {', '.join(FAMILIES)}")
    end, rows = time.monotonic() + args.seconds, []
    torch.set_default_device("cuda")
    for call in calls(families):
        if time.monotonic() > end:
            print("the time is over", file=sys.stderr)
            break
        rows.append(one(call))
    what = "operator shapes with the signed sizes of the allocations of the forward and the backward pass, in bytes"
    allocator.write(args.out, {"provenance": allocator.provenance(what), "rows": rows})
    print(f"{args.out}: {len(rows)} operators, {sum('error' in row for row in rows)} of them failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure what cuDNN takes while it searches for its fastest engines: simulate/kernels/testdata/searches.jsonl.gz.

    python3 searches.py OUT.jsonl.gz --seconds 90 [--seed 17]     on a GPU
    python3 searches.py OUT.jsonl.gz --of ON_GPU.jsonl.gz         without one: what can be known there

Each line is a pass of a convolution under torch.backends.cudnn.benchmark, as memestimate.convolutions has it ("of"):
"search", the bytes that its first call requests beyond its result, "then", those of the second, by the engine that was
found, and "plans", the number of the engine and the workspace of each plan that cuDNN offers, in its order. Shapes are
those of convolutions.bin.gz that models have, with batches of their own, and some that are made up. Without a GPU a
line has "plans" alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
from choices import OnGPU, asked, made_up
from convolutions import DTYPES, decode
from memestimate.pretend import convolutions as recorded
from memestimate.pretend import cudnn_answers
from memestimate.api.gpus import find

MEASURED = Path(__file__).parents[2] / "simulate/kernels/testdata/convolutions.bin.gz"
TYPES = ("float32", "bfloat16", "float16")
MOST = 1 << 29  # numbers of a tensor
BOTH = (0, 2)  # heuristics: instant and fallback


def passes(seed: int) -> Iterator[recorded.Asked]:
    """Passes in random order: five of models for each that is made up."""
    choose = random.Random(seed)
    rows = [row for row in decode(gzip.decompress(MEASURED.read_bytes()))[0] if row.model and row.dtype < 2]
    choose.shuffle(rows)
    for i, row in enumerate(rows):
        for one in asked(row) + (asked(made_up(1, seed + i)[0]) if i % 5 == 0 else []):
            if max(numel(one.x), numel(one.y)) < MOST and not one.native():
                yield one


def numel(shape: tuple[int, ...]) -> int:
    """Count the numbers of a tensor."""
    return torch.Size(shape).numel()


def tensors(one: recorded.Asked) -> list[torch.Tensor]:
    """Make the operands of a pass on the GPU: x, w and y."""
    dtype = DTYPES[TYPES.index(one.dtype)]
    made = [torch.empty(shape, dtype=dtype, device="cuda") for shape in (one.x, one.w, one.y)]
    form = {4: torch.channels_last, 5: torch.channels_last_3d}[len(one.x)]
    return [t.to(memory_format=form) for t in made] if one.channels_last else made


def call(one: recorded.Asked, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> int:
    """Run a pass, and return the bytes that it requested at its peak beyond its result."""
    sizes = zip(one.x[2:], one.w[2:], one.y[2:], one.stride, one.dilation, one.padding, strict=True)
    extra = [b - ((a - 1) * s - 2 * p + d * (k - 1) + 1) if one.transposed else 0 for a, k, b, s, d, p in sizes]
    spread = (list(one.stride), list(one.padding), list(one.dilation), one.transposed, extra, one.groups)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    if one.operation == "forward":
        out: Any = torch.ops.aten.convolution(x, w, None, *spread)
    else:
        mask = [one.operation == "input", one.operation == "weight", False]
        out = torch.ops.aten.convolution_backward(y, x, w, None, *spread, mask)
        out = out[0] if mask[0] else out[1]
    torch.cuda.synchronize()
    bytes_ = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before - out.nbytes
    return int(bytes_)


def plans(library: Any, device: Any, one: recorded.Asked) -> list[list[int]]:
    """List the plans that cuDNN offers: the number of the engine, and bytes of the workspace."""
    question: Any = {"allow_tf32": True, "deterministic": False}
    try:
        offered = list(cudnn_answers._plans(library, device, one.question(), question, BOTH))
    except cudnn_answers.CuDNNError:
        return []
    finally:
        library.free()
    return [[json.loads(text)["engine"]["engineId"] if text else -1, size] for size, text in offered]


def measure(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Run passes on the GPU until the time is over."""
    torch.backends.cudnn.benchmark = True
    torch.zeros(1, device="cuda")
    library = OnGPU(str(recorded.library()))
    end = time.monotonic() + args.seconds
    for one in passes(args.seed):
        if time.monotonic() > end:
            return
        try:
            operands = tensors(one)
            search, then = call(one, *operands), call(one, *operands)
        except RuntimeError as error:
            print(one, error, file=sys.stderr)
            torch.cuda.empty_cache()
            continue
        del operands
        yield {"of": list(one), "search": search, "then": then, "plans": plans(library, None, one)}


def without(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Ask about the passes of a file without a GPU."""
    gpu = find("h200")
    library = cudnn_answers._Library(str(recorded.library()))
    described = recorded._HOPPER | {"totalGlobalMem": gpu.memory, "deviceName": gpu.name}
    device = library.device(json.dumps(described, separators=(",", ":")))
    with gzip.open(args.of, "rt") as lines:
        for line in lines:
            of = [tuple(v) if isinstance(v, list) else v for v in json.loads(line)["of"]]
            yield {"of": of, "plans": plans(library, device, recorded.Asked(*of))}


def main() -> None:
    """Measure or ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--of", type=Path)
    args = parser.parse_args()
    with gzip.open(args.out, "wt") as out:
        for line in without(args) if args.of else measure(args):
            out.write(json.dumps(line, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

"""Ask cuDNN which engine runs a convolution and what it takes, on a GPU and without one: OUT.jsonl.gz.

    python3 engines.py OUT.jsonl.gz --seconds 60 [--named FILE] [--processes 16] [--seed 11]    on a GPU
    python3 engines.py OUT.jsonl.gz --of ON_GPU.jsonl.gz --seconds 60                            without one, the same

Each line is a convolution and, of each of its passes that cuDNN names an engine for, the engine with its knobs and the
bytes of its plan. Nothing is computed. Where both name the same engine and knobs, the difference of the bytes is what
cuDNN can only say where it can ask how many blocks fit a multiprocessor. Shapes are made up as small programs have
them and as those of choices.py; those of FILE, which convolutions.py reads as well, go first.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
import choices
import torch
from convolution_shapes import everyday_shape, random_shape, sequence_shape, small_shape
from convolutions import Row, layer_of, named
from memestimate.pretend import convolutions as recorded
from memestimate.pretend import cudnn_answers
from memestimate.api.gpus import find

BATCHES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64, 64, 96, 128, 256)
SIZES = tuple(Row._fields[1:-1])  # what a line has of a row
DESCRIPTION = 405  # attribute of a plan: JSON


def engine_of(library: Any, device: Any, one: recorded.Asked) -> list[Any] | None:
    """Return the number, knobs and bytes of the engine that PyTorch would run."""
    try:
        for config in library.configs(library.graph(one.question()), device, 0):
            if 1 in library.notes(config):  # it converts its inputs
                continue
            try:
                return described(library, config, device)
            except cudnn_answers.CuDNNError:
                continue
    except cudnn_answers.CuDNNError:
        pass
    finally:
        library.free()
    return None


def described(library: Any, config: Any, device: Any) -> list[Any]:
    """Build the plan of a configuration and read its description."""
    plan = library.make(5)
    library.put(plan, 401, 15, ctypes.c_void_p, config)
    library.put(plan, 407, 15, ctypes.c_void_p, device)
    library.finalized(plan)
    size, text = (ctypes.c_int64 * 1)(), (ctypes.c_char * 20000)()
    library.get(plan, 402, 3, size)
    count = library.get(plan, DESCRIPTION, 24, text)
    engine = json.loads(text.raw[:count].split(b"\0")[0])["engine"]
    knobs = {name.removeprefix("CUDNN_KNOB_TYPE_"): value for name, value in engine["knobChoices"].items()}
    return [engine["engineId"], knobs, size[0]]


def one_row(shape: Any, batch: int, dtype: int, last: bool, model: str = "") -> Row | None:
    """Make the row of a shape, without workspaces; None where there is none that cuDNN runs at once."""
    try:
        with torch.device("meta"):
            y = layer_of(shape)(torch.empty(batch, shape.c, *shape.x)).shape
    except RuntimeError:
        return None
    numbers = max(y.numel(), batch * shape.c * torch.Size(shape.x).numel())
    if numbers >= choices.LARGEST or 1 < shape.groups == shape.c:
        return None
    head = (model, dtype, last and len(shape.x) > 1, shape.transposed, shape.groups, batch, shape.c, shape.k)
    return Row(*head, shape.x, shape.w, tuple(y[2:]), shape.stride, shape.dilation, (-1, -1, -1))


def rows_of(args: argparse.Namespace, part: int) -> Iterator[Row]:
    """Make convolutions up, without an end; those of a file first."""
    if args.of:
        with gzip.open(args.of, "rt") as lines:
            for i, line in enumerate(lines):
                if i % args.processes == part:
                    sizes = [tuple(v) if isinstance(v, list) else v for v in json.loads(line)["of"]]
                    yield Row("", *sizes, (-1, -1, -1))
        return
    if args.named:
        for _, shape, batch, dtype, last in named(args.named, (part, args.processes)):
            row = one_row(shape, batch, dtype, last, "named")
            if row:
                yield row
    choose = random.Random(args.seed * 1000 + part)
    while True:
        kind = choose.choice([small_shape, small_shape, small_shape, everyday_shape, random_shape, sequence_shape])
        dtype = choose.choice([0, 0, 0, 0, 1, 1, 2])
        row = one_row(kind(choose), choose.choice(BATCHES), dtype, choose.random() < 0.15)
        if row:
            yield row


def work(job: tuple[argparse.Namespace, int]) -> list[str]:
    """Ask until the time is over."""
    args, part = job
    library: Any
    device = None
    if args.of:
        library = cudnn_answers._Library(str(recorded.library()))
        gpu = find("h200")
        described = recorded._HOPPER | {
            "multiProcessorCount": gpu.multiprocessors,
            "totalGlobalMem": gpu.memory,
            "deviceName": gpu.name,
        }
        device = library.device(json.dumps(described, separators=(",", ":")))
    else:
        torch.zeros(1, device="cuda")
        library = choices.OnGPU(str(recorded.library()))
    lines, end = [], time.monotonic() + args.seconds
    for row in rows_of(args, part):
        if time.monotonic() > end:
            break
        passes = [engine_of(library, device, one) for one in choices.asked(row)]
        if any(passes):
            of = [getattr(row, name) for name in SIZES]
            lines.append(json.dumps({"of": of, "named": row.model, "passes": passes}, separators=(",", ":")))
    return lines


def main() -> None:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--named", type=Path)
    parser.add_argument("--of", type=Path)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    if args.of:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool, gzip.open(args.out, "wt") as out:
        for lines in pool.imap_unordered(work, [(args, part) for part in range(args.processes)]):
            out.writelines(line + "\n" for line in lines)


if __name__ == "__main__":
    main()

"""Ask cuDNN about convolutions that may run on engines which it does not offer without a GPU.

    python3 apart.py OUT.jsonl.gz --seconds 300 [--part 0]                   on a GPU
    python3 apart.py OUT.jsonl.gz --seconds 300 [--part 0] --without          without one, about the same
    python3 apart.py --pack simulate/kernels/testdata GPU.jsonl.gz... --without WITHOUT.jsonl.gz...

The last makes apart.bin.gz, which odds.py learns from, and of every fifth layer apart_judge.bin.gz and, asked without
a GPU, apart_answers.bin.gz. On an H200 with 16 processors 247,000 were asked about in 300 s on 2026-11-29, 189,000 of
them without the GPU too. Of those the files have what runs in row-major order: 1x1 filters, and in float32 others, of
groups those of 3x3.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
import zlib
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import torch
from choices import OnGPU, asked
from convolution_shapes import everyday_shape, numbers, random_shape, sequence_shape, small_shape
from convolutions import NOT_SEEN, Row, encode, size_of
from memestimate.api.gpus import find
from memestimate.pretend import convolutions as recorded
from memestimate.pretend import cudnn_answers

FEW = numbers("1 1 2 3 3 4 5 6 7 8 9 10 12")
USUAL = numbers("8 16 16 20 24 32 32 32 48 64 64 64 64 96 128 128 128 192 256 256 320 384 512 512 768 1024 2048")
ODD = [
    *numbers("14 18 19 21 28 30 36 40 44 50 56 60 72 80 88 100 112 120 144 150 160 168 176 200 224 240 288 300"),
    *numbers("448 480 576 640 672 960 1152 1280"),
]
BATCHES = [
    *numbers("1 1 2 3 4 4 6 8 8 10 12 16 16 20 24 32 32 32 48 50 64 64 64 96 100 128 128 128 200 256 256 512"),
    *numbers("1024 2048"),
]
SIDES = [
    *numbers("4 5 6 7 7 8 8 10 12 13 14 14 15 16 16 18 20 24 26 27 28 28 30 32 32 35 36 40 44 48 52 55 56 60 64"),
    *numbers("64 72 75 80 84 96 100 112 112 120 128 128 144 150 160 192 224 224 240 256 256 299 320 384 448 512"),
]
LENGTHS = [
    *numbers("8 16 24 25 32 48 50 64 96 100 128 160 187 200 224 250 256 300 336 400 500 512 720 750 1000 1024"),
    *numbers("1500 2000 2048 3000 4000 4096 8000 8192 16000 16384"),
]
FILTERS = numbers("2 3 3 3 3 3 4 4 5 5 5 6 7 7 8 9 10 11 13 15 16 17 21 25 31")
GROUPS = numbers("2 2 3 4 4 6 8 8 10 12 16 20 24 32 32 40 48 64 100 128")
OF_A_GROUP = numbers("1 2 3 4 6 8 12 16 20 24 32 40 48 64 80 96 112 128 192 256")
DEPTHS = numbers("1 2 4 6 8 12 16 24 32 40 48 64")
LARGEST = 1 << 29  # numbers of a tensor
KNOBS = ("TILE_SIZE", "TILE_CGA_M", "TILE_CGA_N", "WORKSPACE", "SPLIT_K", "SPLIT_COLS")


def channels(choose: random.Random) -> int:
    """Choose few, odd or usual channels."""
    share = choose.random()
    return choose.choice(FEW if share < 0.12 else ODD if share < 0.32 else USUAL)


def made(head: Sequence[Any], x: Sequence[int], layer: Sequence[Sequence[int]]) -> Row | None:
    """Make a row of a type, order, direction, groups, batch and channels; `layer` as Shape has it; none if it is none."""
    dtype, last, transposed, groups, batch, c, k = head
    w, stride, padding, dilation = layer
    sizes = zip(padding, x, w, (0,) * len(x), stride, dilation, strict=True)
    y = tuple(size_of(transposed, *one) for one in sizes)
    if min(y) < 1 or c % groups or k % groups or 1 < groups == c:
        return None
    if max(batch * c * prod(x), batch * k * prod(y), c * k // groups * prod(w)) >= LARGEST:
        return None
    last = last and len(x) > 1
    spread = tuple(stride), tuple(dilation), (NOT_SEEN,) * 3
    return Row("", dtype, last, transposed, groups, batch, c, k, tuple(x), tuple(w), y, *spread)


def transformed(choose: random.Random) -> Row | None:
    """Choose float32 and filters of more than one pixel, mostly at stride 1."""
    f, one = choose.choice(FILTERS), choose.random()
    high = choose.choice(SIDES)
    wide = high if choose.random() < 0.7 else choose.choice(SIDES)
    w = (f, f) if one < 0.9 else (1, f) if one < 0.95 else (f, 1)
    s = (1, 1) if choose.random() < 0.9 else (2, 2)
    how = choose.random()
    p = [n // 2 if how < 0.65 else 0 if how < 0.85 else n - 1 if how < 0.92 else choose.randrange(n) for n in w]
    if choose.random() < 0.05:
        high, w, p = 1, (1, f), [0, p[1]]
    head = (0, choose.random() < 0.08, choose.random() < 0.1, 1, choose.choice(BATCHES))
    return made((*head, channels(choose), channels(choose)), (high, wide), (w, s, p, (1, 1)))


def product(choose: random.Random) -> Row | None:
    """Choose a 1x1 filter at stride 1."""
    dims = choose.choice((1, 2, 2, 2, 2, 3))
    if dims == 1:
        x: tuple[int, ...] = (choose.choice(LENGTHS),)
    elif dims == 2:
        side = choose.choice((1, 1, 2, 3, *SIDES))
        x = (side, side if choose.random() < 0.75 else choose.choice(SIDES))
    else:
        side = choose.choice(DEPTHS)
        x = (choose.choice((side, side, 4, 8, 16)), side, side)
    one, dtype = (1,) * dims, choose.choice((0, 0, 1, 1, 2))
    head = (dtype, choose.random() < 0.25, choose.random() < 0.03, 1, choose.choice(BATCHES))
    return made((*head, channels(choose), channels(choose)), x, (one, one, (0,) * dims, one))


def grouped(choose: random.Random) -> Row | None:
    """Choose groups, not depthwise."""
    groups, dims, f = choose.choice(GROUPS), choose.choice((1, 2, 2, 2, 2, 2, 3)), choose.choice((1, 3, 3, 3, 3, 5, 7))
    x = (choose.choice(LENGTHS),) if dims == 1 else (choose.choice(SIDES),) * dims
    x = tuple(min(n, 48) for n in x) if dims == 3 else x
    s, d = (choose.choice((1, 1, 1, 2)),) * dims, (choose.choice((1,) * 9 + (2,)),) * dims
    dtype = choose.choice((0, 0, 1, 1, 2))
    head = (dtype, choose.random() < 0.3, choose.random() < 0.05, groups, choose.choice(BATCHES))
    numbers_of = (groups * choose.choice(OF_A_GROUP), groups * choose.choice(OF_A_GROUP))
    return made((*head, *numbers_of), x, ((f,) * dims, s, [n * (f // 2) for n in d], d))


def other(choose: random.Random) -> Row | None:
    """Choose one as all kinds of models have them."""
    s = choose.choice((everyday_shape, random_shape, sequence_shape, small_shape))(choose)
    dtype, last = choose.choice((0, 0, 0, 1, 1, 2)), choose.random() < 0.25
    head = (dtype, last, s.transposed, s.groups, choose.choice(BATCHES), s.c, s.k)
    return made(head, s.x, (s.w, s.stride, s.padding, s.dilation))


def rows(part: int) -> Iterator[Row]:
    """Make convolutions up, without an end."""
    choose = random.Random(42_000 + part)
    while True:
        make = choose.choices((transformed, product, grouped, other), (0.46, 0.24, 0.16, 0.14))[0]
        if row := make(choose):
            yield row


def answer(library: Any, device: Any, one: recorded.Asked, question: Any) -> list[Any] | None:
    """Say the engine that PyTorch would run, its bytes and knobs."""
    try:
        size, plan = next(cudnn_answers._plans(library, device, one.question(), question, (0,)))
    except (cudnn_answers.CuDNNError, StopIteration):
        return None
    finally:
        library.free()
    engine = json.loads(plan)["engine"] if plan else {"engineId": -1, "knobChoices": {}}
    return [engine["engineId"], size, [engine["knobChoices"].get(f"CUDNN_KNOB_TYPE_{name}", -1) for name in KNOBS]]


def ask(args: argparse.Namespace) -> None:
    """Ask until the time is over."""
    library: Any
    device: Any = None  # the handle stands for it
    if args.without is not None:
        gpu = find("h200")
        of = {"multiProcessorCount": gpu.multiprocessors, "totalGlobalMem": gpu.memory, "deviceName": gpu.name}
        library = cudnn_answers._Library(str(recorded.library()))
        device = library.device(json.dumps(recorded._HOPPER | of, separators=(",", ":")))
    else:
        torch.zeros(1, device="cuda")
        library = OnGPU(str(recorded.library()))
    question, end = {"allow_tf32": True, "deterministic": False}, time.monotonic() + args.seconds
    with gzip.open(args.files[0], "wt") as out:
        for row in rows(args.part):
            if time.monotonic() > end:
                break
            passes = [answer(library, device, one, question) for one in asked(row)]
            out.write(json.dumps([row[1:-1], passes], separators=(",", ":")) + "\n")


def read(files: Sequence[Path]) -> dict[Row, list[Any]]:
    """Read answers, by row."""
    found = {}
    for file in files:
        with gzip.open(file, "rt") as lines:
            for line in lines:
                row, passes = json.loads(line)
                if len(passes) == 3:
                    sizes = [tuple(v) if isinstance(v, list) else v for v in row]
                    found[Row("", *sizes, (NOT_SEEN,) * 3)] = passes
    return found


def wanted(row: Row) -> bool:
    """Whether the files have a row."""
    ones = set(row.stride) == set(row.dilation) == {1}
    if row.groups > 1:
        return not row.dtype and not row.channels_last and row.w == (3, 3) and ones
    return not row.channels_last and (set(row.w) == {1} or not row.dtype)


def judges(row: Row) -> bool:
    """Whether it is kept away: one in five layers, whatever its batch."""
    layer = (row.c, row.k, row.x, row.w, row.stride, row.groups, row.transposed)
    return zlib.crc32(repr(layer).encode()) % 5 == 0


def without_gpu(row: Row, passes: list[Any]) -> tuple[int, ...]:
    """Say what a recorder would write down: with partial sums."""
    sizes = []
    for one, found in zip(asked(row), passes, strict=True):
        if not found:
            sizes.append(NOT_SEEN)
            continue
        knobs = {f"CUDNN_KNOB_TYPE_{name}": n for name, n in zip(KNOBS, found[2], strict=True) if n != -1}
        engine = {"engineId": found[0], "knobChoices": knobs}
        sizes.append(max(found[1] + cudnn_answers.partial_sums(one.question(), engine, 132), 0))
    return tuple(sizes)


def pack(folder: Path, on_gpu: dict[Row, list[Any]], without: dict[Row, list[Any]]) -> None:
    """Write the files of the tests."""
    given = [
        row._replace(workspaces=tuple(p[1] if p else NOT_SEEN for p in on_gpu[row])) for row in on_gpu if wanted(row)
    ]
    given.sort(key=lambda r: (r.dtype, len(r.x), r.w, r.x, r.c, r.k, r.batch))
    plain = [row._replace(workspaces=(NOT_SEEN,) * 3) for row in given]
    both = [(row, p) for row, p in zip(given, plain, strict=True) if judges(row) and p in without]
    files = {
        "apart": [row for row in given if not judges(row)],
        "apart_judge": [row for row, _ in both],
        "apart_answers": [p._replace(workspaces=without_gpu(p, without[p])) for _, p in both],
    }
    what = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, NVIDIA H200: what cuDNN's plans take"
    for name, some in files.items():
        provenance = f"{what}{', asked without a GPU' if name == 'apart_answers' else ''}."
        (folder / f"{name}.bin.gz").write_bytes(gzip.compress(encode(some, provenance), 9, mtime=0))


def main() -> None:
    """Ask, or write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--part", type=int, default=0, help="another for each process")
    parser.add_argument("--without", type=Path, nargs="*")
    parser.add_argument("--pack", type=Path)
    args = parser.parse_args()
    if args.pack:
        pack(args.pack, read(args.files), read(args.without or []))
    else:
        ask(args)


if __name__ == "__main__":
    main()

"""Measure what cuDNN's recurrent layers allocate beside their results: simulate/kernels/testdata/recurrent.csv.gz.

    python3 recurrent.py OUT.csv [--part I/N] [--seconds N]

Each row is a layer at random sizes, always the same ones, with the bytes of the workspaces of a forward pass in
training, of its reserve, of a backward pass (twice the same: for the data and for the weights) and of an inference. A
part is every Nth row from the Ith on, for several processes beside each other.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import allocator
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

KINDS: dict[str, Any] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
WIDTHS = [
    *(1, 2, 3, 5, 7, 8, 12, 16, 20, 24, 32, 40, 48, 50, 64, 80, 96, 100, 120, 127, 128, 129, 144, 150, 160, 176),
    *(191, 192, 193, 200, 220, 240, 255, 256, 257, 300, 320, 350, 384, 385, 400, 450, 512, 600, 640, 650, 768),
    *(896, 1000, 1024, 1150, 1280, 1536),
]
STEPS = [1, 2, 3, 4, 5, 7, 8, 10, 12, 16, 20, 25, 35, 50, 64, 100, 101, 112, 120, 126, 127, 128, 129, 200, 255]
STEPS += [256, 257, 333, 500, 800]
BATCHES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17, 18, 20, 24, 32, 48, 64, 80, 96, 97, 98, 99, 100, 112, 128]
BATCHES += [136, 160, 200, 256, 300, 512]
PERSISTENT = {"layers": 1, "both": 0, "dropout": 0, "packed": 0, "dtype": "fp16"}  # and all widths in steps of 128
FIELDS = ["kind", "dtype", "batch", "steps", "input", "hidden", "layers", "both", "dropout", "projection", "bias"]
FIELDS += ["packed", "forward", "reserve", "backward", "weights", "inference"]
MOST = 30_000_000  # elements of the states of all steps and layers: more takes long, and shows nothing new

Row = dict[str, Any]


def layers() -> Iterator[Row]:
    """Return rows without end, the same ones each time."""
    choose = random.Random(0)
    while True:
        depth = choose.choice([1, 1, 1, 2, 2, 3, 4])
        row: Row = {
            "kind": choose.choice(list(KINDS)),
            "dtype": choose.choice(list(DTYPES)),
            "batch": choose.choice(BATCHES),
            "steps": choose.choice(STEPS),
            "input": choose.choice(WIDTHS),
            "hidden": choose.choice(WIDTHS),
            "layers": depth,
            "both": int(choose.random() < 0.4),
            "dropout": int(depth > 1 and choose.random() < 0.3),
            "projection": 0,
            "bias": int(choose.random() < 0.9),
            "packed": int(choose.random() < 0.2),
        }
        if choose.random() < 0.15:
            row |= PERSISTENT | {key: 128 * choose.randint(1, 8) for key in ("input", "hidden")}
            row["batch"] = 8 * choose.randint(1, 16)
        if row["kind"] == "lstm" and row["hidden"] > 8 and choose.random() < 0.1:
            row["projection"] = row["hidden"] // 2
        if row["steps"] * row["batch"] * max(row["hidden"], row["input"]) * depth * (1 + row["both"]) < MOST:
            yield row


def measure(row: Row) -> Row:
    """Measure a layer, with initial states and an input that lies as cuDNN wants it."""
    dtype = DTYPES[row["dtype"]]
    sizes: dict[str, Any] = {"bidirectional": bool(row["both"]), "bias": bool(row["bias"])}
    sizes["dropout"] = 0.2 * row["dropout"]
    if row["projection"]:
        sizes["proj_size"] = row["projection"]
    layer = KINDS[row["kind"]](row["input"], row["hidden"], row["layers"], **sizes).to(dtype)
    layer.flatten_parameters()
    x: Any = torch.randn(row["steps"], row["batch"], row["input"], dtype=dtype)
    if row["packed"]:  # the first sequence has all steps, the others fewer and fewer
        lengths = [max(1, row["steps"] * (row["batch"] - i) // row["batch"]) for i in range(row["batch"])]
        x = pack_padded_sequence(x, torch.tensor(lengths, device="cpu"))
    else:
        x.requires_grad_()
    outer = row["layers"] * (1 + row["both"])
    h = torch.zeros(outer, row["batch"], row["projection"] or row["hidden"], dtype=dtype)
    c = torch.zeros(outer, row["batch"], row["hidden"], dtype=dtype)
    given = (h, c) if row["kind"] == "lstm" else h
    out, forward = allocator.sizes_of(lambda: layer(x, given))
    y: Tensor = out[0].data if row["packed"] else out[0]
    gradient = torch.ones_like(y)
    _, backward = allocator.sizes_of(lambda: y.backward(gradient))
    layer.eval()
    with torch.no_grad():
        _, inference = allocator.sizes_of(lambda: layer(x, given))
    return {**row, **decode(forward, backward, inference)}


def decode(forward: list[int], backward: list[int], inference: list[int]) -> Row:
    """Find the workspaces: they are given back when the kernels are queued, and nothing is taken after the reserve."""
    last = max(i for i, size in enumerate(forward) if size > 0)
    passes = [-size for before, size in itertools.pairwise(backward) if size < 0 and before == -size]
    return {
        "forward": forward[last - 1],
        "reserve": forward[last],
        "backward": passes[0] if passes else "",
        "weights": passes[-1] if passes else "",
        "inference": [size for size in inference if size > 0][-1],
        "events": f"{forward} | {backward} | {inference}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", default="0/1", help="I/N")
    parser.add_argument("--seconds", type=float, default=60)
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    end = time.monotonic() + asked.seconds
    torch.set_default_device("cuda")
    torch.set_num_threads(1)
    with asked.out.open("w", newline="") as file:
        table = csv.DictWriter(file, [*FIELDS, "events"])
        table.writeheader()
        for row in itertools.islice(layers(), part, None, parts):
            if time.monotonic() > end:
                break
            try:
                table.writerow(measure(row))
            except RuntimeError as error:
                table.writerow({**row, "events": str(error).splitlines()[0]})


if __name__ == "__main__":
    main()

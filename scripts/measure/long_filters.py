"""Ask cuDNN about filters as long as their images: simulate/kernels/testdata/long_filters.csv.gz.

    python3 long_filters.py OUT.csv.gz [--share 0.3]      on a GPU; of so many, at random

Each line is a forward pass in float32, of a square image and a filter of its size, as the gradient of a gradient makes
them: the side, the padding, the channels, images and filters, and the engine that cuDNN names first, with the bytes of
its workspace. Nothing is computed.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
from choices import OnGPU
from memestimate.pretend import convolutions as recorded
from memestimate.pretend import cudnn_answers

SIDES = (8, 12, 16, 24, 28, 32, 33, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
NUMBERS = (3, 8, 16, 32, 48, 64, 96, 128, 256, 512, 1024)
COUNTS = ((0, 1, 2, 3), (1, 2, 3, 4, 5, 8, 16, 32, 64), NUMBERS, NUMBERS)
MOST = 1 << 28  # numbers of a tensor


def main() -> None:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--share", type=float, default=1)
    args = parser.parse_args()
    choose = random.Random(5)
    torch.zeros(1, device="cuda")
    library: Any = OnGPU(str(recorded.library()))
    device: Any = None  # the handle stands for it
    question: Any = {"allow_tf32": True, "deterministic": False}
    lines = ["side,padding,channels,images,filters,engine,bytes"]
    for side, padding, channels, images, filters in itertools.product(SIDES, *COUNTS):
        if max(images, filters) * channels * side * side >= MOST or choose.random() > args.share:
            continue
        shapes = (images, channels, side, side), (filters, channels, side, side)
        y, ones = (images, filters, 2 * padding + 1, 2 * padding + 1), (1, 1)
        one = recorded.Asked("forward", "float32", False, False, 1, *shapes, y, ones, ones, (padding, padding))
        try:
            size, plan = next(cudnn_answers._plans(library, device, one.question(), question, (0,)))
        except (cudnn_answers.CuDNNError, StopIteration):
            continue
        finally:
            library.free()
        engine = json.loads(plan)["engine"]["engineId"]
        lines.append(f"{side},{padding},{channels},{images},{filters},{engine},{size}")
    args.out.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))


if __name__ == "__main__":
    main()

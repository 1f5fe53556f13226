"""Ask cuDNN what more convolutions take, of kinds that few measured ones are: simulate/kernels/testdata/asked.bin.gz.

    python3 asked.py OUT.bin.gz      on a GPU

In float32, all three passes: filters of one element over long rows, as networks of points and of sound have them, and
filters of 3 x 3 of few channels over small images, as those for CIFAR have them. What the first plan of cuDNN's
heuristic takes is what PyTorch's allocator is asked for (see choices.py). Nothing is computed.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
from choices import on_gpu
from convolutions import NOT_SEEN, Row, encode

LENGTHS = (1000, 4096, 10000, 20000, 30000, 32767, 32768, 40000, 50000, 65536, 100000)
LONG = ((1, 2, 4, 16), (67, 128, 259, 323, 515, 1024, 1027, 2048, 2580, 2581, 2582, 2583, 2584, 3581))
FILTERS = (1, 64, 128, 256, 512)
SIDES = (4, 7, 8, 14, 16, 28, 32)
SMALL = ((32, 64, 100, 128, 256, 512), (12, 16, 20, 24, 32, 40, 48, 64, 80))
MOST = 1 << 29  # numbers of a tensor


def row(batch: int, c: int, k: int, x: tuple[int, int], side: int) -> Row:
    """Make a convolution whose result is as large as its image."""
    ones = (1, 1)
    return Row("", 0, False, False, 1, batch, c, k, x, (side, side), x, ones, ones, (NOT_SEEN,) * 3)


def rows() -> Iterator[Row]:
    """Make all convolutions, without workspaces."""
    for length, batch, c, k in itertools.product(LENGTHS, *LONG, FILTERS):
        if batch * max(c, k) * length < MOST:
            yield row(batch, c, k, (1, length), 1)
    for side, batch, c, times in itertools.product(SIDES, *SMALL, (1, 2)):
        yield row(batch, c, times * c, (side, side), 3)


def main() -> None:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    wanted = list(rows())
    sizes = on_gpu(wanted)
    triples = zip(sizes[::3], sizes[1::3], sizes[2::3], strict=True)
    given = [row._replace(workspaces=triple) for row, triple in zip(wanted, triples, strict=True)]
    where = torch.cuda.get_device_name()
    what = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {where}: what cuDNN's plans take."
    args.out.write_bytes(gzip.compress(encode(given, what), 9, mtime=0))


if __name__ == "__main__":
    main()

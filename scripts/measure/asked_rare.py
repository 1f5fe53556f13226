"""Ask cuDNN what convolutions of rare kinds take: simulate/kernels/testdata/asked_judge.bin.gz.

    python3 asked_rare.py OUT.bin.gz      on a GPU, about a minute on 16 processors

36,876 of them, made up at random: 1x1 filters over small and large images, rows, patches and their transposes, groups,
volumes and plain ones, in three types, all three passes. Of two halves the file has one, which judges what the trees
say; the convolutions of one layer, whatever their batch, type and order, are in one half. Nothing is computed.
"""

from __future__ import annotations

import argparse
import gzip
import random
import zlib
from collections.abc import Callable
from math import prod
from pathlib import Path

import torch
from choices import on_gpu
from convolutions import NOT_SEEN, Row, encode

WIDE = (8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 4096)
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256)
SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 16)
LARGE = (16, 20, 28, 32, 40, 48, 56, 64, 96, 112, 128)
LENGTHS = (10, 50, 96, 100, 128, 200, 250, 256, 336, 500, 512, 720, 1000, 1024, 2048, 4096, 8192, 16384)
PLAIN = (4, 7, 8, 10, 14, 16, 20, 28, 32, 56, 64, 80, 112, 128, 160, 224, 256)
MOST = 1 << 28  # numbers of a tensor

rnd = random.Random(11)
choice = rnd.choice


def made(
    dtype: int,
    last: bool,
    head: tuple[int, int, int, int],
    x: tuple[int, ...],
    layer: tuple[int, int, int, int],
    turned: bool = False,
) -> Row | None:
    """
    Make a convolution up, without workspaces; none if it is too large.

    `head` has the groups, batch and channels, `layer` the filter, stride, padding and dilation of all sides.
    """
    w, stride, padding, dilation = layer
    if turned:
        y = tuple((n - 1) * stride - 2 * padding + dilation * (w - 1) + 1 for n in x)
    else:
        y = tuple((n + 2 * padding - dilation * (w - 1) - 1) // stride + 1 for n in x)
    groups, batch, c, k = head
    if min(y) < 1 or batch * max(c * prod(x), k * prod(y)) >= MOST:
        return None
    filters, strides, dilations = ((n,) * len(x) for n in (w, stride, dilation))
    return Row("", dtype, last, turned, groups, batch, c, k, x, filters, y, strides, dilations, (NOT_SEEN,) * 3)


def type_and_order(channels_last: float) -> tuple[int, bool]:
    """Choose float32 and bfloat16 twice as often as float16."""
    return choice((0, 0, 1, 1, 2)), bool(channels_last) and rnd.random() < channels_last


def one(channels: tuple[int, ...] = WIDE, results: tuple[int, ...] = WIDE) -> tuple[int, int, int, int]:
    """Choose a batch and channels of one group."""
    return 1, choice(BATCHES), choice(channels), choice(results)


def pointwise(sides: tuple[int, ...]) -> Row | None:
    """Make a filter of 1x1."""
    side = choice(sides)
    stride = choice((1, 1, 1, 2)) if side > 1 else 1
    return made(*type_and_order(0.3), one(), (side, side), (1, stride, 0, 1))


def line() -> Row | None:
    """Make one over rows."""
    length, w, stride, dilation = (
        choice(LENGTHS),
        choice((1, 1, 1, 3, 5, 7)),
        choice((1, 1, 1, 2)),
        choice((1, 1, 1, 2, 4)),
    )
    return made(*type_and_order(0), one(), (length,), (w, stride, dilation * (w // 2), dilation))


def patch() -> Row | None:
    """Make one of patches that do not overlap, or its transpose."""
    w = choice((2, 2, 2, 4, 8, 14, 16))
    side = w * choice((1, 2, 4, 7, 8, 14, 16, 28, 32, 56))
    turned = rnd.random() < 0.35
    if turned:
        side = max(1, side // w)
    return made(*type_and_order(0.3), one((3, 4, *WIDE)), (side, side), (w, w, 0, 1), turned)


def group() -> Row | None:
    """Make one of groups, not depthwise."""
    groups = choice((2, 4, 8, 16, 32, 64))
    c = groups * choice((1, 2, 3, 4, 8, 16, 24, 32, 48))
    k = groups * choice((1, 2, 4, 8, 16, 24, 32))
    if groups == c:
        return None
    w, stride = choice((1, 3, 3, 3, 5, 7)), choice((1, 1, 2))
    side = choice((4, 7, 8, 14, 16, 28, 32, 56, 64, 112))
    order = type_and_order(0.3)
    return made(*order, (groups, choice(BATCHES), c, k), (side, side), (w, stride, w // 2, 1))


def volume() -> Row | None:
    """Make one over volumes."""
    w = choice((1, 2, 2, 3, 3, 3, 5))
    turned = w == 2 and rnd.random() < 0.5
    stride = 2 if w == 2 else choice((1, 1, 1, 2))
    side = choice((2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96))
    depth = choice((side, side, max(2, side // 2), 4, 8, 16))
    c, k = choice((1, 2, 4, *WIDE[:16])), choice(WIDE[:16])
    order = type_and_order(0.15)
    padding = 0 if w == 2 else w // 2
    return made(*order, (1, choice((1, 1, 2, 4, 8)), c, k), (depth, side, side), (w, stride, padding, 1), turned)


def plain() -> Row | None:
    """Make one as most are."""
    side, w, stride, dilation = (
        choice(PLAIN),
        choice((3, 3, 3, 3, 5, 7)),
        choice((1, 1, 1, 2)),
        choice((1, 1, 1, 1, 2, 4)),
    )
    return made(*type_and_order(0.3), one((1, 3, *WIDE)), (side, side), (w, stride, dilation * (w // 2), dilation))


KINDS: tuple[tuple[str, int, Callable[[], Row | None]], ...] = (
    ("pointwise", 9000, lambda: pointwise(SMALL)),
    ("pointwide", 5000, lambda: pointwise(LARGE)),
    ("line", 5000, line),
    ("patch", 4000, patch),
    ("group", 4000, group),
    ("volume", 4000, volume),
    ("plain", 6000, plain),
)


def rows() -> list[Row]:
    """Make all of them up; the name of a kind stands where that of a model does."""
    found = []
    for kind, count, make in KINDS:
        some: list[Row] = []
        while len(some) < count:
            row = make()
            some += [row._replace(model=kind)] if row else []
        found += some
    return sorted(set(found))


def judges(row: Row) -> bool:
    """Whether it is in the half that the file has."""
    layer = (row.c, row.k, row.x, row.w, row.stride, row.groups, row.transposed)
    return zlib.crc32(repr(layer).encode()) >> 7 & 1 == 1


def main() -> None:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    wanted = [row for row in rows() if judges(row)]
    sizes = on_gpu(wanted)
    triples = zip(sizes[::3], sizes[1::3], sizes[2::3], strict=True)
    given = [row._replace(workspaces=triple) for row, triple in zip(wanted, triples, strict=True)]
    where = torch.cuda.get_device_name()
    what = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {where}: what cuDNN's plans take."
    args.out.write_bytes(gzip.compress(encode(given, what), 9, mtime=0))


if __name__ == "__main__":
    main()

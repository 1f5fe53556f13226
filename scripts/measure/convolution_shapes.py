"""Shapes of convolutions made up: at random, or as kinds of models have them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple


def numbers(text: str) -> list[int]:
    """Read the whole numbers of a line."""
    return [int(n) for n in text.split()]


CHANNELS = numbers("8 10 12 16 20 24 30 32 36 40 48 50 56 60 64 72 80 96 100 112 120 128 144 150 160")
WIDE = [*CHANNELS, *numbers("180 192 200 224 256 288 300 320 336 384 448 480 512 576 640 768 1024 1280 2048")]
FEW = numbers("1 2 3 4 5 6 7 9 10 12 14 17 19 21 32 36 64 80 85 255")


class Shape(NamedTuple):
    """A convolution without its batch, dtype and memory format."""

    transposed: bool
    groups: int
    c: int
    k: int
    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def random_shape(choose: random.Random) -> Shape:
    """Make a shape up: 1-D to 3-D, transposed, grouped, dilated."""
    dims = choose.choice([1, 2, 2, 2, 2, 2, 3])
    edge = {
        1: [100, 400, 1000, 3000],
        2: numbers("7 8 14 16 28 32 56 75 112 149 224 256"),
        3: [4, 8, 14, 28, 56],
    }
    channels = numbers("3 16 24 32 48 64 80 96 128 160 192 256 320 384 512 768 1024 2048")
    c, k = choose.choice(channels), choose.choice(channels)
    groups = choose.choice([1, 1, 1, 1, 1, 1, 2, 4, 8, 32, c])
    k = c if groups == c else k
    if c % groups or k % groups:
        groups = 1
    size = choose.choice(numbers("1 1 3 3 3 5 7 2 4"))
    w = tuple(choose.choice([size, size, size, 1]) for _ in range(dims)) if choose.random() < 0.1 else (size,) * dims
    stride, dilation = choose.choice([1, 1, 1, 2]), choose.choice([1] * 9 + [2])
    x = (choose.choice(edge[dims]),) * dims
    padding = tuple((n - 1) * dilation // 2 for n in w)
    spread = ((stride,) * dims, padding, (dilation,) * dims)
    return Shape(choose.random() < 0.1, groups, c, k, x, w, *spread)


def sequence_shape(choose: random.Random) -> Shape:
    """Make a shape up as models of sequences, time series and graphs have it.

    Short rows, 1-D or along the last of two dimensions, whose other is nodes, bands or one, and few channels or many.
    A filter may be as long as the row.
    """
    length = choose.choice(numbers("4 7 8 12 16 21 24 25 32 36 48 50 64 96 100 128 144 168 187 192 256 336 512"))
    channels = numbers("1 2 3 4 7 8 12 16 21 24 32 40 48 64 80 96 128 160 192 256 384 512 768 1024 2048")
    c, k = choose.choice(channels), choose.choice(channels)
    filter = min(length, choose.choice([1, 1, 1, 2, 3, 3, 3, 4, 5, 6, 7, 9, 15, 25, 31, length]))
    dilation = choose.choice([1, 1, 1, 2, 4, 8]) if filter > 1 else 1
    while (filter - 1) * dilation >= length:
        dilation //= 2
        if not dilation:
            dilation, filter = 1, 1
    padding = choose.choice([0, (filter - 1) * dilation // 2, (filter - 1) * dilation])
    stride = choose.choice([1, 1, 1, 1, 1, 2])
    groups = choose.choice([1] * 8 + [c])
    k = c if groups == c else k
    transposed = choose.random() < 0.05
    if choose.random() < 0.6:
        return Shape(
            transposed,
            groups,
            c,
            k,
            (length,),
            (filter,),
            (stride,),
            (padding,),
            (dilation,),
        )
    other = choose.choice(numbers("1 5 12 20 32 64 80 137 207 325"))
    return Shape(
        transposed,
        groups,
        c,
        k,
        (other, length),
        (1, filter),
        (1, stride),
        (0, padding),
        (1, dilation),
    )


def even(c: int, k: int, x: Sequence[int], w: Sequence[int], **other: Any) -> Shape:
    """Make a shape, of stride and dilation 1 and padding 0 if not said; one number holds for every dimension."""

    def spread(n: int | Sequence[int]) -> tuple[int, ...]:
        return (n,) * len(x) if isinstance(n, int) else tuple(n)

    sizes = [spread(other.get(name, default)) for name, default in (("stride", 1), ("padding", 0), ("dilation", 1))]
    return Shape(
        other.get("transposed", False),
        other.get("groups", 1),
        c,
        k,
        tuple(x),
        tuple(w),
        *sizes,
    )


def text_shape(r: random.Random) -> Shape:
    """Filters over words: as wide as the embedding, or along a row of embeddings."""
    words, embedding, filter = (
        r.randrange(16, 512),
        r.choice(numbers("50 64 100 128 200 256 300 512 768")),
        r.randint(1, 7),
    )
    k = r.choice([50, 64, 100, 128, 150, 200, 256, 300])
    if r.random() < 0.5:
        return even(
            1,
            k,
            (words, embedding),
            (filter, embedding),
            padding=(r.choice([0, filter - 1]), 0),
        )
    return even(
        embedding,
        k,
        (words,),
        (filter,),
        padding=r.choice([0, filter // 2, filter - 1]),
    )


def image_shape(r: random.Random) -> Shape:
    """Small images and the maps of nets that read them; odd numbers of channels."""
    edge, filter = (
        r.choice(numbers("4 5 7 8 10 12 14 16 24 28 32 40 48 64 84 96 128")),
        r.choice(numbers("1 2 3 3 3 4 5 5 7")),
    )
    filter = min(filter, edge)
    c, k = r.choice([1, 3, *WIDE, *CHANNELS]), r.choice([*FEW, *WIDE, *CHANNELS])
    padding = r.choice([0, filter // 2, filter // 2])
    return even(
        c,
        k,
        (edge, edge),
        (filter, filter),
        padding=padding,
        stride=r.choice([1, 1, 1, 2]),
    )


def scene_shape(r: random.Random) -> Shape:
    """Large images, not always square: detection, segmentation, depth, flow, super-resolution."""
    edges = numbers("13 19 20 24 26 38 40 48 52 60 64 65 75 80 96 97 100 128 129 150 160 200 256 320 400 512")
    high = r.choice(edges)
    wide = high if r.random() < 0.6 else r.choice(edges)
    filter = r.choice([1, 1, 3, 3, 3, 3, 5, 7])
    dilation = r.choice(numbers("1 1 1 1 2 4 6 12 18")) if filter == 3 else 1
    c, k = r.choice([3, *WIDE]), r.choice([*FEW, *WIDE, *WIDE])
    padding = filter // 2 * dilation
    stride = r.choice([1, 1, 1, 2])
    return even(
        c,
        k,
        (high, wide),
        (filter, filter),
        padding=padding,
        stride=stride,
        dilation=dilation,
    )


def upsampling_shape(r: random.Random) -> Shape:
    """Transposed convolutions of decoders and generators, from a latent vector on."""
    dims = r.choice([1, 2, 2, 2, 3])
    c, k = r.choice([100, 128, *WIDE]), r.choice([1, 3, *WIDE])
    if r.random() < 0.2:
        return even(c, k, (1,) * dims, (4,) * dims, transposed=True)
    edge = r.choice(
        {
            1: [16, 25, 32, 64, 128, 256, 512, 1024],
            2: [4, 7, 8, 14, 16, 28, 32, 64],
            3: [4, 8, 16],
        }[dims]
    )
    filter, stride, padding = r.choice(
        [
            (2, 2, 0),
            (4, 2, 1),
            (4, 2, 1),
            (3, 2, 1),
            (5, 2, 2),
            (3, 1, 1),
            (16, 8, 4),
            (4, 4, 0),
        ]
    )
    return even(
        c,
        k,
        (edge,) * dims,
        (filter,) * dims,
        stride=stride,
        padding=padding,
        transposed=True,
    )


def spectrum_shape(r: random.Random) -> Shape:
    """Spectrograms: bands by time, one channel or many."""
    bands, time_ = (
        r.choice(numbers("20 32 40 64 80 128 161 201 257")),
        r.choice(numbers("32 50 63 100 128 200 250 300 400")),
    )
    c, k = r.choice([1, 1, 2, *CHANNELS]), r.choice(CHANNELS)
    filter = r.choice(
        [
            (3, 3),
            (3, 3),
            (5, 5),
            (7, 7),
            (11, 21),
            (bands, 1),
            (1, 7),
            (1, 3),
            (3, 1),
            (5, 2),
            (4, 4),
        ]
    )
    padding = (0 if filter[0] == bands else filter[0] // 2, filter[1] // 2)
    return even(
        c,
        k,
        (bands, time_),
        filter,
        padding=padding,
        stride=r.choice([1, 1, 2, (2, 1)]),
    )


def wave_shape(r: random.Random) -> Shape:
    """Samples of sound: first layers with long filters and strides, and the dilated stacks of vocoders."""
    if r.random() < 0.4:
        length, filter = (
            r.choice([8000, 16000, 24000, 32000, 48000]),
            r.choice(numbers("3 7 10 16 20 25 40 80 251")),
        )
        return even(
            1,
            r.choice([32, 40, 64, 80, 128, 256, 512]),
            (length,),
            (filter,),
            stride=r.choice([1, 4, 5, 8, 10, 16]),
        )
    c, filter, dilation = (
        r.choice(WIDE),
        r.choice([1, 2, 3, 3, 5, 7, 11]),
        r.choice(numbers("1 1 2 3 4 5 8 9 16 64")),
    )
    length = r.choice(numbers("250 400 799 1000 1024 1600 2048 3199 4096 8192 16384"))
    return even(
        c,
        r.choice([c, *WIDE]),
        (length,),
        (filter,),
        dilation=dilation,
        padding=(filter - 1) * dilation // 2,
    )


def sensor_shape(r: random.Random) -> Shape:
    """Electrodes or axes by time: along time, then across all electrodes."""
    electrodes, time_, c = (
        r.choice(numbers("3 6 9 14 19 22 32 62 64")),
        r.choice([125, 128, 200, 250, 500, 1000, 1125]),
        1,
    )
    if r.random() < 0.5:
        filter = r.choice([5, 8, 16, 25, 32, 64])
        return even(
            c,
            r.choice([8, 16, 25, 40, 64]),
            (electrodes, time_),
            (1, filter),
            padding=(0, r.choice([0, filter // 2])),
        )
    c = r.choice([8, 16, 25, 40, 64])
    groups, k = r.choice([(1, c), (c, 2 * c), (c, c), (1, r.choice(CHANNELS))])
    return even(c, k, (electrodes, time_), (electrodes, 1), groups=groups)


def point_shape(r: random.Random) -> Shape:
    """Points, and points by their neighbours: filters of one, many odd channels."""
    c, k = (
        r.choice([3, 6, 9, 67, 131, 259, 323, 515, 1088, *WIDE]),
        r.choice([13, 40, 50, *WIDE]),
    )
    if r.random() < 0.5:
        return even(c, k, (r.choice([128, 256, 512, 1000, 1024, 2048, 4096]),), (1,))
    return even(
        c,
        k,
        (r.choice([64, 128, 256, 512, 1024]), r.choice([8, 16, 20, 32, 40, 64])),
        (1, 1),
    )


def field_shape(r: random.Random) -> Shape:
    """Fields of a table: outer products or heads as channels, the embedding as the row."""
    c = r.choice(numbers("10 16 20 22 26 39 50 100 200 400 512 780 1014 1521 2600 3900"))
    return even(
        c,
        r.choice(numbers("1 10 16 20 32 50 64 100 128 200")),
        (r.choice([4, 8, 10, 16, 20, 32, 64]),),
        (1,),
    )


def patch_shape(r: random.Random) -> Shape:
    """Patches that do not overlap, of images, rows and films."""
    k, c = (
        r.choice(numbers("32 48 64 96 128 192 256 384 512 768 1024")),
        r.choice([1, 2, 3, 3, 4, *CHANNELS]),
    )
    patch = r.choice([2, 4, 7, 8, 14, 16, 32])
    n = r.choice([4, 7, 8, 14, 16, 28, 32, 56])
    kind = r.random()
    if kind < 0.6:
        return even(c, k, (n * patch, n * patch), (patch, patch), stride=patch)
    if kind < 0.8:
        return even(c, k, (n * patch,), (patch,), stride=patch)
    return even(c, k, (16, n * patch, n * patch), (2, patch, patch), stride=(2, patch, patch))


def volume_shape(r: random.Random) -> Shape:
    """Volumes and films."""
    edge, filter = (
        r.choice(numbers("4 6 8 12 16 20 24 32 48 64 96")),
        r.choice([(1, 1, 1), (3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1), (2, 2, 2)]),
    )
    x = (edge,) * 3 if r.random() < 0.6 else (r.choice([4, 8, 16]), 2 * edge, 2 * edge)
    c, k = (
        r.choice([1, 2, 3, 4, *CHANNELS, 192, 256, 320, 384, 512]),
        r.choice([1, 2, 3, 4, *CHANNELS, 192, 256, 320, 384, 512]),
    )
    stride = r.choice([1, 1, 1, 2])
    return even(c, k, x, filter, stride=stride, padding=tuple(n // 2 for n in filter))


def depthwise_shape(r: random.Random) -> Shape:
    """A filter for each channel, along rows and over images."""
    c = r.choice(WIDE)
    k = c * r.choice([1, 1, 1, 1, 2])
    filter = r.choice(numbers("3 3 3 4 5 7 9 11 15 31"))
    if r.random() < 0.5:
        padding = r.choice([filter // 2, filter - 1])
        return even(
            c,
            k,
            (r.choice(numbers("24 49 50 96 100 128 196 197 200 256 400 512 1024")),),
            (filter,),
            groups=c,
            padding=padding,
        )
    edge = r.choice(numbers("7 8 14 16 20 28 32 40 56 64 80 112 128"))
    return even(
        c,
        k,
        (edge, edge),
        (filter, filter),
        groups=c,
        padding=filter // 2,
        stride=r.choice([1, 1, 2]),
    )


KINDS = (
    *(
        text_shape,
        image_shape,
        image_shape,
        image_shape,
        scene_shape,
        scene_shape,
        scene_shape,
        upsampling_shape,
    ),
    *(
        spectrum_shape,
        wave_shape,
        wave_shape,
        sensor_shape,
        point_shape,
        field_shape,
        patch_shape,
        volume_shape,
    ),
    *(depthwise_shape, sequence_shape),
)


def everyday_shape(choose: random.Random) -> Shape:
    """Make a shape up as one of many kinds of models has it."""
    return choose.choice(KINDS)(choose)


def small_shape(r: random.Random) -> Shape:
    """Make a shape up as small programs and published code have it: powers of two, square images, few filters."""
    channels = numbers(
        "1 3 3 4 6 8 12 16 16 20 24 32 32 40 48 50 64 64 64 80 96 100 120 128 128 160 192 256 256 320 384 512"
    )
    images = numbers(
        "4 5 7 8 8 12 14 16 16 20 24 28 28 30 32 32 40 48 56 64 64 80 84 96 112 128 128 160 192 200 224 256"
    )
    c, k, dims = r.choice(channels), r.choice(channels), r.choice([1, 2, 2, 2, 2, 2, 2, 2])
    k = c if r.random() < 0.4 else k
    x = (r.choice(images),) * dims
    x = tuple(4 * n for n in x) if dims == 1 and r.random() < 0.6 else x
    if r.random() < 0.1:
        transposed = r.random() < 0.7
        w, stride, padding = r.choice([(4, 2, 1), (2, 2, 0), (4, 1, 0), (3, 2, 1), (5, 2, 2)])
        return Shape(transposed, 1, c, k, x, (w,) * dims, (stride,) * dims, (padding,) * dims, (1,) * dims)
    w = r.choice([1, 3, 3, 3, 3, 3, 3, 5, 5, 7, 9])
    stride, dilation = r.choice([1, 1, 1, 1, 2]), r.choice([1] * 9 + [2])
    groups = r.choice([1] * 12 + [2, 4, 8])
    groups = 1 if c % groups or k % groups else groups
    padding = r.choice([1, 1, 1, 0]) * ((w - 1) * dilation // 2)
    return Shape(False, groups, c, k, x, (w,) * dims, (stride,) * dims, (padding,) * dims, (dilation,) * dims)

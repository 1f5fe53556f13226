"""
What cuDNN takes while PyTorch has it search for the fastest engine of a convolution.

With `torch.backends.cudnn.benchmark` each convolution that was not seen before is run by every engine that cuDNN names,
of the heuristic and of the fallback, in one workspace as large as the largest of theirs; then it and what the allocator
had cached are given back (get_plans_from_find and generate_and_filter_plans of
aten/src/ATen/native/cudnn/Conv_v8.cpp). Engines that take more than is free are left out, so that a search takes much
and fails never. Of the first `torch.backends.cudnn.benchmark_limit` the fastest runs from then on.

Without a GPU cuDNN does not offer the engines that take the most, those that transform both operands: 3 (forward) and
18 (gradient of w) whole images, 50 (gradient of x) tiles. What they take was worked out from passes on an H100 with
cuDNN 9.19 (estimate/workspace/testdata/searches.jsonl.gz): where they are offered it is that to 128 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .convolutions import Asked

_SMALLEST_IMAGE, _LARGEST_IMAGE = 16, 256  # sides of squares that whole images are transformed in
_TILE = 32
_MOST_TILES = 2  # of an image, at once
_COMPLEX = 8  # bytes


def largest(asked: Asked, offered: int) -> int:
    """
    The workspace that a search takes, in bytes.

    Parameters
    ----------
    offered
        The largest that cuDNN offers without a GPU, -1 for none.
    """
    convolution = asked.question()
    if asked.dtype != "float32" or len(asked.x) != 4 or {*asked.dilation, asked.groups} != {1}:
        return max(offered, 0)
    transforms = _tiles if convolution["operation"] == "input" else _images
    return max(offered, transforms(asked, max(offered, 0)), 0)


def _images(asked: Asked, _: int) -> int:
    """
    Transforms of whole images, padded to a square of a power of two: of the two of three operands that are the input,
    or of the third. It is offered at stride 1, to most convolutions.
    """
    convolution = asked.question()
    (n, c, *x), (k, _c, *w), (_n, _k, *y) = convolution["x"], convolution["w"], convolution["y"]
    reach = max(size + 2 * padding for size, padding in zip(x, convolution["padding"], strict=True))
    side = max(_SMALLEST_IMAGE, 1 << (reach - 1).bit_length())
    if {*asked.stride} != {1} or side > _LARGEST_IMAGE:
        return 0
    if convolution["operation"] == "forward":
        return 2 * _plane(side) * max(c * k + n * c, n * k) + 4 * c * k * math.prod(w) + _copies(asked)
    return 2 * _plane(side) * max(c * k, n * c + n * k) + 4 * n * k * math.prod(y) + _copies(asked)


def _tiles(asked: Asked, offered: int) -> int:
    """
    Transforms of tiles of w and of two tiles of each image, of w where both of its sides are larger than 1. At stride
    2 each fourth of the pixels is a channel of its own, in multiples of four channels, and lies beside what the
    largest engine takes that copies.
    """
    convolution = asked.question()
    (n, c, *x), (k, _c, *w) = convolution["x"], convolution["w"]
    beside = _copies(asked)
    if {*asked.stride} == {2}:
        c, x, w = 4 * (-(-c // 4) * 4), [-(-size // 2) for size in x], [-(-size // 2) for size in w]
        beside = offered
    elif {*asked.stride} != {1}:
        return 0
    if min(w) == 1 or max(w) > _TILE:
        return 0
    tiles = math.prod(-(-size // (_TILE - filter_ + 1)) for size, filter_ in zip(x, w, strict=True))
    return _plane(_TILE) * (c * k + min(_MOST_TILES, tiles) * n * (c + k)) + beside


def _plane(side: int) -> int:
    """Bytes of the transform of a square of real numbers."""
    return side * (side // 2 + 1) * _COMPLEX


def _copies(asked: Asked) -> int:
    """Bytes of the operands in row-major order, which these engines want; of one pixel or one channel they have it."""
    shapes = (asked.x, asked.w, asked.y) if asked.channels_last else ()
    return sum(4 * math.prod(shape) for shape in shapes if shape[1] > 1 and math.prod(shape[2:]) > 1)


def warning(most: Sequence[int]) -> str:
    """What a recording says of searches that take so much each."""
    size = max(most)
    text = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
    return (
        "cuDNN searches for its fastest engines (torch.backends.cudnn.benchmark): while it does, at the first sight of "
        f"each convolution, it takes up to {text}, as far as the GPU has that free; what the engines take that it "
        "finds is guessed"
    )

"""
What cuDNN takes while PyTorch has it search for the fastest engine of a convolution.

With `torch.backends.cudnn.benchmark` each convolution that was not seen before is run by every engine that cuDNN names,
of the heuristic and of the fallback, in one workspace as large as the largest of theirs; then it and what the allocator
had cached are given back (get_plans_from_find and generate_and_filter_plans of
aten/src/ATen/native/cudnn/Conv_v8.cpp). Engines that take more than is free are left out, so that a search takes much
and fails never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .convolutions import Asked

_LARGEST_IMAGE = 256  # that a Fourier transform of a whole image was seen for
_TILE = 32
_COMPLEX = 8  # bytes


def fourier(asked: Asked) -> int:
    """
    Bytes that the engine takes which transforms both operands; 0 where there is none, or none that was measured.

    cuDNN does not offer it without a GPU. Engines 3 (forward) and 18 (gradient of w) hold the transforms of whole
    images, padded to a square of a power of two, engine 50 (gradient of x) those of tiles of 32 x 32. Of 165 such
    passes of an H200 (cuDNN 9.19) 144 take what this says to 64 bytes, most others as much as a copy of an operand
    more; it does not say whether the engine is offered, which it is in two of three cases.
    """
    ones = {*asked.stride, *asked.dilation, asked.groups}
    if asked.dtype != "float32" or len(asked.x) != 4 or ones != {1}:
        return 0
    convolution = asked.question()
    (n, c, *x), (k, _, *w), (_, _, *y) = convolution["x"], convolution["w"], convolution["y"]
    side = max(
        1 << (size + 2 * padding - 1).bit_length() for size, padding in zip(x, convolution["padding"], strict=True)
    )
    operation, copies = convolution["operation"], _copies(asked)
    if operation == "input":
        tiles = min(2, -(-x[0] // max(_TILE - w[0] + 1, 1)) * -(-x[1] // max(_TILE - w[1] + 1, 1)))
        return _plane(_TILE) * (c * k + n * tiles * (c + k)) + copies if max(w) <= _TILE else 0
    if side > _LARGEST_IMAGE:
        return 0
    if operation == "forward":
        return 2 * _plane(side) * (c * k + n * c) + 4 * c * k * w[0] * w[1] + copies
    return 2 * _plane(side) * c * k + 4 * n * k * y[0] * y[1] + copies


def _plane(side: int) -> int:
    """Bytes of the transform of a square of real numbers."""
    return side * (side // 2 + 1) * _COMPLEX


def _copies(asked: Asked) -> int:
    """Bytes of the operands in row-major order, which these engines want."""
    total = 0
    if asked.channels_last:
        for shape in (asked.x, asked.w, asked.y):
            total += 4 * shape[0] * shape[1] * shape[2] * shape[3]
    return total


def warning(searched: Sequence[Asked], largest: Sequence[int]) -> str:
    """What a recording says of searches: `largest` are the workspaces of the engines that cuDNN offers."""
    most = max(max(known, fourier(asked)) for asked, known in zip(searched, largest, strict=True))
    size = f"{most / 2**30:.1f} GiB" if most >= 2**30 else f"{most / 2**20:.0f} MiB"
    return (
        "cuDNN searches for its fastest engines (torch.backends.cudnn.benchmark): while it does, in the first step, "
        f"up to {size} more may be allocated than is said here, as much of it as the GPU has free, so that no larger "
        "one is needed; what the engines take that it finds is guessed"
    )

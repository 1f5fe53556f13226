"""Write which convolutions are known, for the recorder: python/src/memestimate/pretend/measured_convolutions.bin.

Those were measured, or cuDNN was asked about them on a GPU.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "python" / "src"), str(Path(__file__).parent)]
from convolutions import Row, decode
from memestimate.pretend import convolutions as recorded

TYPES = ("float32", "bfloat16", "float16")


def key(row: Row) -> str:
    """The key that a recorder gives a measured convolution."""
    spread = (row.stride, row.dilation)
    w = (row.c, row.k // row.groups) if row.transposed else (row.k, row.c // row.groups)
    shapes = [(row.batch, row.c, *row.x), (*w, *row.w), (row.batch, row.k, *row.y)]
    if len(row.x) == 1:
        shapes = [(*shape[:2], 1, *shape[2:]) for shape in shapes]
        spread = ((1, *row.stride), (1, *row.dilation))
    head = ("forward", TYPES[row.dtype], row.channels_last, row.transposed, row.groups)
    return recorded.Asked(*head, *shapes, *spread, ()).key()


def keys() -> list[str]:
    """The keys of all of them."""
    data = ROOT / "simulate" / "kernels" / "testdata"
    files = [decode(gzip.decompress((data / name).read_bytes())) for name in ("convolutions.bin.gz", "asked.bin.gz")]
    return sorted({key(row) for rows, _ in files for row in rows})


def main() -> None:
    """Write the file."""
    bits = recorded.Measured.of(keys()).bits
    Path(recorded.__file__).with_name("measured_convolutions.bin").write_bytes(bits)


if __name__ == "__main__":
    main()

"""Ask cuDNN what convolutions take, on a GPU and without one: simulate/kernels/testdata/{choices,answers}.bin.gz.

    python3 choices.py OUT.bin.gz --shapes 6000 [--seed 7]      on a GPU: what cuDNN's plans take, of shapes made up
    python3 choices.py OUT.bin.gz --of choices.bin.gz           without one: what it answers about the same

What the plan of the first engine that the heuristic names takes on a GPU is what PyTorch's allocator is asked for: it
was the same to the byte for 3,996 of 4,061 measured passes, and the others were those that PyTorch's own kernels run
(depthwise) or of which the heuristic names no engine. Nothing is computed, so that a second is enough for 1,800
convolutions on 16 processors.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import random
import sys
from pathlib import Path
from typing import Any

import torch

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
from convolution_shapes import everyday_shape, random_shape, sequence_shape
from convolutions import BATCHES, Row, decode, encode, layer_of, size_of
from memestimate.pretend import convolutions as recorded
from memestimate.pretend import cudnn_answers
from memestimate.api.gpus import find

TYPES = ("float32", "bfloat16", "float16")
LARGEST = 1 << 30  # numbers of a tensor
OF_HANDLE = {204: None, 407: 400}  # what takes the place of a description of the device: nothing, the plan's handle


class OnGPU(cudnn_answers._Library):
    """cuDNN with the GPU that is there."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.handle = ctypes.c_void_p()
        if self.library.cudnnCreate(ctypes.byref(self.handle)):
            raise SystemExit("no GPU")

    def put(self, what: ctypes.c_void_p, name: int, kind: int, of: Any, *values: Any) -> None:
        """Set an attribute, the handle in place of a description."""
        if name in OF_HANDLE:
            if OF_HANDLE[name] is not None:
                super().put(what, OF_HANDLE[name], 0, ctypes.c_void_p, self.handle)
            return
        if name == 801:  # the operations of a graph, which has a handle as well
            super().put(what, 800, 0, ctypes.c_void_p, self.handle)
        super().put(what, name, kind, of, *values)


def asked(row: Row) -> list[recorded.Asked]:
    """The three passes of a convolution; none where its padding differs on its sides."""
    padding = []
    for sizes in zip(row.x, row.w, row.y, row.stride, row.dilation, strict=True):
        fits = [p for p in range(sizes[1] * sizes[4] + 1) if size_of(row.transposed, p, *sizes) == sizes[2]]
        padding += fits[:1]
    if len(padding) < len(row.x):
        return []
    w = (row.c, row.k // row.groups) if row.transposed else (row.k, row.c // row.groups)
    shapes = [(row.batch, row.c, *row.x), (*w, *row.w), (row.batch, row.k, *row.y)]
    spread = [row.stride, row.dilation, tuple(padding)]
    if len(row.x) == 1:
        shapes = [(*shape[:2], 1, *shape[2:]) for shape in shapes]
        spread = [(n, *values) for n, values in zip((1, 1, 0), spread, strict=True)]
    head = (TYPES[row.dtype], row.channels_last, row.transposed, row.groups)
    return [recorded.Asked(name, *head, *shapes, *spread) for name in recorded._PASSES]


def made_up(count: int, seed: int) -> list[Row]:
    """Convolutions of shapes made up, without workspaces."""
    choose, rows = random.Random(seed), []
    while len(rows) < count:
        shape = choose.choice([everyday_shape, random_shape, sequence_shape])(choose)
        batch, dtype, last = choose.choice(BATCHES), choose.randrange(3), choose.random() < 0.3 and len(shape.x) > 1
        try:
            with torch.device("meta"):
                y = layer_of(shape)(torch.empty(batch, shape.c, *shape.x)).shape
        except RuntimeError:
            continue
        if max(y.numel(), batch * shape.c * torch.Size(shape.x).numel()) < LARGEST and not 1 < shape.groups == shape.c:
            head = ("", dtype, last, shape.transposed, shape.groups, batch, shape.c, shape.k)
            spread = (shape.stride, shape.dilation)
            rows.append(Row(*head, shape.x, shape.w, tuple(y[2:]), *spread, (-1, -1, -1)))
    return rows


def on_gpu(rows: list[Row]) -> list[int]:
    """What the plans take, of three passes each."""
    torch.zeros(1, device="cuda")
    library: Any = OnGPU(str(recorded.library()))
    device: Any = None  # the handle stands for it
    question: Any = {"allow_tf32": True, "deterministic": False}
    sizes = []
    for row in rows:
        for one in asked(row) or [None] * 3:
            try:
                size = next(cudnn_answers._plans(library, device, one.question(), question, (0,)))[0] if one else -1
            except (cudnn_answers.CuDNNError, StopIteration):
                size = -1
            library.free()
            sizes.append(size)
    return sizes


def without(rows: list[Row]) -> list[int]:
    """What cuDNN answers without a GPU, -1 about what a recorder does not ask."""
    path = recorded.library()
    passes = [one for row in rows for one in asked(row) or [None] * 3]
    wanted = [one for one in passes if one and not one.left_to_cublas() and not one.native()]
    sizes = dict(zip(wanted, recorded.ask(path, find("h200"), wanted), strict=True))
    return [sizes.get(one, -1) if one else -1 for one in passes]


def main() -> None:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shapes", type=int, default=0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--of", type=Path)
    args = parser.parse_args()
    rows = decode(gzip.decompress(args.of.read_bytes()))[0] if args.of else made_up(args.shapes, args.seed)
    sizes = without(rows) if args.of else on_gpu(rows)
    triples = zip(sizes[::3], sizes[1::3], sizes[2::3], strict=True)
    rows = [row._replace(workspaces=triple) for row, triple in zip(rows, triples, strict=True)]
    where = "without a GPU, for an H200" if args.of else torch.cuda.get_device_name()
    what = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {where}: what cuDNN's plans take."
    args.out.write_bytes(gzip.compress(encode(rows, what), 9, mtime=0))


if __name__ == "__main__":
    main()

"""Measure the workspaces of cuDNN's convolutions: estimate/workspace/testdata/convolutions.bin.gz.

    python3 convolutions.py OUT.bin.gz [--models resnet50,vgg16] [--random 19000] [--sequences 5000] [--seed 7]
                            [--onto FILE] [--seconds N]

measures each distinct convolution of models of timm and torchvision (all of both without --models, none with
--models none) at four random choices of dtype, memory format and batch, so many random shapes, and so many as models
of sequences, time series and graphs have them. --onto begins with the rows of a file; several of them may be given.
What counts is what the passes request beyond their result: the workspace, 0 for none.

The file is a line of JSON that names its columns, and the columns, each number in groups of seven bits.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent))
import allocator

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LONG_BATCHES = (*BATCHES, 512, 1024, 2048, 4096)
LIMIT = 3 << 30  # bytes of the larger of x and y: more takes too long to be worth it
NOT_SEEN = -1
COLUMNS = [
    *("model", "dims", "dtype (fp32, bf16, fp16)", "channels last", "transposed", "groups", "batch", "c", "k"),
    *("x, dims numbers each", "w", "y", "stride", "dilation"),
    *("workspace of y + 1 (0: not seen)", "of the gradient of x", "of the gradient of w"),
]


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


class Row(NamedTuple):
    """A measured convolution."""

    model: str
    dtype: int
    channels_last: bool
    transposed: bool
    groups: int
    batch: int
    c: int
    k: int
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    workspaces: tuple[int, int, int]


def varint(n: int) -> bytes:
    """Write a number in groups of seven bits, the least first."""
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def varints(data: bytes) -> Iterator[int]:
    """Read such numbers."""
    n = shift = 0
    for byte in data:
        n |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield n
            n = shift = 0


def encode(rows: list[Row], provenance: str) -> bytes:
    """Write rows as the file has them."""
    models = sorted({row.model for row in rows})
    index = {name: i for i, name in enumerate(models)}
    head = {"provenance": provenance, "rows": len(rows), "columns": COLUMNS, "models": models}
    scalars: list[Callable[[Row], int]] = [
        lambda r: index[r.model],
        lambda r: len(r.x),
        lambda r: r.dtype,
        lambda r: r.channels_last,
        lambda r: r.transposed,
        lambda r: r.groups,
        lambda r: r.batch,
        lambda r: r.c,
        lambda r: r.k,
    ]
    columns = [[of(row) for row in rows] for of in scalars]
    for name in ("x", "w", "y", "stride", "dilation"):
        columns.append([n for row in rows for n in getattr(row, name)])
    columns += [[row.workspaces[i] + 1 for row in rows] for i in range(3)]
    body = b"".join(varint(n) for column in columns for n in column)
    return json.dumps(head).encode() + b"\n" + body


def decode(data: bytes) -> tuple[list[Row], str]:
    """Read rows, and where they are from."""
    line, _, body = data.partition(b"\n")
    head = json.loads(line)
    numbers = varints(body)
    n = head["rows"]

    def column() -> list[int]:
        return [next(numbers) for _ in range(n)]

    model, dims, dtype, last, transposed, groups, batch, c, k = (column() for _ in range(9))
    lists = [[tuple(next(numbers) for _ in range(d)) for d in dims] for _ in range(5)]
    passes = list(zip(*([v - 1 for v in column()] for _ in range(3)), strict=True))
    heads = ([head["models"][i] for i in model], dtype, map(bool, last), map(bool, transposed), groups, batch, c, k)
    return [Row._make(row) for row in zip(*heads, *lists, passes, strict=True)], head["provenance"]


def shapes_of(model: nn.Module, x: Tensor) -> set[Shape]:
    """Return the distinct convolutions of a model, which runs on no device."""
    found: set[Shape] = set()

    def note(m: Any, args: tuple[Tensor, ...]) -> None:
        if isinstance(m.padding, str) or m.padding_mode != "zeros":
            return
        sizes = (tuple(m.weight.shape[2:]), tuple(m.stride), tuple(m.padding), tuple(m.dilation))
        found.add(Shape(m.transposed, m.groups, m.in_channels, m.out_channels, tuple(args[0].shape[2:]), *sizes))

    for m in model.modules():
        if isinstance(m, nn.modules.conv._ConvNd):
            m.register_forward_pre_hook(note)
    with torch.no_grad():
        model(x)
    return found


def random_shape(choose: random.Random) -> Shape:
    """Make a shape up: 1-D to 3-D, transposed, grouped, dilated."""
    dims = choose.choice([1, 2, 2, 2, 2, 2, 3])
    edge = {1: [100, 400, 1000, 3000], 2: [7, 8, 14, 16, 28, 32, 56, 75, 112, 149, 224, 256], 3: [4, 8, 14, 28, 56]}
    channels = [3, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024, 2048]
    c, k = choose.choice(channels), choose.choice(channels)
    groups = choose.choice([1, 1, 1, 1, 1, 1, 2, 4, 8, 32, c])
    k = c if groups == c else k
    if c % groups or k % groups:
        groups = 1
    size = choose.choice([1, 1, 3, 3, 3, 5, 7, 2, 4])
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
    length = choose.choice(
        [4, 7, 8, 12, 16, 21, 24, 25, 32, 36, 48, 50, 64, 96, 100, 128, 144, 168, 187, 192, 256, 336, 512]
    )
    channels = [1, 2, 3, 4, 7, 8, 12, 16, 21, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024, 2048]
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
        return Shape(transposed, groups, c, k, (length,), (filter,), (stride,), (padding,), (dilation,))
    other = choose.choice([1, 5, 12, 20, 32, 64, 80, 137, 207, 325])
    return Shape(transposed, groups, c, k, (other, length), (1, filter), (1, stride), (0, padding), (1, dilation))


def layer_of(s: Shape) -> nn.Module:
    """Make the layer of a shape, without a bias."""
    kinds = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d) if s.transposed else ()
    kind: Any = (kinds or (nn.Conv1d, nn.Conv2d, nn.Conv3d))[len(s.x) - 1]
    sizes = {"stride": s.stride, "padding": s.padding, "dilation": s.dilation}
    layer: nn.Module = kind(s.c, s.k, s.w, groups=s.groups, bias=False, **sizes)
    return layer


def measure(model: str, s: Shape, batch: int, dtype: int, channels_last: bool) -> Row | None:
    """Measure the three passes of a convolution; None where it is none, or too large."""
    device: dict[str, Any] = {"device": "cuda", "dtype": DTYPES[dtype]}
    form = torch.contiguous_format
    if channels_last and len(s.x) > 1:
        form = torch.channels_last if len(s.x) == 2 else torch.channels_last_3d
    try:
        layer: Any = layer_of(s).to(**device)
        layer = layer.to(memory_format=form)
        if batch * s.c * torch.Size(s.x).numel() * DTYPES[dtype].itemsize > LIMIT:
            return None
        x = torch.randn(batch, s.c, *s.x, **device).to(memory_format=form)
        y = layer(x)  # and cuDNN's own state is there
        if y.nbytes > LIMIT:
            return None
        gradient = torch.ones_like(y)
        weight = next(layer.parameters())
        _, forward = allocator.sizes_of(lambda: layer(x.detach()))
        backward = []
        for of_x, of_w in ((True, False), (False, True)):
            x.requires_grad_(of_x)
            weight.requires_grad_(of_w)
            y = layer(x)
            _, sizes = allocator.sizes_of(
                lambda y=y, of_x=of_x: torch.autograd.grad(y, x if of_x else weight, gradient)
            )
            backward.append(sizes)
    except (torch.OutOfMemoryError, RuntimeError):
        return None
    work = (workspace(forward), workspace(backward[0]), workspace(backward[1]))
    last = channels_last and len(s.x) > 1
    head = (model, dtype, last, s.transposed, s.groups, batch, s.c, s.k)
    return Row(*head, s.x, s.w, tuple(y.shape[2:]), s.stride, s.dilation, work)


def workspace(sizes: list[int]) -> int:
    """Return the largest block that is freed within a pass: 0 where none is."""
    freed = [-size for size in sizes if size < 0]
    return max(freed, default=0) if sizes else NOT_SEEN


def models(names: list[str]) -> Iterator[tuple[str, set[Shape]]]:
    """Return the convolutions of models by name; those that cannot be built or run on no device are said."""
    import timm
    import torchvision

    for name in names or [*timm.list_models(), *torchvision.models.list_models()]:
        try:
            with torch.device("meta"):
                if name in timm.list_models():
                    model: Any = timm.create_model(name, pretrained=False)
                    x = torch.randn(2, *model.default_cfg["input_size"])
                else:
                    model = torchvision.models.get_model(name, weights=None)
                    x = torch.randn(2, 3, 224, 224)
                yield name, shapes_of(model.eval(), x)
        except Exception as error:  # models raise whatever they meet
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)


def measured(
    sources: Iterable[tuple[str, set[Shape]]], choose: random.Random, end: float, batches: tuple[int, ...] = BATCHES
) -> Iterator[Row]:
    """Measure what was not seen before, each shape at four random choices, until the time is over."""
    seen: set[Shape] = set()
    for name, shapes in sources:
        fresh = sorted(shapes - seen)
        choose.shuffle(fresh)  # the time may end before the shapes do: then of every kind some are measured
        for shape in fresh:
            seen.add(shape)
            for _ in range(4):
                if time.monotonic() > end:
                    return
                row = measure(name, shape, choose.choice(batches), choose.randrange(3), choose.random() < 0.5)
                if row is not None:
                    yield row


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", default="", help="of timm and torchvision, with commas")
    parser.add_argument("--random", type=int, default=0, help="so many shapes besides")
    parser.add_argument("--sequences", type=int, default=0, help="so many of short rows")
    parser.add_argument("--seed", type=int, default=7, help="of the random choices")
    parser.add_argument("--onto", type=Path, action="append", default=[], help="a file whose rows come first")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args(arguments)
    rows: list[Row] = []
    before: list[str] = []
    for file in args.onto:
        more, provenance = decode(gzip.decompress(file.read_bytes()))
        rows += more
        before += [provenance] if provenance not in before else []
    choose, end = random.Random(args.seed), time.monotonic() + args.seconds
    names = [name for name in args.models.split(",") if name]
    if args.models != "none":
        rows += measured(models(names), choose, end)
    rows += measured([("", {random_shape(choose) for _ in range(args.random)})], choose, end)
    shapes = {sequence_shape(choose) for _ in range(args.sequences)}
    rows += measured([("", shapes)], choose, end, LONG_BATCHES)
    what = allocator.provenance("convolutions measured one by one, bytes requested beyond the result.")
    args.out.write_bytes(gzip.compress(encode(rows, " ".join([what, *before])), 9, mtime=0))
    print(f"{args.out}: {len(rows)} convolutions")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure the workspaces of cuDNN's convolutions: simulate/kernels/testdata/convolutions.bin.gz.

    python3 convolutions.py OUT.bin.gz [--models resnet50,vgg16] [--random 19000] [--sequences 5000] [--seed 7]
                            [--everyday 5000] [--onto FILE] [--seconds N]

measures each distinct convolution of models of timm and torchvision (all of both without --models, none with
--models none) at four random choices of dtype, memory format and batch, so many random shapes, so many as models
of sequences, time series and graphs have them, and so many as models of text, sound, images, points, tables and
volumes do. --onto begins with the rows of a file; several of them may be given.
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
from convolution_shapes import Shape, everyday_shape, random_shape, sequence_shape

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LONG_BATCHES = (*BATCHES, 512, 1024, 2048, 4096)
SMALL_BATCHES = (
    1,
    2,
    3,
    4,
    6,
    8,
    10,
    12,
    16,
    20,
    24,
    32,
    48,
    64,
    96,
    100,
    128,
    200,
    256,
    512,
    1024,
)
LIMIT = 2 << 30  # bytes of the larger of x and y: more takes too long to be worth it
PRODUCTS = 1 << 38  # of numbers in one pass, likewise: some kernels do but a milliard in a second
NOT_SEEN = -1
COLUMNS = [
    *(
        "model",
        "dims",
        "dtype (fp32, bf16, fp16)",
        "channels last",
        "transposed",
        "groups",
        "batch",
        "c",
        "k",
    ),
    *("x, dims numbers each", "w", "y", "stride", "dilation"),
    *(
        "workspace of y + 1 (0: not seen)",
        "of the gradient of x",
        "of the gradient of w",
    ),
]


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
    head = {
        "provenance": provenance,
        "rows": len(rows),
        "columns": COLUMNS,
        "models": models,
    }
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
    heads = (
        [head["models"][i] for i in model],
        dtype,
        map(bool, last),
        map(bool, transposed),
        groups,
        batch,
        c,
        k,
    )
    return [Row._make(row) for row in zip(*heads, *lists, passes, strict=True)], head["provenance"]


def shapes_of(model: nn.Module, x: Tensor) -> set[Shape]:
    """Return the distinct convolutions of a model, which runs on no device."""
    found: set[Shape] = set()

    def note(m: Any, args: tuple[Tensor, ...]) -> None:
        if isinstance(m.padding, str) or m.padding_mode != "zeros":
            return
        sizes = (
            tuple(m.weight.shape[2:]),
            tuple(m.stride),
            tuple(m.padding),
            tuple(m.dilation),
        )
        found.add(
            Shape(
                m.transposed,
                m.groups,
                m.in_channels,
                m.out_channels,
                tuple(args[0].shape[2:]),
                *sizes,
            )
        )

    for m in model.modules():
        if isinstance(m, nn.modules.conv._ConvNd):
            m.register_forward_pre_hook(note)
    with torch.no_grad():
        model(x)
    return found


def layer_of(s: Shape) -> nn.Module:
    """Make the layer of a shape, without a bias."""
    kinds = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d) if s.transposed else ()
    kind: Any = (kinds or (nn.Conv1d, nn.Conv2d, nn.Conv3d))[len(s.x) - 1]
    sizes = {"stride": s.stride, "padding": s.padding, "dilation": s.dilation}
    layer: nn.Module = kind(s.c, s.k, s.w, groups=s.groups, bias=False, **sizes)
    return layer


def measure(model: str, s: Shape, batch: int, dtype: int, channels_last: bool, limits: int = 1) -> Row | None:
    """Measure the three passes of a convolution; None where it is none, or larger than so many times the limits."""
    device: dict[str, Any] = {"device": "cuda", "dtype": DTYPES[dtype]}
    form = torch.contiguous_format
    if channels_last and len(s.x) > 1:
        form = torch.channels_last if len(s.x) == 2 else torch.channels_last_3d
    try:
        with torch.device("cuda"):  # where making up large weights takes no time
            layer: Any = layer_of(s).to(**device)
        layer = layer.to(memory_format=form)
        if batch * s.c * torch.Size(s.x).numel() * DTYPES[dtype].itemsize > limits * LIMIT:
            return None
        weight = next(layer.parameters())
        with torch.device("meta"):
            size = layer_of(s)(torch.empty(batch, s.c, *s.x)).numel()
        pixels = batch * torch.Size(s.x).numel() * s.c if s.transposed else size
        if size >= 1 << 31:  # PyTorch runs more in parts
            return None
        if size * DTYPES[dtype].itemsize > limits * LIMIT or pixels * weight[0].numel() > limits * PRODUCTS:
            return None
        failed = torch.cuda.memory_stats().get("num_ooms", 0)
        x = torch.zeros(batch, s.c, *s.x, **device).to(memory_format=form)
        layer(x)  # and cuDNN's own state is there
        y = layer(x)
        gradient = torch.ones_like(y)
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
        if torch.cuda.memory_stats()["num_ooms"] > failed:  # then cuDNN ran what it would not have chosen
            return None
    except (torch.OutOfMemoryError, RuntimeError):
        return None
    work = (workspace(forward), workspace(backward[0]), workspace(backward[1]))
    last = channels_last and len(s.x) > 1
    head = (model, dtype, last, s.transposed, s.groups, batch, s.c, s.k)
    return Row(*head, s.x, s.w, tuple(y.shape[2:]), s.stride, s.dilation, work)


def workspace(sizes: list[int]) -> int:
    """Return the largest block that is allocated and freed within a pass, 0 where none is.

    What is freed but was not allocated there belongs to layers before, whose cycles Python collects when it likes.
    """
    given = [-size for size in sizes if size < 0 and -size in sizes]
    return max(given, default=0) if sizes else NOT_SEEN


def named(file: Path, part: tuple[int, int]) -> Iterator[tuple[str, Shape, int, int, bool]]:
    """Read convolutions, a JSON line each as of simulate/kernels.ConvShape: a shape, batch, dtype and format.

    What model it is of may be said as well. Of several parts one is read. What padding there is follows from the sizes;
    where none gives them, none is read.
    """
    for i, line in enumerate(file.read_text().splitlines()):
        row = json.loads(line)
        x, w, y = row["X"][2:], row["W"][2:], row["Y"][2:]
        padding = []
        for sizes in zip(x, w, y, row["Stride"], row["Dilation"], strict=True):
            fits = [p for p in range(sizes[1] * sizes[4] + 1) if size_of(row["Transposed"], p, *sizes) == sizes[2]]
            padding += fits[:1]
        if i % part[1] == part[0] and len(padding) == len(x):
            head = (row["Transposed"], row["Groups"], row["X"][1], row["Y"][1])
            spread = (tuple(row["Stride"]), tuple(padding), tuple(row["Dilation"]))
            dtype = 0 if row["Elem"] == 4 else 2 if row["Float16"] else 1
            shape = Shape(*head, tuple(x), tuple(w), *spread)
            yield row.get("Model", ""), shape, row["X"][0], dtype, row["ChannelsLast"]


def size_of(transposed: bool, padding: int, x: int, w: int, _: int, stride: int, dilation: int) -> int:
    """Return the size of a result along a dimension."""
    reach = dilation * (w - 1) + 1
    return (x - 1) * stride - 2 * padding + reach if transposed else (x + 2 * padding - reach) // stride + 1


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
        except Exception as error:  # noqa: BLE001 - models raise whatever they meet
            print(
                f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}",
                file=sys.stderr,
            )


def measured(
    sources: Iterable[tuple[str, set[Shape]]],
    choose: random.Random,
    end: float,
    batches: tuple[int, ...] = BATCHES,
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
                row = measure(
                    name,
                    shape,
                    choose.choice(batches),
                    choose.randrange(3),
                    choose.random() < 0.5,
                )
                if row is not None:
                    yield row


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", default="", help="of timm and torchvision, with commas")
    parser.add_argument("--random", type=int, default=0, help="so many shapes besides")
    parser.add_argument("--sequences", type=int, default=0, help="so many of short rows")
    parser.add_argument(
        "--everyday",
        type=int,
        default=0,
        help="so many as many kinds of models have them",
    )
    parser.add_argument(
        "--shapes", type=Path, help="a file of convolutions, a JSON line each, to be measured as they are"
    )
    parser.add_argument("--part", default="0/1", help="of --shapes: the first of four parts is 0/4")
    parser.add_argument("--share", type=float, default=1, help="of the GPU's memory, where others measure on it")
    parser.add_argument("--seed", type=int, default=7, help="of the random choices")
    parser.add_argument(
        "--onto",
        type=Path,
        action="append",
        default=[],
        help="a file whose rows come first",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args(arguments)
    if args.share < 1:
        torch.cuda.set_per_process_memory_fraction(args.share)
    rows: list[Row] = []
    before: list[str] = []
    for file in args.onto:
        more, provenance = decode(gzip.decompress(file.read_bytes()))
        rows += more
        before += [provenance] if provenance not in before else []
    choose, end = random.Random(args.seed), time.monotonic() + args.seconds
    names = [name for name in args.models.split(",") if name]
    if args.shapes:
        first, of = args.part.split("/")
        for wanted in named(args.shapes, (int(first), int(of))):
            if time.monotonic() < end and (row := measure(*wanted, limits=4)):
                rows.append(row)
    if args.models != "none":
        rows += measured(models(names), choose, end)
    rows += measured([("", {random_shape(choose) for _ in range(args.random)})], choose, end)
    shapes = {sequence_shape(choose) for _ in range(args.sequences)}
    rows += measured([("", shapes)], choose, end, LONG_BATCHES)
    shapes = {everyday_shape(choose) for _ in range(args.everyday)}
    rows += measured([("", shapes)], choose, end, SMALL_BATCHES)
    what = allocator.provenance("convolutions measured one by one, bytes requested beyond the result.")
    args.out.write_bytes(gzip.compress(encode(rows, " ".join([what, *before])), 9, mtime=0))
    print(f"{args.out}: {len(rows)} convolutions")
    return 0


if __name__ == "__main__":
    sys.exit(main())

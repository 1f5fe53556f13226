"""Measure what one call each of many operators allocates: the rows under "single" of operator-events.json.gz.

    python3 single.py OUT.json.gz [--only NAME]

calls each operator as its name says, once before it counts, and writes the sizes that its forward and its backward pass
allocated, in order, with those that they freed less than 0. estimate/torch/operators_cases_test.go and the files beside
it have the same cases by the same names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).parent))
import allocator
from operators import Call, one

PICTURE = (8, 64, 128, 128)
ROWS = (4096, 1024)
LOGITS = (4096, 50304)
TYPES = (torch.float32, torch.bfloat16, torch.float16)

Function = Callable[..., Any]


def call(name: str, run: Function, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Call:
    """Return the call of a function of leaves of these shapes, of a picture where none are given."""
    return Call({"name": name}, lambda: (run, [leaf(*shape, dtype=dtype) for shape in shapes or (PICTURE,)]))


def leaf(*shape: int, dtype: torch.dtype = torch.float32, last: bool = False) -> Tensor:
    """Make an input that collects a gradient."""
    form = torch.channels_last if last else torch.contiguous_format
    return torch.randn(shape, dtype=dtype).contiguous(memory_format=form).requires_grad_()


def module(name: str, build: Callable[[], nn.Module], x: Callable[[], Tensor], run: Function | None = None) -> Call:
    """Return the call of a module, whose parameters collect gradients too."""

    def make() -> tuple[Function, list[Tensor]]:
        m = build()
        return (lambda x, *_: run(m, x) if run else m(x)), [x(), *m.parameters()]

    return Call({"name": name}, make)


def pointwise() -> Iterator[Call]:
    """What has a result for each element."""
    functions: dict[str, Function] = {
        "relu": F.relu,
        "relu_inplace": lambda x: F.relu(x * 2, inplace=True),
        "leaky": F.leaky_relu,
        "elu": F.elu,
        "silu": F.silu,
        "hardswish": F.hardswish,
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "softplus": F.softplus,
        "hardsigmoid": F.hardsigmoid,
        "hardtanh": F.hardtanh,
        "clamp": lambda x: x.clamp(-1, 1),
        "mish": F.mish,
        "add_self": lambda x: x + x,
        "add_scalar": lambda x: x + 1,
        "mul_self": lambda x: x * x,
        "mul_scalar": lambda x: x * 2,
        "div_scalar": lambda x: x / 2,
        "pow2": lambda x: x.pow(2),
        "sqrt": lambda x: x.detach().abs().requires_grad_().sqrt(),
        "exp": torch.exp,
        "log": torch.log,
        "erf": torch.erf,
        "rsqrt": torch.rsqrt,
        "neg": torch.neg,
        "abs": torch.abs,
        "sin": torch.sin,
        "maximum": lambda x: torch.maximum(x, x * 2),
        "softmax": lambda x: x.softmax(-1),
        "logsoftmax": lambda x: x.log_softmax(-1),
        "softmax_dim1": lambda x: x.softmax(1),
        "dropout": F.dropout,
        "dropout2d": F.dropout2d,
        "where": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
        "masked_fill": lambda x: x.masked_fill(x > 0, 0),
        "to_bf16": lambda x: x.to(torch.bfloat16),
        "clone": torch.clone,
        "glu": lambda x: F.glu(x, 1),
    }
    yield from (call(name, run) for name, run in functions.items())
    for name, run in {"add": torch.add, "mul": torch.mul, "div": torch.div}.items():
        yield call(f"{name}_xy", run, PICTURE, PICTURE)
    yield call("sub", torch.sub, PICTURE, PICTURE)
    for name, run in {"mul": torch.mul, "add": torch.add}.items():
        yield call(f"{name}_bcast", run, PICTURE, (1, 64, 1, 1))
    yield call("residual relu(x)+x twice-used", lambda x: fan(x, F.relu))
    yield call("residual3 u used 3x", lambda x: fan(x, F.relu, F.silu, torch.sigmoid))
    yield call("residual4 u used 4x", lambda x: fan(x, F.relu, F.silu, torch.sigmoid, torch.tanh))


def fan(x: Tensor, *functions: Function) -> Tensor:
    """Add functions of one tensor; the tensor itself to a single one."""
    u = x * 2
    if len(functions) == 1:
        return torch.add(functions[0](u), u)
    out: Tensor = functions[0](u) + functions[1](u)
    for f in functions[2:]:
        out = out + f(u)
    return out


def shaped() -> Iterator[Call]:
    """Pooling, views and reductions."""
    functions: dict[str, Function] = {
        "maxpool": lambda x: F.max_pool2d(x, 2),
        "maxpool_ceil": lambda x: F.max_pool2d(x, 2, ceil_mode=True),
        "avgpool": lambda x: F.avg_pool2d(x, 2),
        "adap1": lambda x: F.adaptive_avg_pool2d(x, 1),
        "adap7": lambda x: F.adaptive_avg_pool2d(x, 7),
        "adapmax": lambda x: F.adaptive_max_pool2d(x, 1),
        "reflpad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
        "up_near": lambda x: F.interpolate(x, scale_factor=2),
        "up_bil": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        "pixshuf": lambda x: F.pixel_shuffle(x, 2),
        "unfold": lambda x: F.unfold(x, 3, padding=1),
        "cat": lambda x: torch.cat([x, x], 1),
        "split_cat": lambda x: torch.cat(x.split(32, 1)[::-1], 1),
        "split0": lambda x: x.split(32, 1)[0] * 2,
        "slice": lambda x: x[:, :32] * 2,
        "transpose_contig": lambda x: x.transpose(1, 2).contiguous(),
        "reshape_copy": lambda x: x.transpose(1, 2).reshape(8, -1),
        "view": lambda x: x.view(8, -1),
        "permute": lambda x: x.permute(0, 2, 3, 1),
        "roll": lambda x: x.roll(1, 2),
        "flip": lambda x: x.flip(2),
        "expand": lambda x: x[:, :1].expand(PICTURE) * 2,
        "mean": torch.mean,
        "mean_dim": lambda x: x.mean((2, 3)),
        "sum": torch.sum,
        "max_dim": lambda x: x.max(1)[0],
        "amax": lambda x: x.amax(1),
        "max_all": lambda x: x.max(),
        "cumsum": lambda x: x.cumsum(1),
        "topk": lambda x: tuple(x.topk(5)),
        "sort": lambda x: tuple(x.sort(3)),
        "var": lambda x: x.var(3),
        "norm": torch.norm,
        "cos": lambda x: F.cosine_similarity(x, x * 2, dim=1),
        "einsum": lambda x: torch.einsum("bchw,bdhw->bcd", x, x),
    }
    yield from (call(name, run) for name, run in functions.items())
    yield call("expand grad stolen? sum", torch.sum, (1024, 1024))


def norms() -> Iterator[Call]:
    """Norms, as functions and as modules."""
    bf16 = torch.bfloat16
    yield module("bn train fp32", lambda: nn.BatchNorm2d(64), lambda: leaf(*PICTURE))
    yield module("bn eval fp32", lambda: nn.BatchNorm2d(64).eval(), lambda: leaf(*PICTURE))
    yield module("bn train bf16 in, fp32 params", lambda: nn.BatchNorm2d(64), lambda: leaf(*PICTURE, dtype=bf16))
    yield module("bn train channels_last", lambda: nn.BatchNorm2d(64), lambda: leaf(*PICTURE, last=True))
    yield call("instnorm", F.instance_norm)
    yield module("instancenorm affine", lambda: nn.InstanceNorm2d(64, affine=True), lambda: leaf(*PICTURE))
    yield module("groupnorm", lambda: nn.GroupNorm(8, 64), lambda: leaf(*PICTURE))
    yield module("layernorm [4096,1024]", lambda: nn.LayerNorm(1024), lambda: leaf(*ROWS))
    yield module("layernorm bf16", lambda: nn.LayerNorm(1024, dtype=bf16), lambda: leaf(*ROWS, dtype=bf16))
    yield module("rmsnorm fp32", lambda: nn.RMSNorm(1024), lambda: leaf(*ROWS))
    yield module("rmsnorm bf16", lambda: nn.RMSNorm(1024, dtype=bf16), lambda: leaf(*ROWS, dtype=bf16))
    yield Call({"name": "HF llama rmsnorm bf16 in"}, llama_norm)
    yield call("lrn", lambda x: F.local_response_norm(x, 5))
    yield call("normalize", lambda x: F.normalize(x, dim=1))


def llama_norm() -> tuple[Function, list[Tensor]]:
    """Make the norm of transformers' Llama, whose weight keeps the gradient of the call before."""
    weight = leaf(1024)

    def run(x: Tensor) -> Tensor:
        v = x.to(torch.float32)
        return weight * (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)).to(torch.bfloat16)

    return run, [leaf(*ROWS, dtype=torch.bfloat16)]


def products(dtype: torch.dtype) -> Iterator[Call]:
    """Linear layers and products of matrices."""
    inputs = {"3d": (8, 512, 1024), "2d": ROWS}
    for bias, rest in ((True, [(4096, 1024), (4096,)]), (False, [(4096, 1024)])):
        for name, x in inputs.items():
            yield call(f"linear{name} bias={bias} {dtype}", F.linear, x, *rest, dtype=dtype)
    turned = lambda x, w, b: F.linear(x.transpose(0, 1), w, b)
    yield call(f"linear3d noncontig {dtype}", turned, inputs["3d"], (4096, 1024), (4096,), dtype=dtype)
    pair = ((64, 512, 64), (64, 64, 512))
    yield call(f"bmm {dtype}", torch.bmm, *pair, dtype=dtype)
    four = lambda a, b: a.view(4, 16, 512, 64) @ b.view(4, 16, 64, 512)
    yield call(f"matmul4d transposed k {dtype}", four, *pair, dtype=dtype)
    yield call(f"matmul 4d from permuted heads {dtype}", scores, inputs["3d"], inputs["3d"], dtype=dtype)


def scores(q: Tensor, k: Tensor) -> Tensor:
    """Multiply heads that were cut out of rows."""
    return q.view(8, 512, 16, 64).permute(0, 2, 1, 3) @ k.view(8, 512, 16, 64).permute(0, 2, 3, 1)


def steal() -> tuple[Function, list[Tensor]]:
    """Make a linear layer of an input without a gradient."""
    x = torch.randn(ROWS)
    return (lambda w: F.linear(x, w)), [leaf(1024, 1024)]


def indexed() -> Iterator[Call]:
    """What reads rows of a table."""
    functions: dict[str, Function] = {
        "embedding": lambda w, ids: F.embedding(ids, w),
        "index_select": lambda w, ids: w.index_select(0, ids.view(-1)),
        "gather idx": lambda w, ids: w.gather(0, ids.view(-1, 1).expand(-1, 1024)),
        "adv idx": lambda w, ids: w[ids],
        "tied weight": lambda w, ids: F.linear(F.embedding(ids, w).view(-1, 1024), w),
    }
    for name, run in functions.items():

        def make(run: Function = run) -> tuple[Function, list[Tensor]]:
            ids = torch.randint(0, 50000, (8, 512))
            return (lambda w: run(w, ids)), [leaf(50000, 1024)]

        yield Call({"name": name}, make)


def losses() -> Iterator[Call]:
    """Losses of logits, and of pictures."""
    functions: dict[str, tuple[Function, torch.dtype]] = {
        "cross_entropy fp32 [4096,50304]": (F.cross_entropy, torch.float32),
        "cross_entropy bf16": (F.cross_entropy, torch.bfloat16),
        "cross_entropy bf16.float()": (lambda x, y: F.cross_entropy(x.float(), y), torch.bfloat16),
        "ce label_smoothing": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), torch.float32),
    }
    for name, (run, dtype) in functions.items():
        labels = lambda: torch.randint(0, LOGITS[1], LOGITS[:1])
        yield against(name, run, labels, lambda dtype=dtype: leaf(*LOGITS, dtype=dtype))
    picture = {"mse": F.mse_loss, "l1": F.l1_loss, "smoothl1": F.smooth_l1_loss}
    soft = lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid())
    for name, run in {**picture, "bce_logits": soft}.items():
        yield against(name, run, lambda: torch.randn(PICTURE), lambda: leaf(*PICTURE))


def against(name: str, run: Function, target: Callable[[], Tensor], out: Callable[[], Tensor]) -> Call:
    """Return the call of a loss."""

    def make() -> tuple[Function, list[Tensor]]:
        y = target()
        return (lambda x: run(x, y)), [out()]

    return Call({"name": name}, make)


def attentions(dtype: torch.dtype) -> Iterator[Call]:
    """Scaled dot product attention."""
    sdpa, q = F.scaled_dot_product_attention, (4, 16, 1024, 64)
    for kind, more in {"none": {}, "causal": {"is_causal": True}, "drop": {"dropout_p": 0.1}}.items():
        yield call(f"sdpa {dtype} {kind}", lambda q, k, v, more=more: sdpa(q, k, v, **more), q, q, q, dtype=dtype)
    for kind, form in {"fmask": dtype, "bmask": torch.bool}.items():

        def make(form: torch.dtype = form) -> tuple[Function, list[Tensor]]:
            mask = torch.ones(4, 1, 1024, 1024, dtype=form)
            return (lambda q, k, v: sdpa(q, k, v, mask)), [leaf(*q, dtype=dtype) for _ in range(3)]

        yield Call({"name": f"sdpa {dtype} {kind}"}, make)
    packed = lambda x: sdpa(*x.permute(2, 0, 3, 1, 4).unbind(0))
    yield call(f"sdpa {dtype} from packed qkv permute", packed, (4, 1024, 3, 16, 64), dtype=dtype)
    yield call(f"sdpa {dtype} hd80 L1000", lambda x: sdpa(x, x, x), (4, 16, 1000, 80), dtype=dtype)
    grouped = lambda q, k: sdpa(q, k, k, enable_gqa=True)
    yield call(f"sdpa {dtype} gqa", grouped, q, (4, 4, 1024, 64), dtype=dtype)


def math_attention(x: Tensor) -> Tensor:
    """Run attention as products and a softmax."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)


def modules() -> Iterator[Call]:
    """Attention and recurrent layers as modules."""
    yield call("sdpa math fp32 causal", math_attention, (4, 16, 1024, 64))
    for weights in (False, True):
        heads = lambda m, x, weights=weights: m(x, x, x, need_weights=weights)
        build = lambda: nn.MultiheadAttention(1024, 16, batch_first=True)
        yield module(f"MHA need_weights={weights}", build, lambda: leaf(4, 512, 1024), heads)
    for name, kind in {"LSTM": nn.LSTM, "GRU": nn.GRU}.items():
        rnn = lambda kind=kind: kind(256, 512, 2, batch_first=True)
        yield module(name, rnn, lambda: leaf(16, 100, 256))
    both = lambda: nn.LSTM(256, 512, 2, bidirectional=True, dropout=0.1)
    yield module("LSTM bi dropout", both, lambda: leaf(100, 16, 256))


def convolutions() -> Iterator[Call]:
    """Convolutions of common networks: batch, channels, height, filters, kernel, stride, padding, groups."""
    common = [(32, 3, 224, 64, 7, 2, 3, 1), (32, 64, 56, 64, 3, 1, 1, 1), (32, 64, 56, 256, 1, 1, 0, 1)]
    common += [(32, 128, 28, 128, 3, 1, 1, 1), (32, 256, 14, 256, 3, 1, 1, 1), (32, 512, 7, 512, 3, 1, 1, 1)]
    common += [(32, 256, 56, 128, 3, 2, 1, 1), (32, 144, 56, 144, 3, 1, 1, 144), (32, 96, 56, 96, 7, 1, 3, 96)]
    common.append((8, 3, 224, 768, 16, 16, 0, 1))
    for dtype in TYPES:
        for last in (False, True):
            for n, c, h, k, kernel, stride, pad, groups in common:
                sizes = f"N{n} C{c} H{h} K{k} k{kernel} s{stride} g{groups}"

                def make(
                    x: tuple[int, ...] = (n, c, h, h),
                    w: tuple[int, ...] = (k, c // groups, kernel, kernel),
                    how: tuple[Any, ...] = (stride, pad, 1, groups),
                    dtype: torch.dtype = dtype,
                    last: bool = last,
                ) -> tuple[Function, list[Tensor]]:
                    inputs = [leaf(*x, dtype=dtype, last=last), leaf(*w, dtype=dtype, last=last)]
                    if w[2] == 16:
                        inputs.append(leaf(w[0], dtype=dtype))
                    return (lambda x, w, b=None: F.conv2d(x, w, b, *how)), inputs

                yield Call({"name": f"conv {str(dtype).removeprefix('torch.')} cl={last} {sizes}"}, make)
    square = ((32, 64, 56, 56), (64, 64, 3, 3), (64,))
    yield call("conv bias fp32 32x64x56", lambda x, w, b: F.conv2d(x, w, b, padding=1), *square)
    up = lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2)
    yield call("convT fp32", up, (8, 64, 56, 56), (64, 32, 2, 2), (32,))
    yield call("conv1d fp32", lambda x, w, b: F.conv1d(x, w, b, padding=1), (8, 80, 1500), (512, 80, 3), (512,))
    volume = ((2, 16, 32, 64, 64), (32, 16, 3, 3, 3), (32,))
    yield call("conv3d fp32", lambda x, w, b: F.conv3d(x, w, b, padding=1), *volume)
    yield call("conv dil2 fp32", lambda x, w, b: F.conv2d(x, w, b, padding=2, dilation=2), *square)


def calls() -> Iterator[Call]:
    """Return all but the blocks."""
    yield from pointwise()
    yield from shaped()
    yield from norms()
    for dtype in TYPES[:2]:
        yield from products(dtype)
    yield Call({"name": "linear weight grad steal via t()"}, steal)
    yield from indexed()
    yield from losses()
    yield from convolutions()
    yield from modules()
    for dtype in TYPES:
        yield from attentions(dtype)


def blocks() -> Iterator[dict[str, Any]]:
    """Measure a small network and its loss, whose results of the round before its variables still hold."""
    layers = [nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.LayerNorm(1024), nn.GELU()]
    net, x, target = nn.Sequential(*layers, nn.Linear(1024, 1024)), torch.randn(ROWS), torch.randn(ROWS)
    kept: dict[str, Tensor] = {}

    def forward(amp: bool) -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            kept["out"] = net(x)
            kept["loss"] = F.mse_loss(kept["out"], target)

    def round_of(name: str, amp: bool, again: bool) -> dict[str, Any]:
        for _ in range(2):
            net.zero_grad()
            forward(amp)
            kept["loss"].backward()
        if not again:
            net.zero_grad()
        _, fwd = allocator.sizes_of(lambda: forward(amp))
        _, bwd = allocator.sizes_of(lambda: kept["loss"].backward())
        return {"name": name, "fwd": None if again else fwd, "bwd": bwd}

    yield round_of("amp block", amp=True, again=False)
    yield round_of("fp32 block", amp=False, again=False)
    yield round_of("fp32 block, grads there", amp=False, again=True)
    with torch.no_grad():
        for _ in range(2):
            _, fwd = allocator.sizes_of(lambda: kept.update(out=net(x)))
    yield {"name": "fp32 block, inference", "fwd": fwd, "bwd": []}


def main(arguments: list[str] | None = None) -> int:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="the operators whose names have this in them")
    args = parser.parse_args(arguments)
    torch.set_default_device("cuda")
    rows = []
    for c in calls():
        if args.only in c.about["name"]:
            row = one(c)
            row.pop("out", None)
            rows.append(row)
    rows += [row for row in blocks() if args.only in row["name"]]
    what = "signed allocation sizes of single operators, forward and backward"
    allocator.write(args.out, {"source": allocator.provenance(what), "single": rows})
    print(f"{args.out}: {len(rows)} operators, {sum('error' in row for row in rows)} of them failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

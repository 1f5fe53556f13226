"""Export and record small models, each of which has one construct of published code, without a GPU.

usage: constructs.py OUT [NAME ...]

OUT/NAME.WAY.onnx are the exports, dynamo-train by torch.export in training mode with the lines of this file, dynamo the
default export, ts-train by TorchScript, steps-train as dynamo-train with recurrent layers taken apart;
OUT/NAME.MODE.mrec are recordings of three training steps with AdamW and the mean of the output, and of two passes of
inference, on an H200, and as MODE amp of steps under autocast in bfloat16. What is in OUT already is not made again.
estimate/testdata/constructs has the exports without their weights (scripts/strip_weights.py, zstd -19) and in
recorded.json what is allocated at the peaks of the recordings, as the program answers.
"""

# ruff: noqa: RUF059 (names that nothing reads are what some of these are about)

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._decomp import get_decompositions
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from torchvision.ops import DeformConv2d

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "src"))
from memestimate import record

Tensor = torch.Tensor


class Block(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        out += identity
        return self.relu(out)


class Checkpointed(nn.Module):
    """torch.utils.checkpoint in a loop over blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, padding=1)
        self.blocks = nn.ModuleList([Block(64) for _ in range(3)])
        self.head = nn.Conv2d(64, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x).mean((2, 3))


class SwishFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, i: Tensor) -> Tensor:
        result = i * torch.sigmoid(i)
        ctx.save_for_backward(i)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (i,) = ctx.saved_tensors
        sigmoid = torch.sigmoid(i)
        return grad * (sigmoid * (1 + i * (1 - sigmoid)))


class Swish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return SwishFunction.apply(x)


class OwnFunction(nn.Module):
    """A torch.autograd.Function, as EfficientNet-PyTorch's MemoryEfficientSwish."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.expand = nn.ModuleList([nn.Conv2d(32, 128, 1, bias=False) for _ in range(3)])
        self.norm = nn.ModuleList([nn.BatchNorm2d(128) for _ in range(3)])
        self.project = nn.ModuleList([nn.Conv2d(128, 32, 1, bias=False) for _ in range(3)])
        self.swish = Swish()

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for i in range(3):
            out = self.norm[i](self.expand[i](x))
            out = self.swish(out)
            x = self.project[i](out) + x
        return x.mean((2, 3))


class SpikeFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        ctx.save_for_backward(u)
        return (u > 0).float()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (u,) = ctx.saved_tensors
        return grad / (1 + u.abs()) ** 2


class Neurons(nn.Module):
    """They leak and spike in four steps of time."""

    def forward(self, current: Tensor) -> Tensor:
        potential, spikes = 0, []
        for _ in range(4):
            potential = 0.5 * potential + current
            charge = potential - 1
            spike = SpikeFunction.apply(charge)
            potential = (1 - spike) * potential
            spikes.append(spike)
        return torch.stack(spikes, 1)


class Spikes(nn.Module):
    """Spiking neurons with a surrogate gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), Neurons())
        self.second = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), Neurons())
        self.head = nn.Conv2d(32, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).mean(1)
        x = self.second(x).mean(1)
        return self.head(x).mean((2, 3))


class MadeThere(nn.Module):
    """Activations that the line makes that calls them."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.inside, self.outside = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(c, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.inside(x) * self.scale
        h = nn.LeakyReLU(0.2, inplace=True)(h)
        h = self.outside(h) * self.scale
        h = nn.ReLU(True)(h)
        h = h + self.scale
        h = nn.ReLU()(h)
        return h + x


class NoGrad(nn.Module):
    """A backbone under torch.no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), Block(64), Block(64))
        self.head = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 10, 1))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            x = self.backbone(x)
        return self.head(x).mean((2, 3))


class LogScan(nn.Module):
    """A gated recurrence as a scan of logarithms."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.both = nn.Linear(c, 2 * c)

    def forward(self, x: Tensor) -> Tensor:
        hidden, gate = self.both(x).chunk(2, dim=-1)
        decay = (-F.softplus(gate)).cumsum(dim=1)
        values = F.logsigmoid(gate) + hidden
        return (decay + (values - decay).logcumsumexp(dim=1)).exp()


class Skipped(nn.Module):
    """A linear layer whose rows are written over where all of a row's values say so."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.linear = nn.Linear(c, 3 * c)
        self.back = nn.Linear(3 * c, c)

    def forward(self, x: Tensor) -> Tensor:
        out = self.linear(x)
        out[(x == -100.0).all(dim=-1)] = -100.0
        return self.back(F.gelu(out))


class RootNorms(nn.Module):
    """Norms by the root mean square, PyTorch's own with a weight and without, and one that a program writes."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.first = nn.RMSNorm(c)
        self.both = nn.Linear(c, c)
        self.scale = nn.Parameter(torch.ones(c))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.both(self.first(x))
        x = F.rms_norm(x, x.shape[-1:])
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale


class Attention(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.out = nn.Linear(d, d)
        self.dropout = nn.Dropout(0.1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.matmul(q / q.size(-1) ** 0.5, k.transpose(2, 3))
        attn = self.dropout(F.softmax(scores, dim=-1))
        return torch.matmul(attn, v), attn

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.k(x).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.v(x).view(b, n, self.heads, -1).transpose(1, 2)
        q, attn = self.attend(q, k, v)
        q = q.transpose(1, 2).contiguous().view(b, n, d)
        return self.out(q), attn


class Layer(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.attention = Attention(d, 4)
        self.w_1 = nn.Linear(d, 2 * d)
        self.w_2 = nn.Linear(2 * d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = self.attention(x)
        x = self.norm(x + y)
        return self.w_2(F.relu(self.w_1(x))), weights


class Weights(nn.Module):
    """Attention that returns its weights, through modules that return them on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer(128) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x, attn = layer(x)
        return x


def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.bmm(query, key.transpose(1, 2)) / query.size(-1) ** 0.5
    attn = F.softmax(scores, -1)
    context = torch.bmm(attn, value)
    return context, attn


class Attend(nn.Module):
    def forward(self, query: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        return attend(query, memory, memory)


class TwoNames(nn.Module):
    """Attention of a decoder to an encoder, whose weights a name holds that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(64, 64)
        self.query = nn.Linear(64, 64)
        self.attention = Attend()
        self.out = nn.Linear(128, 2048)

    def forward(self, x: Tensor) -> Tensor:
        memory = torch.tanh(self.encoder(x))
        output = self.query(x)
        context, attn = self.attention(output, memory)
        combined = torch.cat([context, output], dim=-1)
        return F.relu(self.out(combined))


class Splines(nn.Module):
    """A basis of splines by Cox and de Boor, each turn of which has one column fewer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64 * 8) * 0.01)
        self.grid: Tensor
        self.register_buffer("grid", torch.linspace(-2.2, 2.2, 12).repeat(64, 1))

    def basis(self, x: Tensor) -> Tensor:
        x, grid = x.unsqueeze(-1), self.grid
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, 4):
            bases = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)]) * bases[:, :, :-1] + (
                grid[:, k + 1 :] - x
            ) / (grid[:, k + 1 :] - grid[:, 1:-k]) * bases[:, :, 1:]
        return bases

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.basis(x).flatten(1), self.weight)


class LSTMCells(nn.Module):
    """nn.LSTMCell in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(64, 128)
        self.out = nn.Linear(128, 64)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 128, device=x.device)
        c = torch.zeros(x.size(0), 128, device=x.device)
        outputs = []
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], (h, c))
            outputs.append(h)
        return self.out(torch.stack(outputs, 1))


class GRUCells(nn.Module):
    """nn.GRUCell in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(64, 128)
        self.out = nn.Linear(128, 64)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.size(0), 128, device=x.device)
        outputs = []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            outputs.append(self.out(h))
        return torch.stack(outputs, 1)


class SelfAttention(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.q = nn.Conv2d(c, c // 8, 1)
        self.k = nn.Conv2d(c, c // 8, 1)
        self.v = nn.Conv2d(c, c, 1)
        self.gamma = nn.Parameter(torch.zeros(1))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, c, w, h = x.size()
        q = self.q(x).view(b, -1, w * h).permute(0, 2, 1)
        k = self.k(x).view(b, -1, w * h)
        energy = torch.bmm(q, k)
        attention = self.softmax(energy)
        v = self.v(x).view(b, -1, w * h)
        out = torch.bmm(v, attention.permute(0, 2, 1))
        out = out.view(b, c, w, h)
        out = self.gamma * out + x
        return out, attention


class SpectralNorm(nn.Module):
    """Spectral norms, whose power iterations run under torch.no_grad."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.utils.spectral_norm
        self.l1 = nn.Sequential(norm(nn.Conv2d(3, 64, 3, 1, 1)), nn.LeakyReLU(0.1))
        self.attn1 = SelfAttention(64)
        self.l2 = nn.Sequential(norm(nn.Conv2d(64, 64, 3, 1, 1)), nn.LeakyReLU(0.1))
        self.attn2 = SelfAttention(64)
        self.last = nn.Conv2d(64, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        out = self.l1(x)
        out, p1 = self.attn1(out)
        out = self.l2(out)
        out, p2 = self.attn2(out)
        return self.last(out)


class Norm32(nn.GroupNorm):
    """A norm that returns the type that it was given."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float()).type(x.dtype)


def own_checkpoint(func: Callable[..., Tensor], inputs: tuple[Tensor, ...], params: Any, flag: bool) -> Tensor:
    """As improved-diffusion's checkpoint, which asks whether to checkpoint."""
    assert not flag and params is not None
    return func(*inputs)


class Asked(nn.Module):
    """A block that gives a checkpoint of its own the flag not to."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm = Norm32(8, c)
        self.conv = nn.Conv2d(c, c, 3, padding=1)
        self.use_checkpoint = False

    def forward(self, x: Tensor) -> Tensor:
        checkpoint = own_checkpoint
        x = checkpoint(self._norm, (x,), self.parameters(), self.use_checkpoint)
        return checkpoint(
            self._conv,
            (x,),
            self.parameters(),
            self.use_checkpoint,
        )

    def _norm(self, x: Tensor) -> Tensor:
        return F.silu(self.norm(x))

    def _conv(self, x: Tensor) -> Tensor:
        return x + self.conv(x)


class OwnCheckpoint(nn.Module):
    """A function called checkpoint that is not torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.blocks = nn.Sequential(*[Asked(32) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.stem(x))


class Scores(nn.Module):
    """Attention whose statements take several lines each, and whose largest score is detached."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.scale = width**0.5

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.to_q(x), self.to_k(x), self.to_v(x)
        key = key.transpose(
            -1,
            -2,
        )
        score = (
            query @ key  # a line of the statement that the one above begins
        ) / self.scale
        score = score - score.amax(dim=-1, keepdim=True).detach()
        score = torch.softmax(score, dim=-1)
        return score @ value


class OfItsType(Scores):
    """Attention whose softmax is asked for the type of the scores, which autocast leaves in bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        score = self.to_q(x) @ self.to_k(x).transpose(-1, -2) / self.scale
        score = F.softmax(score, dim=-1, dtype=score.dtype)
        return score @ self.to_v(x)


class Cloned(nn.Module):
    """A gate that multiplies a copy of what it is computed from, as the large kernels of VAN do."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.gate, self.drop = nn.Conv2d(16, 16, 1), nn.Conv2d(16, 16, 1), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(F.gelu(self.before(x)))
        u = x.clone()
        return u * self.gate(x)


class Reentrant(Checkpointed):
    """torch.utils.checkpoint with use_reentrant=True, block after block, which torch.export takes for no_grad."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x).mean((2, 3))


class Unpool(nn.Module):
    """A pooling that returns places, and one that puts what comes of it back there."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.middle = nn.Conv2d(64, 64, 3, padding=1)
        self.unpool = nn.MaxUnpool2d(2)
        self.decoder = nn.Conv2d(64, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x)
        x, places = self.pool(x)
        x = self.middle(x)
        x = self.unpool(x, places)
        return self.decoder(x)


class Mixing(nn.Module):
    """Tokens that become a picture twice: a copy of them, and a look at them."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.value = nn.Linear(c, c)
        self.local = nn.Conv2d(c, c, 1, bias=False)
        self.mix = nn.Conv2d(c, c, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        value = self.value(x.reshape(b, h * w, c))
        local = self.local(value.reshape(b, h, w, c).permute(0, 3, 1, 2))
        x = local.permute(0, 2, 3, 1) + x
        y = self.norm(x)
        out = self.mix(y.permute(0, 3, 1, 2).contiguous())
        return out.permute(0, 2, 3, 1) + x


class Modulation(nn.Module):
    """A module that keeps one part of what torch.split takes apart, and of which it takes parts again."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(c, 2 * c + 3, 1)
        self.levels = nn.ModuleList([nn.Conv2d(c, c, 3, padding=1, groups=c) for _ in range(3)])
        self.outer = nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        c = x.shape[1]
        y = self.inner(x).contiguous()
        query, context, self.gates = torch.split(y, (c, c, 3), 1)
        total = 0
        for i, level in enumerate(self.levels):
            context = level(context)
            total = total + context * self.gates[:, i : i + 1]
        x = x + self.outer(query * total)
        return x


class LearnedSteps(nn.Module):
    """Quantization with a learned step, whose bounds are integers and whose rounding has a gradient by detach()."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.step = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.step * 0.01
        x = x / scale
        x = torch.clamp(x, -4, 3)
        x = (x.round() - x).detach() + x
        return self.conv(x * scale)


class Quantized(nn.Module):
    """Scalar quantization under autocast(enabled=False), of whose body the optimized export folds the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(32, 8, 1))
        self.decoder = nn.Sequential(nn.Conv2d(8, 32, 1), nn.ReLU(inplace=True), nn.Conv2d(32, 10, 1))
        self.levels: Tensor
        self.register_buffer("levels", torch.full((8,), 5.0))

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x).permute(0, 2, 3, 1)
        with torch.autocast("cuda", enabled=False):
            half = (self.levels - 1) * 0.5
            x = torch.tanh(x) * half
            x = x + (x.round() - x).detach()
            x = x / half
        return self.decoder(x.permute(0, 3, 1, 2)).mean((2, 3))


class SplitAttention(nn.Module):
    """The sum of a list that its line makes, as ResNeSt's convolutions weigh their parts."""

    def __init__(self, c: int, parts: int = 3) -> None:
        super().__init__()
        self.parts = parts
        self.conv = nn.Conv2d(3, c * parts, 3, padding=1)
        self.weigh = nn.Conv2d(c * parts, c * parts, 1)
        self.head = nn.Conv2d(c, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        weights = torch.sigmoid(self.weigh(x.mean((2, 3), keepdim=True)))
        split = torch.split(x, x.shape[1] // self.parts, dim=1)
        weights = torch.split(weights, x.shape[1] // self.parts, dim=1)
        out = sum([w * part for w, part in zip(weights, split, strict=True)])
        return self.head(out).mean((2, 3))


class Layers(nn.Module):
    """Recurrent layers of torch.nn, whose steps torch.export's exporter writes out."""

    def __init__(self, kind: type[nn.RNNBase], **settings: Any) -> None:
        super().__init__()
        self.layers = kind(64, 128, batch_first=True, **settings)
        self.out = nn.Linear(256 if settings.get("bidirectional") else 128, 64)

    def forward(self, x: Tensor) -> Tensor:
        x, _ = self.layers(x)
        return self.out(x)


class Activations(nn.Module):
    """Activations of one kernel each, which torch.export's exporter writes as several operators."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 256)
        self.chain = nn.Sequential(
            *(nn.Softplus(), nn.SELU(), nn.Softshrink(), nn.Softplus(2.0), nn.Hardshrink(), nn.ELU()),
            *(nn.Threshold(0.1, 0.0),),
        )
        self.last = nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.chain(self.first(x)))


class Bags(nn.Module):
    """Sums of embeddings, of which exporters write a loop over the bags."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(20000, 64, mode="sum")
        self.out = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.bags((x * 1000).long().abs().clamp(max=9999))))


class OneScale(nn.Module):
    """Attention whose queries the program scales itself, and whose heads share one key."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(128, 128), nn.Linear(128, 32), nn.Linear(128, 32)

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        query = (self.query(x) * 32**-0.5).view(n, length, 4, 32).transpose(1, 2)
        key = self.key(x).view(n, length, 1, 32).transpose(1, 2)
        value = self.value(x).view(n, length, 1, 32).transpose(1, 2)
        key, value = (y[:, :, None].expand(n, 1, 4, length, 32).reshape(n, 4, length, 32) for y in (key, value))
        x = F.scaled_dot_product_attention(query, key, value, scale=1.0)
        return x.transpose(1, 2).reshape(n, length, 128)


IMAGES = (8, 3, 112, 112)


class Shifted(nn.Module):
    """Zeros whose slices are assigned to, made anew in each block: an optimised export has them once."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.linear = nn.Linear(c, c)

    def forward(self, x: Tensor) -> Tensor:
        fold = x.shape[2] // 4
        out = torch.zeros_like(x)
        out[:, :-1, :fold] = x[:, 1:, :fold]
        out[:, 1:, fold : 2 * fold] = x[:, :-1, fold : 2 * fold]
        out[:, :, 2 * fold :] = x[:, :, 2 * fold :]
        return self.linear(out).relu()


class Bilinear(nn.Module):
    """nn.Bilinear, of which PyTorch computes one output after another."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(64, 96)
        self.right = nn.Linear(64, 64)
        self.both = nn.Bilinear(96, 64, 24)
        self.head = nn.Linear(24, 128)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.both(self.left(x).relu(), self.right(x)))


class Distances(nn.Module):
    """torch.cdist by products of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Linear(64, 64)
        self.centres = nn.Parameter(torch.randn(256, 64))

    def forward(self, x: Tensor) -> Tensor:
        x = self.points(x)
        near = torch.exp(-torch.cdist(x, self.centres[None]))
        return torch.cdist(near, near).mean(-1)


class Chosen(nn.Module):
    """F.gumbel_softmax, soft and hard."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(64, 256)
        self.next = nn.Linear(256, 256)
        self.out = nn.Linear(256, 64)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gumbel_softmax(self.scores(x), tau=0.5)
        return self.out(F.gumbel_softmax(self.next(x), hard=True))


class WrittenOver(nn.Module):
    """Activations of the family of elu that write over what convolutions return, as their lines say."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(32 if i else 3, 32, 3, padding=1) for i in range(3)])
        self.head = nn.Conv2d(32, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.elu(self.convs[0](x), inplace=True)
        x = F.selu(self.convs[1](x), inplace=True)
        x = self.convs[2](x)
        x = F.celu(x, inplace=True)
        return self.head(x)


class ReturnedWeights(nn.Module):
    """nn.MultiheadAttention of its own input, whose weights are returned, perhaps with a mask."""

    def __init__(self, weights: str, mask: bool, batch_first: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.attention = nn.MultiheadAttention(64, 4, batch_first=batch_first)
        self.head = nn.Linear(64, 64)
        self.weights = weights
        self.steps_first = not batch_first
        if mask:
            self.register_buffer("mask", torch.ones(128, 128, dtype=torch.bool).triu(1))
        else:
            self.mask = None

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        if self.steps_first:
            h = h.permute(1, 0, 2)
        y, weights = self.attention(h, h, h, attn_mask=self.mask, average_attn_weights=self.weights != "heads")
        if self.steps_first:
            y = y.permute(1, 0, 2)
        x = x + y
        if self.weights == "averaged":
            x = x + weights[..., :64]
        if self.weights == "heads":
            x = x + weights[:, 0, :, :64]
        return x + self.head(x)


class Unbiased(nn.Module):
    """A norm of groups without a bias, and a scale of each channel that begins with the norm's weights' values."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, c)
        self.norm.bias = None
        self.conv = nn.Conv2d(c, c, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(c))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.view(-1, 1, 1) + self.conv(self.norm(x)).sigmoid()


class Spread(nn.Module):
    """Variances of a population and its deviation, as norms of groups that are written by hand have them."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        x = self.conv(x).tanh()
        groups = x.reshape(n, 4, c // 4, h, w)
        spread = groups.var(dim=(2, 3, 4), unbiased=False, keepdim=True).add(1e-5).sqrt()
        x = x.sigmoid() / spread.expand(groups.shape).reshape(x.shape)
        return x * torch.std(x, dim=1, unbiased=False, keepdim=True)


class FeaturesApart(nn.Module):
    """Attention of pictures whose channels are turned behind their places, which no fused kernel takes."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (m(x).flatten(2).transpose(-1, -2).unsqueeze(1) for m in (self.q, self.k, self.v))
        return F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(x.shape)


class StackedCells(nn.Module):
    """Layers of nn.LSTMCell whose states lie in lists, as PredRNN and its successors have them."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(64, 64), nn.LSTMCell(64, 64)])
        self.head = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        h = [x.new_zeros(x.shape[0], 64) for _ in self.cells]
        c = [x.new_zeros(x.shape[0], 64) for _ in self.cells]
        out = []
        for t in range(x.shape[1]):
            y = x[:, t]
            for i, cell in enumerate(self.cells):
                h[i], c[i] = cell(y, (h[i], c[i]))
                y = h[i]
            out.append(self.head(y))
        return torch.stack(out, 1)


class Sampled(nn.Module):
    """Sampling beside points that torch.linspace spaces evenly."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.offset = nn.Conv2d(32, 2, 3, padding=1)
        self.head = nn.Conv2d(32, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        rows, columns = (torch.linspace(-1.0, 1.0, n, dtype=x.dtype, device=x.device) for n in x.shape[2:])
        y, z = torch.meshgrid(rows, columns, indexing="ij")
        grid = torch.stack((z, y), -1) + self.offset(x).permute(0, 2, 3, 1)
        return self.head(F.grid_sample(x, grid * 0.9, align_corners=True))


class Drawn(nn.Module):
    """Weights that are drawn anew in each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.means = nn.ParameterList([nn.Parameter(torch.randn(256, 256)) for _ in range(3)])
        self.deviations = nn.ParameterList([nn.Parameter(torch.randn(256, 256)) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for mean, deviation in zip(self.means, self.deviations, strict=True):
            noise = torch.normal(0.0, 1.0, mean.shape, device=x.device)
            x = F.linear(x, mean + F.softplus(deviation) * noise).relu()
        return x


class Segments(nn.Module):
    """torch.utils.checkpoint.checkpoint_sequential: of five blocks the first two are recomputed, and no others."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, padding=1)
        self.blocks = nn.ModuleList([Block(64) for _ in range(5)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return checkpoint_sequential(self.blocks, 2, x, use_reentrant=False)


class GatedSteps(nn.Module):
    """A recurrent convolution, whose gates torch.split takes apart on a line of its own."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.c = c
        self.start = nn.Conv2d(3, c, 3, padding=1)
        self.gates = nn.Conv2d(3 + c, 4 * c, 1)
        self.head = nn.Conv2d(c, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.start(x)
        c = torch.tanh(h)
        frames = []
        for _ in range(6):
            z = self.gates(torch.cat([x, h], dim=1))
            i, f, o, g = torch.split(z, self.c, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            frames.append(self.head(h))
        return torch.stack(frames, dim=1)


class SmallEps(nn.Module):
    """A norm over all but the batch that subtracts the mean twice, and whose eps is as small as no node of a file."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(c, c, 3, padding=1)
        self.gamma = nn.Parameter(torch.ones(c))
        self.beta = nn.Parameter(torch.zeros(c))

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        mean = x.mean(dim=(1, 2), keepdim=True)
        var = torch.pow(x - mean, 2).mean(dim=(1, 2), keepdim=True)
        normed = (x - mean) / (var + 1e-8).sqrt()
        return (self.gamma * normed.transpose(1, -1) + self.beta).transpose(1, -1)


class CalledAgain(nn.Module):
    """Modules that are called twice on the same tensor, as the streams of several scales call their upsampling."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(c, c, 3, 2, 1), nn.PReLU(), nn.Conv2d(c, c, 1))
        self.up = nn.Sequential(nn.Conv2d(c, c, 1), nn.PReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(c, c, 1))
        self.mix1 = nn.Conv2d(c, c, 3, padding=1)
        self.mix2 = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        low = self.down(x)
        a = torch.relu(self.mix1(x + self.up(low)))
        b = torch.relu(self.mix2(a * self.up(low)))
        return a + b


def mixed(query: Tensor, key: Tensor, value: Tensor, near: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    attn = F.softmax(scores, dim=-1)
    weighted = 0.7 * attn + 0.3 * near
    return weighted @ value, weighted, attn


class MixedAttention(nn.Module):
    """Attention that keeps its weights, and those mixed with something else, as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).view(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
        near = torch.exp(-torch.cdist(x, x)).unsqueeze(1).repeat(1, 4, 1, 1)
        y, self.attn, self.plain = mixed(query, key, value, near)
        return x + self.out(y.transpose(1, 2).contiguous().view(x.shape))


class SelfLoops(nn.Module):
    """Graph convolutions that each add self loops to a copy of what they are all given."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(c, c)) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        edges = torch.sigmoid(x @ x.transpose(1, 2))
        out = []
        for weight in self.weights:
            adj = edges.clone()
            at = torch.arange(x.size(1), device=x.device)
            adj[:, at, at] = 1
            degree = adj.sum(-1).pow(-0.5)
            adj = degree.unsqueeze(-1) * adj * degree.unsqueeze(-2)
            out.append(adj @ (x @ weight))
        return torch.stack(out).mean(0)


class Spectra(nn.Module):
    """Filters in the frequency domain: of a map's patches by a learned factor, and of two maps by each other."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Conv2d(c, c, 1) for _ in range(3))
        self.scale = nn.Parameter(torch.ones(c, 1, 1, 8, 5))
        self.filter = nn.Parameter(torch.randn(c, 32, 17, 2))

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        patches = self.a(x).view(n, c, h // 8, 8, w // 8, 8).permute(0, 1, 2, 4, 3, 5)
        patches = torch.fft.irfft2(torch.fft.rfft2(patches) * self.scale, s=(8, 8))
        x = patches.permute(0, 1, 2, 4, 3, 5).reshape(n, c, h, w)
        x = torch.fft.irfft2(torch.fft.rfft2(self.b(x)) * torch.fft.rfft2(self.c(x)))
        spectrum = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(self.filter)
        return torch.fft.irfft2(spectrum, s=(h, w), norm="ortho")


class Routed(nn.Module):
    """Attention to chosen windows, whose weights a softmax computes and nothing reads: no export has that call."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.q, self.wo, self.norm, self.act = nn.Linear(c, c), nn.Linear(c, c), nn.LayerNorm(c), nn.Softmax(dim=-1)
        self.mlp = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c))

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        w = x.view(n, 16, t // 16, c)
        means = w.mean(2).detach()
        top, at = torch.topk(means @ means.transpose(1, 2), 4, dim=-1)
        _weights = self.act(top)
        at = at[..., None, None].expand(-1, -1, -1, t // 16, c)
        chosen = torch.gather(w.unsqueeze(1).expand(-1, 16, -1, -1, -1), 2, at).flatten(2, 3)
        weights = self.act(self.q(w) @ chosen.transpose(-2, -1))
        x = x + self.wo((weights @ chosen).view(n, t, c))
        return x + self.mlp(self.norm(x))


class Windows(nn.Module):
    """Such blocks behind a convolution with a batch norm, which the default export folds."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c)
        self.blocks = nn.Sequential(*(Routed(c) for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(self.bn(self.conv(x)).flatten(2).transpose(1, 2).contiguous())


class Neighbours(nn.Module):
    """Places that are repeated for each gather, which exporters make one, and a graph that is for each of a batch."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(c, c), nn.Linear(c, c)
        self.register_buffer("adj", torch.rand(256, 256), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        at = x.sum(-1).topk(256).indices
        near = torch.gather(self.a(x), 1, at.unsqueeze(-1).repeat(1, 1, x.size(2)))
        near = torch.sigmoid(near.mean(1, keepdim=True)) * x
        near = torch.gather(self.b(near), 1, at.unsqueeze(-1).repeat(1, 1, x.size(2)))
        adj: Tensor = self.adj.repeat(x.size(0), 1, 1)
        return torch.bmm(near.transpose(1, 2), adj).transpose(1, 2)


class Directions(nn.Module):
    """Distances to learned directions, which the optimiser of the default export computes once."""

    def __init__(self, kernels: int) -> None:
        super().__init__()
        self.angle = nn.Parameter(torch.rand(kernels, 4))
        self.out = nn.Linear(kernels, 64)

    def forward(self, x: Tensor) -> Tensor:
        towards = torch.stack([torch.sin(self.angle), torch.cos(self.angle)]).unsqueeze(0).unsqueeze(2)
        towards = towards.expand(x.size(0), -1, -1, -1, -1)
        square = (x.view(x.size(0), 2, -1, 1, 1) - towards) ** 2
        return self.out(torch.exp(-square.sum(1)).sum(-1))


def encoder() -> nn.Module:
    """nn.TransformerEncoder, whose layers run on their fast path in inference."""
    layer = nn.TransformerEncoderLayer(64, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Branch(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        for conv in (self.conv1, self.conv2):
            residual = x
            x = F.leaky_relu(x, 0.1)
            x = conv(x)
            x = x + residual
        return x


class Branches(nn.Module):
    """Modules of a kind that each call the same of one tensor, which the default export's optimiser makes one call."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([Branch(c) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        total = self.branches[0](x)
        for branch in self.branches[1:]:
            total = total + branch(x)
        return total / 3


class Dropped(nn.Module):
    """Dropout behind attention's weights, a turned result, a projection and an activation."""

    def __init__(self, c: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.inside, self.outside = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.norm1, self.norm2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.dropout, self.attention = nn.Dropout(0.1), nn.Dropout(0.1)
        self.between = nn.Sequential(nn.Linear(c, 4 * c), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4 * c, c))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.inside(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * c**-0.5
        weights = scores.softmax(-1)
        weights = self.attention(weights)
        mixed = self.outside((weights @ v).transpose(1, 2).reshape(b, t, c))
        x = self.norm1(x + self.dropout(mixed))
        turned = F.dropout(x.transpose(1, 2), 0.1, self.training)
        x = x + turned.transpose(1, 2)
        return self.norm2(x + self.dropout(self.between(x)))


class GPT2(nn.Module):
    """transformers' GPT-2 of two layers, on embeddings."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        self.gpt = GPT2Model(GPT2Config(n_embd=64, n_head=4, n_layer=2, vocab_size=128, use_cache=False))

    def forward(self, x: Tensor) -> Tensor:
        return self.gpt(inputs_embeds=x).last_hidden_state


def timm_vit() -> nn.Module:
    """timm's ViT of two blocks, whose dropout drops nothing."""
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(img_size=64, patch_size=8, embed_dim=64, depth=2, num_heads=4)


class Returned(nn.Module):
    """A module that returns last what it makes first."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4 * c, c, 1)
        self.conv2 = nn.Conv2d(c, 4 * c, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.tanh(self.conv1(x))
        x = torch.tanh(self.conv2(y))
        return x, y


class Stage(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.first, self.second = Returned(c), Returned(c)
        self.mix = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Tensor, small: Tensor) -> tuple[Tensor, Tensor]:
        x, part = self.first(x)
        small = small + self.mix(part)
        x, part = self.second(x)
        return x, small * part


class Staged(nn.Module):
    """Stages that are called by the names of their attributes."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.wide = nn.Conv2d(c, 4 * c, 1)
        for i in range(4):
            self.add_module(f"stage_{i}", Stage(c))

    def forward(self, x: Tensor) -> Tensor:
        small = self.stem(x)
        x = self.wide(small)
        for i in range(4):
            x, small = eval("self.stage_" + str(i))(x, small)
        return x.mean(dim=(2, 3)) + small.mean()


class Popped(nn.Module):
    """A U-Net that takes its skip connections off a list."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.down = nn.ModuleList([nn.Conv2d(c, c, 3, padding=1) for _ in range(3)])
        self.middle = nn.Conv2d(c, c, 3, padding=1)
        self.up = nn.ModuleList([nn.Conv2d(2 * c, c, 3, padding=1) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        skips = [x]
        for m in self.down:
            x = torch.tanh(m(x))
            skips.append(x)
        x = torch.tanh(self.middle(x))
        for m in self.up:
            skip = skips.pop()
            x = torch.cat((x, skip), dim=1)
            x = torch.tanh(m(x))
        return x


class StraightThrough(nn.Module):
    """Weights and activations of two values, whose gradients are those of what they are made of."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(c, c, 3, 3) / 9)
        self.register_buffer("temperature", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + ((x / self.temperature).clamp(-1, 1).sign() - x).detach()
        weight = torch.sign(self.weight).detach() - self.weight.detach() + self.weight
        return torch.tanh(F.conv2d(x, weight, padding=1))


class Knots(nn.Module):
    """Splines between knots that are a buffer."""

    def __init__(self, c: int, n: int) -> None:
        super().__init__()
        self.register_buffer("knots", torch.linspace(-2, 2, n + 1).expand(c, -1).contiguous())
        self.scale = nn.Parameter(torch.ones(c, n))
        self.mix = nn.Linear(c * n, c)

    def forward(self, x: Tensor) -> Tensor:
        x = x.unsqueeze(-1)
        left, right = self.knots[:, :-1], self.knots[:, 1:]
        inside = ((x >= left) & (x < right)).to(x.dtype)
        bases = inside * (x - left) / (right - left)
        return self.mix((bases * self.scale).flatten(1))


class Remembered(nn.Module):
    """Methods that return nothing and keep what they make in attributes."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.body = nn.Conv2d(c, c, 3, padding=1)
        self.head = nn.Conv2d(c, 4, 1)
        self.features: Tensor | None = None
        self.masks: Tensor | None = None

    def encode(self, x: Tensor) -> None:
        x = torch.tanh(self.stem(x))
        self.features = torch.tanh(self.body(x))

    def decode(self, x: Tensor) -> None:
        self.masks = self.head(self.features) * x.mean()

    def forward(self, x: Tensor) -> Tensor:
        self.encode(x)
        self.decode(x)
        return torch.sigmoid(self.masks)


class Deformed(nn.Module):
    """torchvision's convolution at places that another one computes."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.offset = nn.Conv2d(c, 18, 3, padding=1)
        self.mask = nn.Conv2d(c, 9, 3, padding=1)
        self.conv = DeformConv2d(c, c, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.sigmoid(self.mask(x))
        return torch.tanh(self.conv(x, self.offset(x), mask))


class Siamese(nn.Module):
    """Two images through one network in one line, which normalises each without gradients."""

    class Net(nn.Module):
        """Stages of which the later ones are summed."""

        def __init__(self, c: int) -> None:
            super().__init__()
            self.norm = nn.InstanceNorm2d(1)
            self.stem = nn.Conv2d(1, c, 3, padding=1)
            self.body = nn.Conv2d(c, c, 3, padding=1)
            self.tail = nn.Conv2d(c, c, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                x = x.mean(1, keepdim=True)
                x = self.norm(x)
            x1 = self.stem(x)
            x2 = self.body(x1)
            x3 = self.tail(x2)
            return torch.tanh(x1 + x2 + x3) * x

    def __init__(self, c: int) -> None:
        super().__init__()
        self.net = self.Net(c)

    def forward(self, x: Tensor) -> Tensor:
        y = x.flip(3)
        a, b = self.net(x), self.net(y)
        return a - b


class Cached(nn.Module):
    """Blocks that read what any of those before made, by its place in a list of all, as YOLO's models do."""

    FROM = (-1, -1, -1, 0, -1, 0, -1, -1)

    def __init__(self, c: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.model = nn.Sequential(
            *[nn.Conv2d(c, c, 3, padding=1) for _ in self.FROM[1:]],
            nn.Conv2d(c, 4 * c, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        cache: list[Tensor | None] = []
        out: list[Tensor] = []
        for i, block in enumerate(self.model):
            if self.FROM[i] != -1:
                out.append(x.mean((2, 3)))
                x = cache[self.FROM[i]]
            x = block(x)
            cache.append(x if i in self.FROM else None)
        return x * sum(out).mean(1)[:, None, None, None]


class TurnedAttention(nn.Module):
    """nn.MultiheadAttention with the batch first on a turned map, whose weights nothing reads."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, c)
        self.attention = nn.MultiheadAttention(c, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x.flatten(2)).transpose(1, 2)
        out, _ = self.attention(tokens, tokens, tokens)
        return x + out.transpose(1, 2).reshape(x.shape)


CONSTRUCTS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], tuple[str, ...]]] = {
    "checkpoint": (Checkpointed, IMAGES, ("dynamo-train",)),
    "function": (OwnFunction, IMAGES, ("dynamo-train",)),
    "spikes": (Spikes, IMAGES, ("dynamo-train", "dynamo", "ts-train")),
    "made_there": (
        lambda: nn.Sequential(MadeThere(32), MadeThere(32)),
        (8, 32, 64, 64),
        ("dynamo-train", "dynamo"),
    ),
    "no_grad": (NoGrad, IMAGES, ("dynamo-train",)),
    "log_scan": (lambda: nn.Sequential(LogScan(64), LogScan(64)), (8, 512, 64), ("dynamo-train", "dynamo")),
    "skipped": (lambda: nn.Sequential(Skipped(64), Skipped(64)), (8, 512, 64), ("ts-train",)),
    "root_norms": (lambda: nn.Sequential(RootNorms(64), RootNorms(64)), (8, 512, 64), ("dynamo-train", "dynamo")),
    "weights": (Weights, (8, 128, 128), ("dynamo-train",)),
    "two_names": (TwoNames, (8, 512, 64), ("dynamo-train",)),
    "splines": (Splines, (4096, 64), ("dynamo-train",)),
    "lstm_cell": (LSTMCells, (256, 8, 64), ("dynamo-train", "ts-train")),
    "gru_cell": (GRUCells, (256, 8, 64), ("dynamo-train", "ts-train")),
    "own_checkpoint": (OwnCheckpoint, IMAGES, ("dynamo-train",)),
    "scores": (lambda: nn.Sequential(Scores(), Scores()), (8, 768, 64), ("dynamo-train",)),
    "reentrant": (Reentrant, IMAGES, ("dynamo-train",)),
    "unpool": (Unpool, IMAGES, ("dynamo-train",)),
    "mixing": (lambda: nn.Sequential(Mixing(64), Mixing(64)), (8, 64, 64, 64), ("dynamo-train", "dynamo")),
    "summed_list": (lambda: SplitAttention(64), IMAGES, ("dynamo-train",)),
    "quantized": (Quantized, IMAGES, ("dynamo-train", "dynamo")),
    "modulation": (
        lambda: nn.Sequential(*[Modulation(64) for _ in range(3)]),
        (8, 64, 64, 64),
        ("dynamo-train", "dynamo"),
    ),
    "learned_steps": (lambda: nn.Sequential(LearnedSteps(64), LearnedSteps(64)), (8, 64, 64, 64), ("dynamo-train",)),
    "shifted": (
        lambda: nn.Sequential(*(Shifted(64) for _ in range(3)), nn.Linear(64, 256)),
        (16, 512, 64),
        ("dynamo-train", "dynamo"),
    ),
    "spectral_norm": (SpectralNorm, (4, 3, 40, 40), ("dynamo-train",)),
    "elman": (
        lambda: Layers(nn.RNN, num_layers=2, bidirectional=True, nonlinearity="relu"),
        (256, 8, 64),
        ("dynamo-train", "dynamo", "ts-train"),
    ),
    "lstm_steps": (lambda: Layers(nn.LSTM), (256, 8, 64), ("steps-train",)),
    "gru_steps": (lambda: Layers(nn.GRU, num_layers=2, bias=False), (256, 8, 64), ("steps-train",)),
    "activations": (Activations, (8192, 64), ("dynamo-train", "dynamo")),
    "bags": (Bags, (4096, 16), ("dynamo-train", "dynamo", "ts-train")),
    "bilinear": (Bilinear, (8192, 64), ("dynamo-train", "dynamo")),
    "distances": (Distances, (8, 512, 64), ("dynamo-train", "dynamo", "ts-train")),
    "chosen": (Chosen, (8192, 64), ("dynamo-train", "dynamo")),
    "written_over": (WrittenOver, IMAGES, ("dynamo-train", "dynamo")),
    "self_attention": (
        lambda: nn.Sequential(
            ReturnedWeights("", mask=False),
            ReturnedWeights("averaged", mask=False),
            ReturnedWeights("heads", mask=False),
            ReturnedWeights("", mask=True),
        ),
        (16, 128, 64),
        ("dynamo-train", "ts-train"),
    ),
    "steps_first": (
        lambda: ReturnedWeights("", mask=False, batch_first=False),
        (16, 128, 64),
        ("dynamo-train", "ts-train"),
    ),
    "unbiased": (
        lambda: nn.Sequential(Unbiased(32), Unbiased(32)),
        (8, 32, 64, 64),
        ("dynamo-train", "dynamo", "ts-train"),
    ),
    "spread": (
        lambda: nn.Sequential(Spread(32), Spread(32)),
        (8, 32, 64, 64),
        ("dynamo-train", "dynamo", "ts-train"),
    ),
    "features_apart": (lambda: FeaturesApart(64), (8, 64, 20, 20), ("dynamo-train", "dynamo", "ts-train")),
    "stacked_cells": (StackedCells, (256, 12, 64), ("dynamo-train",)),
    "sampled": (Sampled, IMAGES, ("ts-train", "dynamo-train")),
    "drawn": (Drawn, (512, 256), ("ts-train", "dynamo-train")),
    "segments": (Segments, IMAGES, ("dynamo-train", "dynamo")),
    "encoder": (encoder, (16, 128, 64), ("dynamo-train", "ts-train", "dynamo")),
    "branches": (lambda: nn.Sequential(Branches(32), Branches(32)), (8, 32, 64, 64), ("dynamo-train", "dynamo")),
    "dropped": (lambda: nn.Sequential(Dropped(64), Dropped(64)), (16, 256, 64), ("dynamo-train", "dynamo")),
    "gpt2_layers": (GPT2, (16, 256, 64), ("dynamo",)),
    "timm_vit": (timm_vit, (64, 3, 64, 64), ("dynamo",)),
    "of_its_type": (lambda: nn.Sequential(OfItsType(), OfItsType()), (8, 768, 64), ("dynamo-train", "dynamo")),
    "cloned": (lambda: nn.Sequential(Cloned(), Cloned()), (8, 16, 128, 128), ("dynamo-train",)),
    "gated_steps": (lambda: GatedSteps(32), (8, 3, 64, 64), ("dynamo-train", "dynamo")),
    "small_eps": (lambda: nn.Sequential(*(SmallEps(64) for _ in range(3))), (8, 64, 8192), ("dynamo-train", "dynamo")),
    "called_again": (
        lambda: nn.Sequential(CalledAgain(32), CalledAgain(32)),
        (8, 32, 64, 64),
        ("dynamo-train", "dynamo"),
    ),
    "mixed_attention": (
        lambda: nn.Sequential(MixedAttention(), MixedAttention()),
        (8, 256, 64),
        ("dynamo-train", "dynamo"),
    ),
    "self_loops": (
        lambda: nn.Sequential(SelfLoops(64), SelfLoops(64)),
        (8, 512, 64),
        ("dynamo-train", "dynamo", "ts-train"),
    ),
    "spectra": (lambda: nn.Sequential(Spectra(32), Spectra(32)), (8, 32, 32, 32), ("dynamo-train", "dynamo")),
    "windows": (lambda: Windows(32), (8, 3, 32, 32), ("dynamo-train", "dynamo")),
    "neighbours": (
        lambda: nn.Sequential(Neighbours(128), Neighbours(128)),
        (16, 512, 128),
        ("dynamo-train", "dynamo"),
    ),
    "directions": (lambda: Directions(64), (16, 1024), ("dynamo-train", "dynamo")),
    "staged": (lambda: Staged(16), (8, 3, 64, 64), ("dynamo-train", "dynamo")),
    "popped": (lambda: Popped(32), (8, 3, 64, 64), ("dynamo-train", "dynamo")),
    "straight_through": (
        lambda: nn.Sequential(StraightThrough(32), StraightThrough(32)),
        (8, 32, 64, 64),
        ("dynamo-train", "dynamo", "ts-train"),
    ),
    "knots": (
        lambda: nn.Sequential(Knots(64, 8), Knots(64, 8)),
        (2048, 64),
        ("dynamo-train", "dynamo", "ts-train"),
    ),
    "remembered": (lambda: Remembered(32), IMAGES, ("dynamo-train", "dynamo")),
    "deformed": (lambda: nn.Sequential(Deformed(32), Deformed(32)), (48, 32, 32, 32), ("dynamo-train", "dynamo")),
    "siamese": (lambda: Siamese(16), IMAGES, ("dynamo-train", "dynamo")),
    "cached": (lambda: Cached(16), IMAGES, ("dynamo-train", "dynamo")),
    "turned_attention": (
        lambda: nn.Sequential(TurnedAttention(64), TurnedAttention(64)),
        (8, 64, 32, 32),
        ("dynamo-train", "dynamo", "ts-train"),
    ),
    "one_scale": (lambda: nn.Sequential(OneScale(), OneScale()), (8, 128, 128), ("dynamo-train", "dynamo")),
}


AUTOCAST = {"of_its_type", "cloned"}  # are recorded under autocast as well


def export(model: nn.Module, x: Tensor, way: str, path: Path) -> None:
    """Write the export of a model in training mode."""
    if way == "ts-train":
        mode = torch.onnx.TrainingMode.TRAINING
        torch.onnx.export(model, (x,), path, dynamo=False, training=mode, do_constant_folding=False, opset_version=18)
        return
    if way == "dynamo":
        torch.onnx.export(model.eval(), (x,), path, dynamo=True, external_data=False)
        return
    program = torch.export.export(model, (x,))
    if way == "steps-train":  # as exporters that have no operator for recurrent layers take them apart
        program = program.run_decompositions(
            get_decompositions([torch.ops.aten.lstm.input, torch.ops.aten.gru.input]),
        )
    torch.onnx.export(program, (), path, dynamo=True, optimize=False, external_data=False)


def step(build: Callable[[], nn.Module], shape: tuple[int, ...], mode: str, path: Path) -> None:
    """Record training steps or passes of inference."""
    with record(path, gpu="h200") as recorder:
        model, x = build().to("cuda"), torch.randn(shape).to("cuda")
        if mode == "infer":
            model.eval()
            for _ in range(2):
                with torch.no_grad():
                    out = model(x)
                del out
                recorder.step()
            return
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            with torch.autocast("cuda", torch.bfloat16, enabled=mode == "amp"):
                out = model(x)
                loss = out.mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()


def main(out: Path, names: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name in names or CONSTRUCTS:
        build, shape, ways = CONSTRUCTS[name]
        for way in ways:
            if not (path := out / f"{name}.{way}.onnx").exists():
                export(build().train(), torch.randn(shape), way, path)
        for mode in ("train", "infer", *(["amp"] if name in AUTOCAST else [])):
            if not (path := out / f"{name}.{mode}.mrec").exists():
                step(build, shape, mode, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""Programs that take part in autograd: hooks, functions of their own, what is kept and what is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from .training import block, images, network


def hooked(n: int = 128) -> Iterator[None]:
    """Hooks of every kind: activations kept, gradients of modules kept and changed, tensors' and parameters' hooks."""
    net = network().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    kept: dict[str, Tensor] = {}

    def weaken(p: Tensor) -> None:
        assert p.grad is not None
        p.grad.mul_(0.1)

    net[2].register_forward_hook(lambda m, i, o: kept.__setitem__("activation", o))
    net[3].register_full_backward_hook(lambda m, gi, go: kept.__setitem__("gradient", go[0]))
    net[4].register_full_backward_pre_hook(lambda m, go: (go[0] * 0.5,))
    net[1].register_forward_pre_hook(lambda m, i: (i[0] + 0.01 * torch.randn_like(i[0]),))
    net[-1].weight.register_hook(lambda g: g.clamp(-1, 1))
    for p in net[0].parameters():
        p.register_post_accumulate_grad_hook(weaken)
    x, y = images(n)
    yield
    for _ in range(3):
        out = net(x)
        kept["activation"].retain_grad()
        F.cross_entropy(out, y).backward()
        cam = F.relu((kept["gradient"].mean((2, 3), keepdim=True) * kept["gradient"]).sum(1))
        cam = F.interpolate(cam[:, None], size=x.shape[2:], mode="bilinear")
        optimizer.step()
        optimizer.zero_grad()
        del cam, out
        yield


def packed_activations(n: int = 128) -> Iterator[None]:
    """What autograd keeps goes to half precision, and for one part to pinned memory of the host."""
    net = network().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    x, y = images(n)
    yield

    def pack(t: Tensor) -> Any:
        return t.to(torch.bfloat16) if t.dtype == torch.float32 and t.numel() > 100000 else t

    def unpack(t: Tensor) -> Tensor:
        return t.float() if t.dtype == torch.bfloat16 else t

    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            h = net[:3](x)
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            out = net[3:](h)
        F.cross_entropy(out, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def checkpointed(n: int = 128) -> Iterator[None]:
    """Segments computed twice: one way with reentrant autograd, one without, dropout's randomness kept."""
    net = network().cuda()
    extra = nn.Sequential(block(256, 256), nn.Dropout2d(0.1), block(256, 256)).cuda()
    optimizer = torch.optim.Adam([*net.parameters(), *extra.parameters()])
    x, y = images(n)
    yield
    for _ in range(3):
        h = checkpoint_sequential(net[:5], 2, x, use_reentrant=False)
        h = checkpoint(extra, h, use_reentrant=True)
        F.cross_entropy(net[5:](h), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grads[0] * (s * (1 + x * (1 - s)))


class Reverse(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, x: Tensor, by: float) -> Tensor:
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].neg() * ctx.by, None


def domain_adversarial(n: int = 128) -> Iterator[None]:
    """Functions of one's own with and without autocast's decorators; a reversed gradient for a second head."""
    body = nn.Sequential(nn.Conv2d(3, 64, 5, 2, 2), nn.Conv2d(64, 128, 5, 2, 2)).cuda()
    head, domain = nn.Linear(128, 10).cuda(), nn.Linear(128, 2).cuda()
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters(), *domain.parameters()])
    x, y = images(n, 10)
    d = torch.randint(0, 2, (n,), device="cuda")
    yield
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            h = Swish.apply(body[1](Swish.apply(body[0](x)))).mean((2, 3))  # type: ignore[no-untyped-call]
            loss = F.cross_entropy(head(h), y)
            loss = loss + F.cross_entropy(domain(Reverse.apply(h, 0.3)), d)  # type: ignore[no-untyped-call]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield

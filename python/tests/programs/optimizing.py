"""Programs whose optimizer is another: closures, ascent, fused kernels, scaled losses, means of weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from .training import images, network


def averaged(n: int = 128) -> Iterator[None]:
    """An exponential mean of the weights and their stochastic average, with norms made anew at the end."""
    net = network().cuda()
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    swa = AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.4, total_steps=10)
    x, y = images(n)
    yield
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y, label_smoothing=0.1).backward()
        optimizer.step()
        schedule.step()
        ema.update_parameters(net)
        swa.update_parameters(net)
        yield
    update_bn([x], swa)


def style_transfer(n: int = 512) -> Iterator[None]:
    """L-BFGS on an image, its closure called many times a step; the network is frozen."""
    import torchvision

    vgg = torchvision.models.vgg11(weights=None).features[:11].cuda().eval().requires_grad_(False)
    content = torch.randn(1, 3, n, n, device="cuda")
    image = content.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([image], max_iter=5)

    def gram(h: Tensor) -> Tensor:
        b, c, height, width = h.shape
        f = h.view(b * c, height * width)
        return f @ f.t() / (b * c * height * width)

    with torch.no_grad():
        wanted, style = vgg(content), gram(vgg(torch.randn_like(content)))
    yield
    for _ in range(3):

        def closure() -> Tensor:
            with torch.no_grad():
                image.clamp_(0, 1)
            optimizer.zero_grad()
            h = vgg(image)
            loss = F.mse_loss(h, wanted) + 1e4 * F.mse_loss(gram(h), style)
            loss.backward()
            return loss

        optimizer.step(closure)
        yield


def adafactor(n: int = 16) -> Iterator[None]:
    """PyTorch's own Adafactor, clipping of values, and weights tied."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True, activation="gelu")
    body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    embed = nn.Embedding(8000, 512).cuda()
    optimizer = torch.optim.Adafactor([*body.parameters(), *embed.parameters()])
    tokens = torch.randint(0, 8000, (n, 256), device="cuda")
    mask = nn.Transformer.generate_square_subsequent_mask(256, device="cuda")
    yield
    for _ in range(3):
        h = body(embed(tokens), mask=mask, is_causal=True)
        logits = h @ embed.weight.t()
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, 8000), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(embed.parameters(), 1.0)
        optimizer.step()
        yield


def adversarial_examples(n: int = 128) -> Iterator[None]:
    """Perturbations sought by ascent (maximize) before each step, then sharpness-aware minimization."""
    net = network().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x, y = images(n)
    yield
    for _ in range(3):
        delta = torch.zeros_like(x).uniform_(-0.03, 0.03).requires_grad_(True)
        ascent = torch.optim.SGD([delta], lr=0.01, maximize=True)
        for _ in range(3):
            ascent.zero_grad()
            F.cross_entropy(net(x + delta), y).backward()
            delta.grad = torch.sign(delta.grad)
            ascent.step()
            delta.data.clamp_(-0.03, 0.03)
        optimizer.zero_grad()
        F.cross_entropy(net(x + delta.detach()), y).backward()
        with torch.no_grad():
            norm = torch.norm(torch.stack([p.grad.norm(2) for p in net.parameters()]), 2)
            moved = []
            for p in net.parameters():
                e = p.grad * (0.05 / (norm + 1e-12))
                p.add_(e)
                moved.append((p, e))
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            for p, e in moved:
                p.sub_(e)
        optimizer.step()
        yield


def fused_in_bfloat16(n: int = 128) -> Iterator[None]:
    """Weights of bfloat16, a fused AdamW, groups with and without decay."""
    net = network().to("cuda", torch.bfloat16)
    decay = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
    x, y = images(n)
    yield
    for _ in range(3):
        F.cross_entropy(net(x.bfloat16()).float(), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def capturable(n: int = 128) -> Iterator[None]:
    """A capturable Adam with amsgrad, a rate in a tensor, gradients kept in place."""
    net = network().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(1e-3), capturable=True, amsgrad=True)
    x, y = images(n)
    yield
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        yield


def for_loop_optimizers(n: int = 128) -> Iterator[None]:
    """Optimizers that few take, each on a layer of its own, without foreach."""
    net = network().cuda()
    kinds = [torch.optim.ASGD, torch.optim.Rprop, torch.optim.RAdam, torch.optim.Adadelta, torch.optim.Adagrad]
    optimizers = [kind(net[i].parameters(), lr=1e-3, foreach=False) for i, kind in enumerate(kinds)]
    if hasattr(torch.optim, "Muon"):  # since 2.9
        optimizers.append(torch.optim.Muon([net[-1].weight], lr=1e-3))
    x, y = images(n)
    yield
    for _ in range(3):
        F.cross_entropy(net(x), y).backward()
        for optimizer in optimizers:
            optimizer.step()
        net.zero_grad()
        yield


def scaled(n: int = 128) -> Iterator[None]:
    """fp16 under a GradScaler, gradients unscaled and clipped, four microbatches a step, a loss read each time."""
    net = network().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    x, y = images(n)
    seen = 0.0
    yield
    for _ in range(3):
        for part, labels in zip(x.chunk(4), y.chunk(4), strict=True):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(net(part), labels) / 4
            scaler.scale(loss).backward()
            seen += loss.item()
        scaler.unscale_(optimizer)
        if nn.utils.clip_grad_norm_(net.parameters(), 1.0).isfinite():
            seen += 1
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        yield

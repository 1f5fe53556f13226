"""Programs that train in another way: optimizers, hooks, checkpoints, precision, several networks, the host's help."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


def network(classes: int = 100) -> nn.Sequential:
    return nn.Sequential(
        block(3, 64), block(64, 128, 2), block(128, 128), block(128, 256, 2), block(256, 256),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes),
    )  # fmt: skip


def images(n: int, classes: int = 100, size: int = 64) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 3, size, size, device="cuda"), torch.randint(0, classes, (n,), device="cuda")


def spectral_norm_gan(n: int = 64) -> Iterator[None]:
    """Hinge losses, and spectral norm on every layer of the discriminator."""
    generator = nn.Sequential(
        nn.Linear(128, 4 * 4 * 256), nn.Unflatten(1, (256, 4, 4)),
        *[m for _ in range(3) for m in (nn.Upsample(scale_factor=2), nn.Conv2d(256, 256, 3, padding=1),
                                        nn.BatchNorm2d(256), nn.ReLU())],
        nn.Conv2d(256, 3, 3, padding=1), nn.Tanh(),
    ).cuda()  # fmt: skip
    norm = parametrizations.spectral_norm
    discriminator = nn.Sequential(
        norm(nn.Conv2d(3, 64, 3, 1, 1)), nn.LeakyReLU(0.1), norm(nn.Conv2d(64, 128, 4, 2, 1)), nn.LeakyReLU(0.1),
        norm(nn.Conv2d(128, 256, 4, 2, 1)), nn.LeakyReLU(0.1), nn.Flatten(), norm(nn.Linear(256 * 64, 1)),
    ).cuda()  # fmt: skip
    of_g = torch.optim.Adam(generator.parameters(), 2e-4, (0.5, 0.999))
    of_d = torch.optim.Adam(discriminator.parameters(), 2e-4, (0.5, 0.999))
    real = images(n, size=32)[0]
    yield
    for _ in range(3):
        fake = generator(torch.randn(n, 128, device="cuda"))
        of_d.zero_grad()
        loss = F.relu(1 - discriminator(real)).mean() + F.relu(1 + discriminator(fake.detach())).mean()
        loss.backward()
        of_d.step()
        of_g.zero_grad()
        (-discriminator(fake).mean()).backward()
        of_g.step()
        yield


def orthogonal_weights(n: int = 512) -> Iterator[None]:
    """A recurrent cell and layers whose weights are kept orthogonal by their parametrizations."""
    cell = nn.Sequential(parametrizations.orthogonal(nn.Linear(256, 256, bias=False)), nn.Tanh()).cuda()
    inputs = nn.Linear(64, 256).cuda()
    caley = parametrizations.orthogonal(nn.Linear(256, 128), orthogonal_map="cayley").cuda()
    optimizer = torch.optim.RMSprop([*cell.parameters(), *inputs.parameters(), *caley.parameters()])
    x, y = torch.randn(n, 30, 64, device="cuda"), torch.randint(0, 128, (n,), device="cuda")
    yield
    for _ in range(3):
        h = torch.zeros(n, 256, device="cuda")
        for t in range(x.shape[1]):
            h = cell(h + inputs(x[:, t]))
        loss = F.cross_entropy(caley(h), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


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


def prefetched(n: int = 128) -> Iterator[None]:
    """Batches from a loader with pinned memory, moved on a stream of their own while the last one is worked on."""
    data = torch.utils.data.TensorDataset(torch.randn(3 * n, 3, 64, 64), torch.randint(0, 100, (3 * n,)))
    loader = torch.utils.data.DataLoader(data, batch_size=n, pin_memory=True, shuffle=True)
    net = network().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters())
    side = torch.cuda.Stream()
    yield

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        ahead: tuple[Tensor, Tensor] | None = None
        for x, y in loader:
            with torch.cuda.stream(side):
                moved = x.cuda(non_blocking=True).sub_(0.5), y.cuda(non_blocking=True)
            if ahead is not None:
                yield ahead
            torch.cuda.current_stream().wait_stream(side)
            for t in moved:
                t.record_stream(torch.cuda.current_stream())
            ahead = moved
        assert ahead is not None
        yield ahead

    for x, y in batches():
        x = x.contiguous(memory_format=torch.channels_last)
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def contrastive(n: int = 128) -> Iterator[None]:
    """MoCo: a momentum encoder by deepcopy, a queue written in place, shuffled batch norm."""
    query = nn.Sequential(network(256), nn.ReLU(), nn.Linear(256, 128)).cuda()
    key = copy.deepcopy(query).requires_grad_(False)
    queue, at = F.normalize(torch.randn(128, 65536, device="cuda"), dim=0), 0
    optimizer = torch.optim.SGD(query.parameters(), lr=0.03, momentum=0.9)
    x = images(n)[0]
    yield
    for _ in range(3):
        a, b = x + 0.1 * torch.randn_like(x), x.flip(3)
        q = F.normalize(query(a), dim=1)
        with torch.no_grad():
            for p, k in zip(query.parameters(), key.parameters(), strict=True):
                k.data = k.data * 0.999 + p.data * 0.001
            order = torch.randperm(n, device="cuda")
            back = torch.argsort(order)
            k = F.normalize(key(b[order]), dim=1)[back]
        logits = torch.cat([torch.einsum("nc,nc->n", q, k)[:, None], q @ queue.clone().detach()], 1) / 0.07
        loss = F.cross_entropy(logits, torch.zeros(n, dtype=torch.long, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue[:, at : at + n] = k.T
        at = (at + n) % queue.shape[1]
        yield


def distilled(n: int = 128) -> Iterator[None]:
    """A teacher without gradients, a student pruned, an evaluation with its figures after each step."""
    teacher, student = network().cuda().eval(), network().cuda()
    prune.l1_unstructured(student[4][0], "weight", 0.5)
    prune.ln_structured(student[-1], "weight", 0.3, n=2, dim=0)
    optimizer = torch.optim.AdamW(student.parameters())
    x, y = images(n)
    yield
    for _ in range(3):
        student.train()
        with torch.inference_mode():
            soft = teacher(x)
        out = student(x)
        loss = F.kl_div(F.log_softmax(out / 4, 1), F.softmax(soft.clone() / 4, 1), reduction="batchmean") * 16
        loss = loss + F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        student.eval()
        with torch.no_grad():
            best = student(x).topk(5, 1).indices
            right = best.eq(y[:, None]).any(1).float().mean().item()
            table = torch.bincount(y * 100 + best[:, 0], minlength=10000).view(100, 100).cpu().numpy()
        print(f"{right:.2f} {table.trace()}")
        yield


def quantization_aware(n: int = 128) -> Iterator[None]:
    """Training with fake quantization, observers and all."""
    from torch.ao.quantization import QuantStub, get_default_qat_qconfig, prepare_qat

    warnings.filterwarnings("ignore")
    net = nn.Sequential(QuantStub(), network()).train()
    net.qconfig = get_default_qat_qconfig("fbgemm")  # type: ignore[assignment]
    net = prepare_qat(net).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    x, y = images(n)
    yield
    for _ in range(3):
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def data_parallel(n: int = 128) -> Iterator[None]:
    """nn.DataParallel on one GPU, saved and loaded in between, a log of the allocator's figures."""
    import io

    net = nn.DataParallel(network()).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    x, y = images(n)
    yield
    for _ in range(3):
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        file = io.BytesIO()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        state = torch.load(file, map_location="cuda", weights_only=True)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        print(torch.cuda.max_memory_allocated() >> 20, "MiB")
        yield


def compiled(n: int = 128) -> Iterator[None]:
    """torch.compile around the network."""
    net = torch.compile(network().cuda())
    optimizer = torch.optim.Adam(net.parameters())  # type: ignore[attr-defined]
    x, y = images(n)
    yield
    for _ in range(3):
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield


def graphed(n: int = 128) -> Iterator[None]:
    """A step captured in a CUDA graph and replayed."""
    net = network().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = images(n)
    yield
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    for _ in range(3):
        graph.replay()
        yield

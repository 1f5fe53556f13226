"""Programs that train in another way: norms of weights, several networks, the host's help, compilation, graphs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune


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

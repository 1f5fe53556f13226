"""Programs around `torch.func`, gradients of gradients, linear algebra, transforms and distributions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, stack_module_state, vmap
from torch.nn import functional as F


def convolutional(classes: int = 10) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(1024, classes),
    )  # fmt: skip


def per_sample_gradients(n: int = 256) -> Iterator[None]:
    """Differentially private SGD: a gradient of each sample, clipped, then noise."""
    net = convolutional().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = torch.randn(n, 3, 32, 32, device="cuda"), torch.randint(0, 10, (n,), device="cuda")
    yield

    def loss_of(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(net, parameters, (image[None],)), label[None])

    each = vmap(grad(loss_of), in_dims=(None, 0, 0))
    for _ in range(3):
        gradients = each({k: v.detach() for k, v in net.named_parameters()}, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()], 1).norm(dim=1)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1)
        for name, p in net.named_parameters():
            p.grad = torch.einsum("n,n...->...", scale, gradients[name]) / n + torch.randn_like(p) * 1e-3
        optimizer.step()
        optimizer.zero_grad()
        yield


def ensemble(n: int = 512) -> Iterator[None]:
    """Eight networks trained at once under vmap."""
    nets = [nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)).cuda() for _ in range(8)]
    parameters, buffers = stack_module_state(nets)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(parameters.values())
    x, y = torch.randn(n, 784, device="cuda"), torch.randint(0, 10, (n,), device="cuda")
    yield

    def forward(p: Any, b: Any, x: Tensor) -> Tensor:
        return functional_call(nets[0], (p, b), (x,))

    for _ in range(3):
        logits = vmap(forward, in_dims=(0, 0, None))(parameters, buffers, x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.repeat(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def hessian_vector(n: int = 512) -> Iterator[None]:
    """The largest eigenvalue of a Hessian by power iteration, forward over reverse."""
    net = convolutional().cuda()
    x, y = torch.randn(n, 3, 32, 32, device="cuda"), torch.randint(0, 10, (n,), device="cuda")
    parameters = {k: v.detach() for k, v in net.named_parameters()}
    v = {k: torch.randn_like(p) for k, p in parameters.items()}
    yield

    def loss_of(p: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(functional_call(net, p, (x,)), y)

    for _ in range(3):
        _, hv = jvp(grad(loss_of), (parameters,), (v,))
        norm = torch.sqrt(sum((h * h).sum() for h in hv.values()))  # type: ignore[arg-type]
        v = {k: h / norm for k, h in hv.items()}
        yield


def physics_informed(n: int = 65536) -> Iterator[None]:
    """Burgers' equation: second derivatives with respect to the inputs within the loss."""
    widths = [2, 64, 64, 64, 64, 1]
    layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.Tanh())]
    net = nn.Sequential(*layers[:-1]).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    x = torch.rand(n, 1, device="cuda", requires_grad=True)
    t = torch.rand(n, 1, device="cuda", requires_grad=True)
    yield
    for _ in range(3):
        u = net(torch.cat([x, t], 1))
        ones = torch.ones_like(u)
        (ux,) = torch.autograd.grad(u, x, ones, create_graph=True)
        (ut,) = torch.autograd.grad(u, t, ones, create_graph=True)
        (uxx,) = torch.autograd.grad(ux, x, ones, create_graph=True)
        loss = (ut + u * ux - 0.01 / math.pi * uxx).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def maml(n: int = 16) -> Iterator[None]:
    """Meta-learning: two steps of descent inside, differentiated through."""
    net = convolutional(5).cuda()
    outer = torch.optim.Adam(net.parameters(), lr=1e-3)
    support, query = torch.randn(n, 25, 3, 32, 32, device="cuda"), torch.randn(n, 75, 3, 32, 32, device="cuda")
    ys = torch.randint(0, 5, (n, 25), device="cuda")
    yq = torch.randint(0, 5, (n, 75), device="cuda")
    yield
    for _ in range(3):
        total = torch.zeros((), device="cuda")
        for task in range(n):
            fast = dict(net.named_parameters())
            for _ in range(2):
                inner = F.cross_entropy(functional_call(net, fast, (support[task],)), ys[task])
                gradients = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
                fast = {k: p - 0.01 * g for (k, p), g in zip(fast.items(), gradients, strict=True)}
            total = total + F.cross_entropy(functional_call(net, fast, (query[task],)), yq[task]) / n
        outer.zero_grad()
        total.backward()
        outer.step()
        yield


def wgan_gp(n: int = 128) -> Iterator[None]:
    """WGAN with a penalty on the critic's gradient: a backward pass of a backward pass."""
    generator = nn.Sequential(
        nn.ConvTranspose2d(128, 256, 4), nn.BatchNorm2d(256), nn.ReLU(True),
        nn.ConvTranspose2d(256, 128, 4, 2, 1), nn.BatchNorm2d(128), nn.ReLU(True),
        nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.ReLU(True),
        nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh(),
    ).cuda()  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(64, 128, 4, 2, 1), nn.InstanceNorm2d(128, affine=True), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(128, 256, 4, 2, 1), nn.InstanceNorm2d(256, affine=True), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(256, 1, 4),
    ).cuda()  # fmt: skip
    of_g = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    of_c = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    real = torch.randn(n, 3, 32, 32, device="cuda")
    yield
    for _ in range(3):
        for _ in range(2):
            fake = generator(torch.randn(n, 128, 1, 1, device="cuda")).detach()
            mix = torch.rand(n, 1, 1, 1, device="cuda")
            between = (mix * real + (1 - mix) * fake).requires_grad_(True)
            scores = critic(between)
            (g,) = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True, retain_graph=True)
            penalty = ((g.view(n, -1).norm(2, dim=1) - 1) ** 2).mean()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
            of_c.zero_grad()
            loss.backward()
            of_c.step()
        of_g.zero_grad()
        (-critic(generator(torch.randn(n, 128, 1, 1, device="cuda"))).mean()).backward()
        of_g.step()
        print(f"critic {loss.item():.3f}")
        yield


def gaussian_process(n: int = 4096) -> Iterator[None]:
    """Marginal likelihood of a Gaussian process by its Cholesky factor."""
    x = torch.rand(n, 3, device="cuda")
    y = torch.sin(x.sum(1)).unsqueeze(1)
    scale, length, noise = (nn.Parameter(torch.zeros((), device="cuda")) for _ in range(3))
    optimizer = torch.optim.Adam([scale, length, noise], lr=0.1)
    yield
    for _ in range(3):
        optimizer.zero_grad()
        distances = torch.cdist(x / length.exp(), x / length.exp()).square()
        k = scale.exp() * torch.exp(-0.5 * distances) + (noise.exp() + 1e-2) * torch.eye(n, device="cuda")
        factor = torch.linalg.cholesky(k)
        alpha = torch.cholesky_solve(y, factor)
        loss = 0.5 * (y.mT @ alpha).squeeze() + factor.diagonal().log().sum() + 0.5 * n * math.log(2 * math.pi)
        loss.backward()
        optimizer.step()
        yield


def whitening(n: int = 256) -> Iterator[None]:
    """Features decorrelated by an eigendecomposition, and a nuclear norm by singular values."""
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)).cuda()
    head = nn.Linear(64, 256).cuda()
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    x = torch.randn(n, 3, 32, 32, device="cuda")
    yield
    for _ in range(3):
        h = net(x).transpose(0, 1).flatten(1)
        h = h - h.mean(1, keepdim=True)
        values, vectors = torch.linalg.eigh(h @ h.T / h.shape[1] + 1e-3 * torch.eye(64, device="cuda"))
        white = vectors @ torch.diag(values.rsqrt()) @ vectors.T @ h
        out = head(white.view(64, n, 32, 32).mean((2, 3)).T)
        loss = out.square().mean() + 1e-3 * torch.linalg.svdvals(out).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def ridge_head(n: int = 32) -> Iterator[None]:
    """Few-shot learning with a ridge regression solved in closed form for each task."""
    net = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.ReLU(), nn.Flatten()).cuda()
    scale = nn.Parameter(torch.ones((), device="cuda"))
    optimizer = torch.optim.AdamW([*net.parameters(), scale])
    support, query = torch.randn(n, 25, 3, 32, 32, device="cuda"), torch.randn(n, 50, 3, 32, 32, device="cuda")
    ys = F.one_hot(torch.randint(0, 5, (n, 25), device="cuda"), 5).float()
    yq = torch.randint(0, 5, (n, 50), device="cuda")
    yield
    for _ in range(3):
        zs = net(support.flatten(0, 1)).view(n, 25, -1)
        zq = net(query.flatten(0, 1)).view(n, 50, -1)
        gram = zs @ zs.mT + torch.eye(25, device="cuda")
        w = zs.mT @ torch.linalg.solve(gram, ys)
        residual = torch.linalg.lstsq(zs[:, :, :16], ys).solution
        loss = F.cross_entropy((scale * zq @ w).flatten(0, 1), yq.flatten()) + 1e-3 * residual.square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        yield


class ComplexLinear(nn.Module):
    """A layer with complex weights, and modReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, dtype=torch.complex64) / math.sqrt(inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, z: Tensor) -> Tensor:
        z = F.linear(z, self.weight)
        size = z.abs()
        return z * (F.relu(size + self.bias) / (size + 1e-6))


def complex_network(n: int = 1024) -> Iterator[None]:
    """A network of complex numbers over spectra."""
    net = nn.Sequential(ComplexLinear(257, 512), ComplexLinear(512, 512), ComplexLinear(512, 128)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    waves, y = torch.randn(n, 512, device="cuda"), torch.randint(0, 128, (n,), device="cuda")
    yield
    for _ in range(3):
        spectra = torch.fft.rfft(waves)
        z = net(spectra)
        loss = F.cross_entropy(torch.view_as_real(z).square().sum(-1), y) + 1e-4 * torch.angle(z).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def long_convolution(n: int = 16) -> Iterator[None]:
    """Convolutions as long as the sequence by Fourier transforms, as in S4 and Hyena."""
    width, length = 256, 4096
    kernels = nn.ParameterList([nn.Parameter(torch.randn(width, length) * 0.01) for _ in range(4)]).cuda()
    mixes = nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW([*kernels, *mixes.parameters()])
    x = torch.randn(n, length, width, device="cuda")
    yield
    for _ in range(3):
        h = x
        for kernel, mix in zip(kernels, mixes, strict=True):
            spectrum = torch.fft.rfft(h.mT, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
            y = torch.fft.irfft(spectrum, n=2 * length)[..., :length]
            h = h + F.glu(mix(F.gelu(y.mT)), dim=-1)
        loss = (h - x.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def dirichlet_vae(n: int = 2048) -> Iterator[None]:
    """Topics by a Dirichlet autoencoder; counts by a negative binomial; both from torch.distributions."""
    encoder = nn.Sequential(nn.Linear(2000, 256), nn.Softplus(), nn.Linear(256, 50), nn.Softplus()).cuda()
    decoder = nn.Linear(50, 2000).cuda()
    dispersion = nn.Parameter(torch.zeros(2000, device="cuda"))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), dispersion])
    counts = torch.poisson(torch.full((n, 2000), 0.5, device="cuda"))
    yield
    for _ in range(3):
        posterior = torch.distributions.Dirichlet(encoder(torch.log1p(counts)) + 0.1, validate_args=False)
        prior = torch.distributions.Dirichlet(torch.full((50,), 0.02, device="cuda"), validate_args=False)
        topics = posterior.rsample()
        likelihood = torch.distributions.NegativeBinomial(
            total_count=dispersion.exp(), logits=decoder(topics), validate_args=False
        )
        kl = torch.distributions.kl_divergence(posterior, prior.expand((n,)))
        loss = (kl - likelihood.log_prob(counts).sum(-1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield

"""Programs that solve within a step: differential equations, transport, flows, filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def rk4(f: Callable[[Tensor], Tensor], y: Tensor, steps: int, h: float) -> Tensor:
    for _ in range(steps):
        a = f(y)
        b = f(y + h / 2 * a)
        c = f(y + h / 2 * b)
        d = f(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
    return y


class Adjoint(torch.autograd.Function):
    """The adjoint method: the trajectory is integrated backwards, no activation is kept."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, steps: int, h: float, net: nn.Module, *parameters: Tensor) -> Tensor:
        ctx.net, ctx.steps, ctx.h = net, steps, h
        with torch.no_grad():
            out = rk4(net, y, steps, h)
        ctx.save_for_backward(out, *parameters)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        y, *parameters = ctx.saved_tensors
        a = grads[0]
        sums = [torch.zeros_like(p) for p in parameters]
        for _ in range(ctx.steps):
            with torch.enable_grad():
                y = y.detach().requires_grad_(True)
                f = ctx.net(y)
                gy, *gp = torch.autograd.grad(f, (y, *parameters), a)
            y = y - ctx.h * f.detach()
            a = a + ctx.h * gy
            sums = [s + ctx.h * g for s, g in zip(sums, gp, strict=True)]
        return (a, None, None, None, *sums)


def neural_ode(n: int = 8192) -> Iterator[None]:
    """A neural ordinary differential equation by the adjoint method."""
    net = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 64)).cuda()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    x, y = torch.randn(n, 64, device="cuda"), torch.randn(n, 64, device="cuda")
    yield
    for _ in range(3):
        out = Adjoint.apply(x, 10, 0.1, net, *net.parameters())  # type: ignore[no-untyped-call]
        loss = (out - y).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def sinkhorn(n: int = 2048) -> Iterator[None]:
    """Optimal transport between two sets of features, thirty iterations in the log domain."""
    net = nn.Sequential(nn.Linear(128, 512), nn.ELU(), nn.Linear(512, 64)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    x, y = torch.randn(n, 128, device="cuda"), torch.randn(n, 64, device="cuda")
    yield
    for _ in range(3):
        cost = torch.cdist(net(x), y) ** 2
        f = torch.zeros(n, 1, device="cuda")
        g = torch.zeros(1, n, device="cuda")
        for _ in range(30):
            f = -torch.logsumexp(g - cost, dim=1, keepdim=True)
            g = -torch.logsumexp(f - cost, dim=0, keepdim=True)
        plan = torch.exp(f + g - cost)
        loss = (plan * cost).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def matrix_flow(n: int = 512) -> Iterator[None]:
    """A flow through matrix exponentials and determinants, complex numbers of determinants too."""
    weights = nn.ParameterList([nn.Parameter(torch.randn(64, 64) * 0.01) for _ in range(4)]).cuda()
    couple = nn.ModuleList([nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 64)) for _ in range(4)]).cuda()
    optimizer = torch.optim.Adamax([*weights, *couple.parameters()])
    x = torch.randn(n, 16, 64, device="cuda")
    yield
    for _ in range(3):
        z, logdet = x, torch.zeros((), device="cuda")
        for w, net in zip(weights, couple, strict=True):
            rotation = torch.matrix_exp(w)
            z = z @ rotation
            logdet = logdet + torch.slogdet(rotation)[1]
            a, b = z.chunk(2, -1)
            shift, scale = net(a).chunk(2, -1)
            scale = torch.sigmoid(scale + 2)
            z = torch.cat([a, b * scale + shift], -1)
            logdet = logdet + scale.log().sum(-1).mean()
        loss = 0.5 * z.square().sum(-1).mean() - logdet
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def multi_resolution_stft(n: int = 16) -> Iterator[None]:
    """A vocoder's loss on spectra of three resolutions, with a filter bank of mels."""
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Conv1d(1, 64, 7, padding=3)), nn.LeakyReLU(0.1),
        *[m for d in (1, 3, 9) for m in (
            nn.utils.parametrizations.weight_norm(nn.Conv1d(64, 64, 7, dilation=d, padding=3 * d)), nn.LeakyReLU(0.1))],
        nn.Conv1d(64, 1, 7, padding=3), nn.Tanh(),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-4, betas=(0.8, 0.99))
    noise, wave = torch.randn(n, 1, 16384, device="cuda"), torch.randn(n, 16384, device="cuda")
    banks = {size: torch.rand(80, size // 2 + 1, device="cuda") for size in (512, 1024, 2048)}
    windows = {size: torch.hann_window(size, device="cuda") for size in (512, 1024, 2048)}
    yield

    def spectrum(x: Tensor, size: int) -> Tensor:
        x = F.pad(x, (size // 2, size // 2), mode="reflect")
        z = torch.stft(x, size, size // 4, size, windows[size], center=False, return_complex=True)
        return torch.sqrt(torch.view_as_real(z).pow(2).sum(-1) + 1e-9)

    for _ in range(3):
        made = net(noise).squeeze(1)
        loss = torch.zeros((), device="cuda")
        for size in (512, 1024, 2048):
            a, b = spectrum(made, size), spectrum(wave, size)
            loss = loss + torch.norm(b - a, p="fro") / torch.norm(b, p="fro")
            loss = loss + F.l1_loss(torch.log(banks[size] @ a), torch.log(banks[size] @ b))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10)
        optimizer.step()
        yield


def kalman(n: int = 512) -> Iterator[None]:
    """A filter's matrices of each moment, solved in a batch, its parameters learned by its likelihood."""
    d = 16
    a = nn.Parameter(torch.eye(d, device="cuda") * 0.9)
    c = nn.Parameter(torch.randn(8, d, device="cuda") * 0.1)
    q, r = nn.Parameter(torch.zeros(d, device="cuda")), nn.Parameter(torch.zeros(8, device="cuda"))
    optimizer = torch.optim.NAdam([a, c, q, r], lr=1e-3)
    seen = torch.randn(n, 50, 8, device="cuda")
    yield
    for _ in range(3):
        m = torch.zeros(n, d, 1, device="cuda")
        p = torch.eye(d, device="cuda").expand(n, d, d)
        loss = torch.zeros((), device="cuda")
        for t in range(seen.shape[1]):
            m, p = a @ m, a @ p @ a.T + torch.diag(q.exp())
            s = c @ p @ c.T + torch.diag(r.exp())
            factor = torch.linalg.cholesky(s)
            error = seen[:, t, :, None] - c @ m
            gain = torch.cholesky_solve(c @ p, factor).mT
            white = torch.linalg.solve_triangular(factor, error, upper=False)
            loss = loss + (0.5 * white.square().sum((1, 2)) + factor.diagonal(dim1=1, dim2=2).log().sum(1)).mean()
            m, p = m + gain @ error, p - gain @ s @ gain.mT
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def jacobian_penalty(n: int = 256) -> Iterator[None]:
    """A penalty on whole Jacobians from torch.autograd.functional, and one Hessian a step."""
    net = nn.Sequential(nn.Linear(32, 256), nn.Softplus(), nn.Linear(256, 16)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    x, y = torch.randn(n, 32, device="cuda"), torch.randn(n, 16, device="cuda")
    yield
    for _ in range(3):
        jacobian = torch.autograd.functional.jacobian(lambda x: net(x).sum(0), x, create_graph=True, vectorize=True)
        hessian = torch.autograd.functional.hessian(lambda v: net(v).square().sum(), x[0])
        loss = F.mse_loss(net(x), y) + 1e-3 * jacobian.square().mean() + 0 * hessian.diagonal().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield

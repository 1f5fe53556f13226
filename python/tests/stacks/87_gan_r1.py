"""A StyleGAN-like pair: modulated convolutions, lazy R1 penalty, path length by a second backward, average of the generator."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
device = "cuda"
BATCH, SIZE, Z = 16, 128, 512


class Modulated(nn.Module):
    def __init__(self, cin, cout, up=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(cout, cin, 3, 3))
        self.style = nn.Linear(Z, cin)
        self.bias = nn.Parameter(torch.zeros(cout))
        self.noise = nn.Parameter(torch.zeros(()))
        self.up = up

    def forward(self, x, w):
        b, c, h, wd = x.shape
        if self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            h, wd = h * 2, wd * 2
        weight = self.weight[None] * (self.style(w) + 1)[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.square().sum([2, 3, 4], keepdim=True) + 1e-8)
        out = F.conv2d(x.reshape(1, b * c, h, wd), weight.reshape(-1, c, 3, 3), padding=1, groups=b).reshape(b, -1, h, wd)
        out = out + self.noise * torch.randn(b, 1, h, wd, device=x.device)
        return F.leaky_relu(out + self.bias[None, :, None, None], 0.2)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.mapping = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(Z, Z), nn.LeakyReLU(0.2))])
        self.start = nn.Parameter(torch.randn(1, 512, 4, 4))
        widths = [512, 512, 512, 256, 128, 64]
        self.first = Modulated(512, 512)
        self.blocks = nn.ModuleList([nn.ModuleList([Modulated(a, b, True), Modulated(b, b)]) for a, b in zip(widths, widths[1:])])
        self.rgb = nn.ModuleList([nn.Conv2d(b, 3, 1) for b in widths[1:]])

    def forward(self, z, styles=False):
        w = self.mapping(F.normalize(z, dim=1))
        x = self.first(self.start.expand(len(z), -1, -1, -1), w)
        image = None
        for (up, conv), rgb in zip(self.blocks, self.rgb):
            x = conv(up(x, w), w)
            image = rgb(x) if image is None else rgb(x) + F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
        return (image, w) if styles else image


class Residual(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.one, self.two, self.skip = nn.Conv2d(a, a, 3, 1, 1), nn.Conv2d(a, b, 3, 2, 1), nn.Conv2d(a, b, 1, 2)

    def forward(self, x):
        return (F.leaky_relu(self.two(F.leaky_relu(self.one(x), 0.2)), 0.2) + self.skip(x)) / 2**0.5


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [64, 128, 256, 512, 512, 512]
        self.net = nn.Sequential(nn.Conv2d(3, 64, 1), *[Residual(a, b) for a, b in zip(widths, widths[1:])])
        self.out = nn.Sequential(nn.Conv2d(513, 512, 3, 1, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(512 * 16, 1))

    def forward(self, x):
        x = self.net(x)
        groups = x.view(4, -1, *x.shape[1:])
        std = groups.var(0, unbiased=False).add(1e-8).sqrt().mean([1, 2, 3]).view(-1, 1, 1, 1).repeat(4, 1, *x.shape[2:])
        return self.out(torch.cat([x, std], 1))


generator, discriminator = Generator().to(device), Discriminator().to(device)
average = copy.deepcopy(generator).eval().requires_grad_(False)
g_optim = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.99))
d_optim = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.0, 0.99))
mean_path = torch.zeros((), device=device)
for step in range(9):
    real = torch.rand(BATCH, 3, SIZE, SIZE).to(device) * 2 - 1
    generator.requires_grad_(False)
    discriminator.requires_grad_(True)
    fake = generator(torch.randn(BATCH, Z, device=device))
    d_loss = F.softplus(discriminator(fake)).mean() + F.softplus(-discriminator(real)).mean()
    d_optim.zero_grad()
    d_loss.backward()
    d_optim.step()
    if step % 4 == 0:
        real.requires_grad_(True)
        score = discriminator(real)
        (slope,) = torch.autograd.grad(score.sum(), real, create_graph=True)
        d_optim.zero_grad()
        (5 * slope.square().sum([1, 2, 3]).mean() * 4 + 0 * score[0, 0]).backward()
        d_optim.step()
    generator.requires_grad_(True)
    discriminator.requires_grad_(False)
    g_loss = F.softplus(-discriminator(generator(torch.randn(BATCH, Z, device=device)))).mean()
    g_optim.zero_grad()
    g_loss.backward()
    g_optim.step()
    if step % 4 == 0:
        image, w = generator(torch.randn(BATCH // 2, Z, device=device), styles=True)
        noise = torch.randn_like(image) / SIZE
        (slope,) = torch.autograd.grad((image * noise).sum(), w, create_graph=True)
        length = slope.square().sum(1).sqrt()
        mean_path = mean_path.lerp(length.mean().detach(), 0.01)
        g_optim.zero_grad()
        (2 * (length - mean_path).square().mean() * 4).backward()
        g_optim.step()
    with torch.no_grad():
        for a, b in zip(average.parameters(), generator.parameters()):
            a.lerp_(b, 0.002)
    print(step, d_loss.item(), g_loss.item())
with torch.no_grad():
    average(torch.randn(36, Z, device=device))

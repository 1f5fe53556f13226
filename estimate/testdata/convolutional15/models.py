"""Convolutional models written for one comparison, of channels, sizes and batches that no measured one has."""

import torch
from torch import nn
from torch.nn import functional as F
from zoo import Model  # of scripts/measure


def cbr(c, k, n=3, s=1, d=2, act=True, **kw):
    conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[d]
    bn = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[d]
    return nn.Sequential(
        conv(c, k, n, s, kw["p"] if "p" in kw else n // 2, bias=False, **{a: v for a, v in kw.items() if a != "p"}),
        bn(k),
        *([nn.ReLU(inplace=True)] if act else []),
    )


class Dann(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Sequential(
            nn.Conv2d(3, 72, 5),
            nn.BatchNorm2d(72),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(72, 44, 5),
            nn.BatchNorm2d(44),
            nn.MaxPool2d(2),
            nn.ReLU(),
        )
        s.c = nn.LazyLinear(10)
        s(torch.zeros(2, 3, 34, 34))

    def forward(s, x):
        return s.c(s.f(x).flatten(1))


class SR(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(
            nn.Conv2d(3, 58, 5, padding=2),
            nn.PReLU(58),
            nn.Conv2d(58, 13, 1),
            nn.PReLU(13),
            *[m for _ in range(4) for m in (nn.Conv2d(13, 13, 3, padding=1), nn.PReLU(13))],
            nn.Conv2d(13, 58, 1),
            nn.PReLU(58),
            nn.ConvTranspose2d(58, 3, 9, 3, 4, output_padding=2),
        )

    def forward(s, x):
        return s.n(x)


class Gen(nn.Module):
    def __init__(s):
        super().__init__()
        c = [120, 424, 216, 104, 52]
        L = []
        for i, (a, b) in enumerate(zip(c, c[1:])):
            L += [
                nn.ConvTranspose2d(a, b, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False),
                nn.BatchNorm2d(b),
                nn.ReLU(True),
            ]
        s.n = nn.Sequential(*L, nn.ConvTranspose2d(52, 3, 4, 2, 1), nn.Tanh())

    def forward(s, x):
        return s.n(x)


class TCN(nn.Module):
    def __init__(s):
        super().__init__()
        s.i = nn.Conv1d(21, 88, 1)
        s.b = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Conv1d(88, 88, 5, dilation=2**i, padding=2 * 2**i),
                    nn.BatchNorm1d(88),
                    nn.ReLU(),
                    nn.Dropout(0.1),
                    nn.Conv1d(88, 88, 5, dilation=2**i, padding=2 * 2**i),
                    nn.BatchNorm1d(88),
                    nn.ReLU(),
                )
                for i in range(6)
            ]
        )
        s.o = nn.Linear(88, 17)

    def forward(s, x):
        x = s.i(x)
        for b in s.b:
            x = x + b(x)
        return s.o(x.mean(-1))


class SE(nn.Module):
    def __init__(s, c, r):
        super().__init__()
        s.a = nn.Conv1d(c, r, 1)
        s.b = nn.Conv1d(r, c, 1)

    def forward(s, x):
        return x * torch.sigmoid(s.b(F.relu(s.a(x.mean(-1, keepdim=True)))))


class Ecapa(nn.Module):
    def __init__(s, c=744):
        super().__init__()
        s.i = cbr(80, c, 5, d=1)
        s.b = nn.ModuleList(
            [
                nn.Sequential(
                    cbr(c, c, 1, d=1),
                    nn.Conv1d(c, c, 3, padding=2 + i, dilation=2 + i, groups=8),
                    nn.ReLU(),
                    cbr(c, c, 1, d=1),
                    SE(c, 128),
                )
                for i in range(3)
            ]
        )
        s.m = nn.Conv1d(3 * c, 1480, 1)
        s.att = nn.Sequential(nn.Conv1d(1480, 128, 1), nn.Tanh(), nn.Conv1d(128, 1480, 1), nn.Softmax(-1))
        s.o = nn.Linear(2960, 192)

    def forward(s, x):
        x = s.i(x)
        o = []
        for b in s.b:
            x = x + b(x)
            o.append(x)
        x = F.relu(s.m(torch.cat(o, 1)))
        w = s.att(x)
        mu = (x * w).sum(-1)
        sd = ((x * x * w).sum(-1) - mu * mu).clamp(min=1e-6).sqrt()
        return s.o(torch.cat((mu, sd), 1))


class EEG(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(
            nn.Conv2d(1, 24, (1, 63), padding=(0, 31)),
            nn.BatchNorm2d(24),
            nn.Conv2d(24, 48, (38, 1), groups=24),
            nn.BatchNorm2d(48),
            nn.ELU(),
            nn.AvgPool2d((1, 4)),
            nn.Dropout(0.25),
            nn.Conv2d(48, 48, (1, 15), padding=(0, 7), groups=48),
            nn.Conv2d(48, 40, 1),
            nn.BatchNorm2d(40),
            nn.ELU(),
            nn.AvgPool2d((1, 8)),
            nn.Flatten(),
            nn.LazyLinear(4),
        )
        s(torch.zeros(2, 1, 38, 700))

    def forward(s, x):
        return s.n(x)


class PointNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(cbr(6, 68, 1, d=1), cbr(68, 140, 1, d=1), cbr(140, 1036, 1, d=1))
        s.h = nn.Sequential(nn.Linear(1036, 500), nn.BatchNorm1d(500), nn.ReLU(), nn.Linear(500, 40))

    def forward(s, x):
        return s.h(s.n(x).amax(-1))


class UNet3(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Sequential(cbr(2, 20, d=3), cbr(20, 20, d=3))
        s.b = nn.Sequential(cbr(20, 44, d=3), cbr(44, 44, d=3))
        s.c = nn.Sequential(cbr(44, 92, d=3), cbr(92, 92, d=3))
        s.u = nn.ConvTranspose3d(92, 44, 2, 2)
        s.d = nn.Sequential(cbr(88, 44, d=3))
        s.v = nn.ConvTranspose3d(44, 20, 2, 2)
        s.e = cbr(40, 20, d=3)
        s.o = nn.Conv3d(20, 3, 1)

    def forward(s, x):
        a = s.a(x)
        b = s.b(F.max_pool3d(a, 2))
        c = s.c(F.max_pool3d(b, 2))
        d = s.d(torch.cat((s.u(c), b), 1))
        return s.o(s.e(torch.cat((s.v(d), a), 1)))


class HG(nn.Module):
    def __init__(s, n=3, c=108):
        super().__init__()
        s.s = cbr(3, c, 7, 2)
        s.d = nn.ModuleList([cbr(c, c) for _ in range(n)])
        s.k = nn.ModuleList([cbr(c, c) for _ in range(n)])
        s.u = nn.ModuleList([cbr(c, c) for _ in range(n)])
        s.o = nn.Conv2d(c, 19, 1)

    def forward(s, x):
        x = s.s(x)
        k = []
        for d, q in zip(s.d, s.k):
            k.append(q(x))
            x = d(F.max_pool2d(x, 2))
        for u, q in zip(s.u, reversed(k)):
            x = F.interpolate(u(x), scale_factor=2) + q
        return s.o(x)


class Inc(nn.Module):
    def __init__(s):
        super().__init__()
        s.st = cbr(3, 44, 3, 2)
        L = []
        c = 44
        for k in (60, 84, 116):
            L.append(
                nn.ModuleList(
                    [
                        cbr(c, k // 2, 1),
                        nn.Sequential(cbr(c, k, 1), cbr(k, k, 3)),
                        nn.Sequential(cbr(c, k // 4, 1), cbr(k // 4, k // 2, 5)),
                        nn.Sequential(cbr(c, k // 2, (1, 7), p=(0, 3)), cbr(k // 2, k // 2, (7, 1), p=(3, 0))),
                    ]
                )
            )
            c = k // 2 + k + k // 2 + k // 2
        s.L = nn.ModuleList(L)
        s.o = nn.Linear(c, 77)

    def forward(s, x):
        x = s.st(x)
        for m in s.L:
            x = F.max_pool2d(torch.cat([b(x) for b in m], 1), 2)
        return s.o(x.mean((2, 3)))


class Wave(nn.Module):
    def __init__(s):
        super().__init__()
        s.i = nn.Conv1d(1, 52, 1)
        s.f = nn.ModuleList([nn.Conv1d(52, 104, 2, dilation=2 ** (i % 7), padding=2 ** (i % 7)) for i in range(14)])
        s.r = nn.ModuleList([nn.Conv1d(52, 52, 1) for _ in range(14)])
        s.k = nn.ModuleList([nn.Conv1d(52, 188, 1) for _ in range(14)])
        s.o = nn.Sequential(nn.ReLU(), nn.Conv1d(188, 188, 1), nn.ReLU(), nn.Conv1d(188, 256, 1))

    def forward(s, x):
        x = s.i(x)
        sk = 0
        for f, r, k in zip(s.f, s.r, s.k):
            a, b = f(x)[..., : x.shape[-1]].chunk(2, 1)
            h = torch.tanh(a) * torch.sigmoid(b)
            sk = sk + k(h)
            x = x + r(h)
        return s.o(sk)


class VAE(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Sequential(cbr(3, 36, 4, 2, p=1), cbr(36, 68, 4, 2, p=1), cbr(68, 132, 4, 2, p=1))
        s.m = nn.Conv2d(132, 24, 1)
        s.d = nn.Sequential(
            nn.Conv2d(24, 132, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(132, 68, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(68, 36, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(36, 3, 4, 2, 1),
        )

    def forward(s, x):
        return s.d(s.m(s.e(x)))


class LeNet(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(
            nn.Conv2d(1, 22, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(22, 54, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.LazyLinear(520),
            nn.ReLU(),
            nn.Linear(520, 10),
        )
        s(torch.zeros(2, 1, 36, 36))

    def forward(s, x):
        return s.n(x)


class Asp(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Sequential(cbr(4, 52, 3, 2), cbr(52, 116, 3, 2))
        s.b = nn.ModuleList([cbr(116, 60, 3, 1, p=d, dilation=d) for d in (1, 4, 9, 14)])
        s.o = nn.Sequential(cbr(240, 84, 1), nn.Conv2d(84, 9, 3, padding=1))

    def forward(s, x):
        x = s.a(x)
        return s.o(torch.cat([b(x) for b in s.b], 1))


class ResX(nn.Module):
    def __init__(s):
        super().__init__()
        s.s = cbr(3, 56, 7, 2)
        L = []
        c = 56
        for k, st in ((112, 1), (112, 1), (240, 2), (240, 1), (432, 2)):
            L.append(
                nn.ModuleList(
                    [
                        nn.Sequential(cbr(c, k, 1), cbr(k, k, 3, st, groups=k // 8), cbr(k, k, 1, act=False)),
                        cbr(c, k, 1, st, act=False),
                    ]
                )
            )
            c = k
        s.L = nn.ModuleList(L)
        s.o = nn.Linear(c, 200)

    def forward(s, x):
        x = F.max_pool2d(s.s(x), 3, 2, 1)
        for a, b in s.L:
            x = F.relu(a(x) + b(x))
        return s.o(x.mean((2, 3)))


def img(c, h, w=None):
    return lambda b: torch.randn(b, c, h, w or h)


ZOO = {
    "dann72": Model(Dann, img(3, 34)),
    "fsrcnn58": Model(SR, img(3, 67)),
    "gen424": Model(Gen, lambda b: torch.randn(b, 120, 1, 1)),
    "tcn88": Model(TCN, lambda b: torch.randn(b, 21, 390)),
    "ecapa744": Model(Ecapa, lambda b: torch.randn(b, 80, 231)),
    "eeg24": Model(EEG, img(1, 38, 700)),
    "pointnet68": Model(PointNet, lambda b: torch.randn(b, 6, 1500)),
    "unet3_20": Model(UNet3, lambda b: torch.randn(b, 2, 40, 48, 56)),
    "hourglass108": Model(HG, img(3, 176, 144)),
    "inception44": Model(Inc, img(3, 170)),
    "wave52": Model(Wave, lambda b: torch.randn(b, 1, 5200)),
    "vae36": Model(VAE, img(3, 104)),
    "lenet22": Model(LeNet, img(1, 36)),
    "aspp52": Model(Asp, img(4, 150, 210)),
    "resx56": Model(ResX, img(3, 190)),
}

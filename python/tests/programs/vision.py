"""Programs over images: detection, warping, deformable and 3-D convolutions, diffusion, codebooks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def faster_rcnn(n: int = 2) -> Iterator[None]:
    """torchvision's Faster R-CNN in training: anchors, proposals, sampling, two stages of losses."""
    import torchvision

    net = torchvision.models.detection.fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=21, min_size=320, max_size=320
    ).cuda()
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.005, momentum=0.9)
    pictures = [torch.rand(3, 320, 320, device="cuda") for _ in range(n)]
    corners = torch.tensor([[20.0, 30.0, 120.0, 150.0], [100.0, 80.0, 300.0, 250.0]], device="cuda")
    targets = [{"boxes": corners.clone(), "labels": torch.tensor([3, 7], device="cuda")} for _ in range(n)]
    yield
    for _ in range(3):
        losses = net(pictures, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def retinanet(n: int = 2) -> Iterator[None]:
    """torchvision's RetinaNet: dense anchors, focal loss."""
    import torchvision

    net = torchvision.models.detection.retinanet_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=21, min_size=320, max_size=320
    ).cuda()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-4)
    pictures = [torch.rand(3, 320, 320, device="cuda") for _ in range(n)]
    corners = torch.tensor([[20.0, 30.0, 120.0, 150.0], [100.0, 80.0, 300.0, 250.0]], device="cuda")
    targets = [{"boxes": corners.clone(), "labels": torch.tensor([3, 7], device="cuda")} for _ in range(n)]
    yield
    for _ in range(3):
        loss = sum(net(pictures, targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def spatial_transformer(n: int = 256) -> Iterator[None]:
    """A network that warps its input before it looks at it."""
    locate = nn.Sequential(
        nn.Conv2d(3, 32, 7, 2), nn.MaxPool2d(2), nn.ReLU(True), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU(True),
        nn.Flatten(), nn.LazyLinear(64), nn.ReLU(True), nn.Linear(64, 6),
    ).cuda()  # fmt: skip
    look = nn.Sequential(nn.Conv2d(3, 64, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(43)).cuda()
    x, y = torch.randn(n, 3, 48, 48, device="cuda"), torch.randint(0, 43, (n,), device="cuda")
    with torch.no_grad():
        look(F.grid_sample(x[:1], F.affine_grid(locate(x[:1]).view(-1, 2, 3), [1, 3, 48, 48])))
    optimizer = torch.optim.SGD([*locate.parameters(), *look.parameters()], lr=0.01)
    yield
    for _ in range(3):
        grid = F.affine_grid(locate(x).view(-1, 2, 3), list(x.shape), align_corners=False)
        warped = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
        nearest = F.grid_sample(x, grid.detach(), mode="nearest")
        loss = F.nll_loss(F.log_softmax(look(warped), 1), y) + 0.1 * F.l1_loss(warped, nearest)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def deformable(n: int = 8) -> Iterator[None]:
    """Deformable convolutions with offsets and masks; pooling of regions after a suppression of boxes."""
    from torchvision.ops import DeformConv2d, batched_nms, roi_align

    stem = nn.Conv2d(3, 64, 3, 2, 1).cuda()
    offsets = nn.Conv2d(64, 27, 3, padding=1).cuda()
    bend = DeformConv2d(64, 128, 3, padding=1).cuda()
    head = nn.Linear(128 * 49, 20).cuda()
    parts = (stem, offsets, bend, head)
    optimizer = torch.optim.Adam([p for m in parts for p in m.parameters()])
    x = torch.randn(n, 3, 128, 128, device="cuda")
    corners = torch.rand(n * 64, 2, device="cuda") * 80
    boxes = torch.cat([corners, corners + 8 + 30 * torch.rand_like(corners)], 1)
    owner = torch.arange(n, device="cuda").repeat_interleave(64)
    labels = torch.randint(0, 20, (n * 64,), device="cuda")
    yield
    for _ in range(3):
        h = F.relu(stem(x))
        parameters = offsets(h)
        h = F.relu(bend(h, parameters[:, :18], torch.sigmoid(parameters[:, 18:])))
        keep = batched_nms(boxes, torch.rand(n * 64, device="cuda"), owner, 0.99)
        regions = torch.cat([owner[:, None].float(), boxes], 1)[keep]
        pooled = roi_align(h, regions, (7, 7), 0.5, 2, True)
        loss = F.cross_entropy(head(pooled.flatten(1)), labels[keep])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def volumes(n: int = 2) -> Iterator[None]:
    """A 3-D U-Net with instance norm, transposed convolutions and a Dice loss; channels last in 3-D."""

    def level(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.PReLU(),
            nn.Conv3d(b, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.PReLU(),
        )  # fmt: skip

    down = nn.ModuleList([level(1, 16), level(16, 32), level(32, 64)]).cuda()
    up = nn.ModuleList([nn.ConvTranspose3d(64, 32, 2, 2), nn.ConvTranspose3d(32, 16, 2, 2)]).cuda()
    join = nn.ModuleList([level(64, 32), level(32, 16)]).cuda()
    head = nn.Conv3d(16, 3, 1).cuda()
    parts = (down, up, join, head)
    optimizer = torch.optim.SGD([p for m in parts for p in m.parameters()], 0.01, 0.99, nesterov=True)
    x, y = torch.randn(n, 1, 64, 64, 64, device="cuda"), torch.randint(0, 3, (n, 64, 64, 64), device="cuda")
    yield
    for _ in range(3):
        a = down[0](x)
        b = down[1](F.max_pool3d(a, 2))
        c = down[2](F.max_pool3d(b, 2))
        b = join[0](torch.cat([up[0](c), b], 1))
        a = join[1](torch.cat([up[1](b), a], 1))
        p = head(a).softmax(1)
        t = F.one_hot(y, 3).movedim(-1, 1).float()
        dice = 1 - (2 * (p * t).sum((2, 3, 4)) + 1) / (p.sum((2, 3, 4)) + t.sum((2, 3, 4)) + 1)
        loss = dice.mean() + F.cross_entropy(p, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def diffusion(n: int = 16) -> Iterator[None]:
    """Noise predicted, two kinds of means of the weights, ten steps of sampling after each of training."""
    net = nn.ModuleList(
        [nn.Conv2d(4, 128, 3, padding=1), nn.Conv2d(128, 128, 3, padding=1), nn.Conv2d(128, 3, 3, 1, 1)]
    )
    net.cuda()
    shadow = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-4)
    alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device="cuda"), 0)
    x = torch.rand(n, 3, 64, 64, device="cuda") * 2 - 1
    yield

    def predict(x: Tensor, t: Tensor) -> Tensor:
        h = torch.cat([x, (t.float() / 1000).view(-1, 1, 1, 1).expand(-1, 1, 64, 64)], 1)
        h = F.silu(F.group_norm(net[0](h), 32))
        return net[2](h + F.silu(F.group_norm(net[1](h), 32)))  # type: ignore[no-any-return]

    for _ in range(3):
        t = torch.randint(0, 1000, (n,), device="cuda")
        a = alphas[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(x)
        loss = F.mse_loss(predict(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch._foreach_lerp_(shadow, [p.detach() for p in net.parameters()], 0.01)
        with torch.no_grad():
            z = torch.randn_like(x)
            for i in reversed(range(0, 1000, 100)):
                e = predict(z, torch.full((n,), i, device="cuda"))
                clean = ((z - (1 - alphas[i]).sqrt() * e) / alphas[i].sqrt()).clamp(-1, 1)
                z = alphas[max(i - 100, 0)].sqrt() * clean + (1 - alphas[max(i - 100, 0)]).sqrt() * e
            picture = ((z + 1) * 127.5).to(torch.uint8).cpu().numpy()
        assert picture.shape[0] == n
        yield


def codebook(n: int = 64) -> Iterator[None]:
    """VQ-VAE with a codebook by moving means: nearest neighbours, counts by one-hot, codes restarted in place."""
    encode = nn.Sequential(nn.Conv2d(3, 128, 4, 2, 1), nn.ReLU(), nn.Conv2d(128, 64, 4, 2, 1)).cuda()
    decode = nn.Sequential(
        nn.Conv2d(64, 512, 3, padding=1), nn.PixelShuffle(2), nn.ReLU(), nn.ConvTranspose2d(128, 3, 4, 2, 1)
    ).cuda()
    codes = torch.randn(1024, 64, device="cuda")
    counts, sums = torch.ones(1024, device="cuda"), codes.clone()
    optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters()])
    x = torch.rand(n, 3, 64, 64, device="cuda")
    yield
    for _ in range(3):
        z = encode(x).permute(0, 2, 3, 1)
        flat = z.reshape(-1, 64)
        distances = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ codes.T + codes.pow(2).sum(1)
        index = distances.argmin(1)
        with torch.no_grad():
            hot = F.one_hot(index, 1024).type(flat.dtype)
            counts.mul_(0.99).add_(hot.sum(0), alpha=0.01)
            sums.mul_(0.99).add_(hot.T @ flat, alpha=0.01)
            codes.copy_(sums / counts.clamp(min=1e-5)[:, None])
            used = (hot.mean(0) * torch.log(hot.mean(0) + 1e-10)).sum().neg().exp()
        q = F.embedding(index, codes).view_as(z)
        commit = F.mse_loss(q.detach(), z)
        out = decode((z + (q - z).detach()).permute(0, 3, 1, 2))
        loss = F.mse_loss(out, x) + 0.25 * commit
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{used.item():.1f} codes in use")
        yield


def convolutional_lstm(n: int = 16) -> Iterator[None]:
    """Frames predicted by a ConvLSTM in a loop, patches folded and unfolded."""
    gates = nn.Conv2d(16 + 64, 256, 5, padding=2).cuda()
    head = nn.Conv2d(64, 16, 1).cuda()
    optimizer = torch.optim.RMSprop([*gates.parameters(), *head.parameters()], centered=True, momentum=0.9)
    movie = torch.rand(n, 10, 1, 64, 64, device="cuda")
    yield
    for _ in range(3):
        h = torch.zeros(n, 64, 16, 16, device="cuda")
        c, loss = torch.zeros_like(h), torch.zeros((), device="cuda")
        for t in range(9):
            patch = F.unfold(movie[:, t], 4, stride=4).view(n, 16, 16, 16)
            i, f, g, o = gates(torch.cat([patch, h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            frame = F.fold(head(h).flatten(2), (64, 64), 4, stride=4)
            loss = loss + F.binary_cross_entropy_with_logits(frame, movie[:, t + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def hard_triplets(n: int = 512) -> Iterator[None]:
    """Distances of all pairs, the hardest triplets chosen by masks, and a boolean choice of those that count."""
    net = nn.Sequential(
        nn.Conv2d(1, 64, 5, 2), nn.BatchNorm2d(64), nn.ELU(), nn.Conv2d(64, 128, 5, 2), nn.Flatten(), nn.LazyLinear(128)
    ).cuda()
    x, y = torch.randn(n, 1, 28, 28, device="cuda"), torch.arange(n, device="cuda") % 32
    with torch.no_grad():
        net(x[:2])
    warnings.filterwarnings("ignore")
    optimizer = torch.optim.Adam(net.parameters())
    same = y[:, None] == y[None]
    yield
    for _ in range(3):
        e = F.normalize(net(x))
        d = torch.cdist(e, e)
        far = d.masked_fill(~same, -1).max(1).values
        near = d.masked_fill(same, 1e9).min(1).values
        hinge = far - near + 0.5
        every = hinge[hinge > 0]
        loss = every.mean() if every.numel() else hinge.sum() * 0
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield

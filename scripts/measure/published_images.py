"""The networks of GPUMemNet's and mmsegmentation's published runs, written from their descriptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision import models

POOLS = (1, 2, 3, 6)  # cells a side of PSPNet's pooled maps


# A network, and the side of its images; the others of GPUMemNet's are built in.
CLASSIFIERS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "xception": (partial(timm.create_model, "legacy_xception"), 224),
}


class Encoder(nn.Module):
    """GPUMemNet's classifier of token sequences: an encoder after the paper, and the mean of what it gives."""

    def __init__(self, vocab: int, d: int, layers: int, heads: int, ff: int, classes: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.positions = nn.Parameter(torch.zeros(1, length, d))
        layer = nn.TransformerEncoderLayer(d, heads, ff, batch_first=True)
        self.model = nn.TransformerEncoder(layer, layers)
        self.classes = nn.Linear(d, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Classify tokens [batch, length]: scores [batch, classes]."""
        scores: Tensor = self.classes(self.model(self.embedding(tokens) + self.positions).mean(dim=1))
        return scores


def _conv(c: int, k: int, filter_: int, **of: int) -> nn.Sequential:
    """mmcv's ConvModule: a convolution without bias, a batch norm, a ReLU in place."""
    of.setdefault("padding", filter_ // 2)
    return nn.Sequential(nn.Conv2d(c, k, filter_, bias=False, **of), nn.BatchNorm2d(k), nn.ReLU(inplace=True))


def _backbone(depth: int, *, deep_stem: bool, dilated: bool) -> nn.ModuleList:
    """ResNet in mmsegmentation's ways: ResNetV1c has three convolutions as its stem; "D8" dilates the last two stages.

    Returns the stem and the four stages.
    """
    net: models.ResNet = getattr(models, f"resnet{depth}")(weights=None)
    if dilated:
        for stage, dilation in ((net.layer3, 2), (net.layer4, 4)):
            for i, block in enumerate(stage):
                at = dilation // 2 if i == 0 else dilation
                for conv in block.modules():
                    if isinstance(conv, nn.Conv2d):
                        conv.stride = (1, 1)
                        if conv.kernel_size == (3, 3):
                            conv.dilation = conv.padding = (at, at)
    stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    if deep_stem:
        stem = nn.Sequential(_conv(3, 32, 3, stride=2), _conv(32, 32, 3), _conv(32, 64, 3), net.maxpool)
    return nn.ModuleList([stem, net.layer1, net.layer2, net.layer3, net.layer4])


class PSPNet(nn.Module):
    """mmsegmentation's PSPNet with its auxiliary head, for Cityscapes' 19 classes."""

    def __init__(self, depth: int, *, deep_stem: bool = True, dilated: bool = True, corners: bool = False) -> None:
        super().__init__()
        self.corners = corners
        self.backbone = _backbone(depth, deep_stem=deep_stem, dilated=dilated)
        wide, channels = (512, 128) if depth == 18 else (2048, 512)
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(n), _conv(wide, channels, 1)) for n in POOLS)
        self.bottleneck = _conv(wide + len(POOLS) * channels, channels, 3)
        self.head = nn.Sequential(nn.Dropout2d(0.1), nn.Conv2d(channels, 19, 1))
        self.auxiliary = nn.Sequential(
            _conv(wide // 2, channels // 2, 3), nn.Dropout2d(0.1), nn.Conv2d(channels // 2, 19, 1)
        )

    def _resized(self, x: Tensor, size: torch.Size) -> Tensor:
        return F.interpolate(x, size, mode="bilinear", align_corners=self.corners)

    def _loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        scores = self._resized(scores, labels.shape[1:])
        loss = F.cross_entropy(scores, labels, reduction="none", ignore_index=255).mean()
        scores.topk(1, dim=1)  # the accuracy that is logged
        return loss

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss over images [batch, 3, height, width] and labels [batch, height, width]."""
        stages = []
        x = images
        for stage in self.backbone:
            x = stage(x)
            stages.append(x)
        pooled = [x, *(self._resized(pool(x), x.shape[2:]) for pool in self.pools)]
        scores = self.head(self.bottleneck(torch.cat(pooled, dim=1)))
        loss = self._loss(scores, labels)
        return loss + 0.4 * self._loss(self.auxiliary(stages[3]), labels)

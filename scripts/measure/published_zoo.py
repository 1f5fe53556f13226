"""The networks of xMem's published runs, for exports.py: torchvision's, on CIFAR-10 resized to 86 x 86."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torchvision import models


class Model(NamedTuple):
    """How a network is built, and its input at some batch."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]


def _images(batch: int) -> Tensor:
    return torch.randn(batch, 3, 86, 86)


_CLASSES = {"mnasnet1_0": 10, "mobilenet_v3_small": 10, "mobilenet_v3_large": 10}
_NAMES = (
    "convnext_tiny convnext_base mnasnet1_0 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large "
    "regnet_x_400mf regnet_y_400mf resnet101 resnet152 vgg16 vgg19"
)

ZOO: dict[str, Model] = {
    name: Model(partial(getattr(models, name), weights=None, num_classes=_CLASSES.get(name, 1000)), _images)
    for name in _NAMES.split()
}

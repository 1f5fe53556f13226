"""Numbers that a tensor does not hold, though nobody knows which it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import memestimate
from memestimate.values.usage import Usage
from recording import Recording

_SKIPPED = -100.0


@pytest.fixture
def rec(tmp_path: Path) -> memestimate.Recorder:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        yield recorder


class Skipping(nn.Module):
    """A layer that leaves out rows of a number of its own, as they stand for what is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (x == _SKIPPED).all(dim=-1)
        if mask.any():
            return torch.full_like(x, _SKIPPED) if mask.all() else x
        return self.norm(self.layer(x) + x)


@pytest.mark.parametrize("rows", [4, 4000])
def test_what_a_layer_computes_equals_no_number(tmp_path: Path, rows: int) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        data = torch.randn(rows, 8)
        x = torch.stack([data.cuda()[torch.arange(rows, device="cuda").flip(0)], data.cuda()], dim=1)
        net = nn.Sequential(Skipping(), nn.GELU(), Skipping(), nn.Dropout(0.1), Skipping()).cuda()
        x = net(x)
        x[: rows // 2] = x[: rows // 2] + x[rows // 2 :]
        net(x).sum().backward()
    names = [name for name, *_ in Recording(tmp_path / "x.mrec").calls()]
    assert names.count("addmm") == 6
    assert names.count("full_like") == 0
    assert not any(place.usage is Usage.BRANCH for place in rec.decisions.places.values())


def test_what_may_hold_the_number_is_asked(rec: memestimate.Recorder) -> None:
    x, some = nn.Linear(8, 8).cuda()(torch.randn(4000, 8).cuda()), torch.randn(4000, 8)
    some[17] = _SKIPPED
    zero = torch.relu(x)
    filled = x.masked_fill(x > 2, _SKIPPED)
    joined = torch.cat([x, some.cuda()])
    written = x + 0
    written[3] = some.cuda()[3]
    unseen = x + 0
    unseen[0].clamp_(max=_SKIPPED)
    for tensor, number in (
        (zero, 0.0),
        (filled, _SKIPPED),
        (joined, _SKIPPED),
        (written, _SKIPPED),
        (unseen, _SKIPPED),
    ):
        assert tensor[tensor == number].shape == (tensor.numel(),)
    assert x[x == _SKIPPED].shape == (0,)
    assert x[x != _SKIPPED].shape == (32000,)
    assert bool(torch.isfinite(x).any())


def test_numbers_are_forgotten_with_the_storage(rec: memestimate.Recorder) -> None:
    net, x = nn.Linear(8, 8).cuda(), torch.randn(4000, 8).cuda()
    before = len(rec.values.numbers)
    y = net(x)
    assert len(rec.values.numbers) == before + 1
    del y
    assert len(rec.values.numbers) == before


def test_data_seen_often_is_known(rec: memestimate.Recorder) -> None:
    labels = torch.arange(3000).remainder(10).float().reshape(2, 1500).cuda()
    wide = labels[:, None].expand(-1, 60, -1)  # more numbers than are followed, which take no memory
    assert wide.max().item() == 9
    assert wide[:, 3, :7].sum().item() == 21 * 2
    labels.normal_()
    assert wide.max().item() == 1


def test_what_is_counted_or_rounded_may_be_a_number(rec: memestimate.Recorder) -> None:
    mask = (torch.randn(1, 1, 64, 64, device="cuda") > 0).float()
    x = nn.Linear(8, 8).cuda()(torch.randn(4000, 8).cuda())
    for tensor in (
        mask[0, 0] @ mask[0, 0].t(),
        nn.functional.conv2d(mask, torch.ones(1, 1, 3, 3, device="cuda"), padding=1),
        x + (x.round() - x).detach(),
        torch.div(x, 1, rounding_mode="floor"),
        x / x.max(),
        x / x.abs(),
    ):
        assert tensor[tensor == 1.0].shape == (tensor.numel(),)


def test_weights_in_another_type_are_weights(rec: memestimate.Recorder) -> None:
    net, x = nn.Linear(256, 256).cuda(), torch.randn(4000, 256).cuda()
    with torch.autocast("cuda", torch.bfloat16):
        y = net(x) / 2
    assert y[y == 1.0].shape == (0,)

"""What is known of data that is too much to follow, and of parts of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import memestimate


@pytest.fixture
def rec(tmp_path: Path) -> memestimate.Recorder:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        yield recorder


def codes(rec: memestimate.Recorder) -> list[str]:
    return [code for code, _ in rec.notes]


def depths() -> torch.Tensor:
    """A map of 200 x 200, of which a fourth is missing."""
    data = torch.rand(200, 200) + 0.5
    data[:100, :100] = 0
    return data


def test_a_comparison_of_data_from_the_host_is_known(rec: memestimate.Recorder) -> None:
    depth = depths().cuda()
    missing = depth <= 0.0
    assert not bool(torch.all(missing))
    assert depth[~missing].shape == (30000,)
    assert int((depth.unsqueeze(0)[:, 50] == 0).sum()) == 100
    assert codes(rec) == []


def test_data_that_was_written_is_not_known(rec: memestimate.Recorder) -> None:
    depth = depths().cuda()
    depth.mul_(torch.randn(200, 200, device="cuda"))
    assert depth[depth <= 0.0].shape == (40000,)
    assert codes(rec) == ["nonzero"]


def test_of_parameters_nothing_is_kept(rec: memestimate.Recorder) -> None:
    weight = nn.Parameter(torch.rand(200, 200)).cuda()
    assert weight[weight > 2.0].shape == (40000,)
    assert codes(rec) == ["nonzero"]


def test_data_seen_often_is_known(rec: memestimate.Recorder) -> None:
    labels = torch.arange(3000).remainder(10).float().reshape(2, 1500).cuda()
    wide = labels[:, None].expand(-1, 60, -1)  # more numbers than are followed, which take no memory
    assert wide.max().item() == 9
    assert wide[:, 3, :7].sum().item() == 21 * 2
    labels.normal_()
    assert wide.max().item() == 1

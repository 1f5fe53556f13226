"""Masks that a program draws: how many elements are set where they are too many to be drawn here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.distributions import Bernoulli

import memestimate

_SHAPE = (64, 20, 100, 100)
_N, _CHANCE = 12_800_000, 0.01
_MOST = 1.02 * _N * _CHANCE


@pytest.fixture
def rec(tmp_path: Path) -> memestimate.Recorder:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        yield recorder


def test_coins_of_the_gpu_set_what_they_can(rec: memestimate.Recorder) -> None:
    chance = torch.tensor(_CHANCE).cuda()
    masks = [
        Bernoulli(chance).sample(_SHAPE),
        torch.empty(_SHAPE, device="cuda").bernoulli_(_CHANCE),
        torch.rand(_SHAPE, device="cuda") < _CHANCE,
        torch.rand_like(torch.empty(_SHAPE, device="cuda")).view(-1) > 1 - _CHANCE,
        torch.empty(_SHAPE, device="cuda").uniform_() <= _CHANCE,
        torch.empty(_SHAPE, device="cuda").bernoulli_(_CHANCE).bool().flatten(2),
    ]
    for mask in masks:
        assert _N * _CHANCE < mask.nonzero().shape[0] < _MOST
    assert all(place.most for place in rec.decisions.places.values())
    kept = torch.ones(_SHAPE, device="cuda")[torch.rand(_SHAPE, device="cuda") >= _CHANCE]
    assert _N * (1 - _CHANCE) < kept.numel() < _N * (1 - _CHANCE / 2)


def test_what_is_no_coin_may_all_be_set(rec: memestimate.Recorder) -> None:
    wide = torch.empty(_SHAPE, device="cuda").uniform_(-1, 1)
    changed = torch.rand(_SHAPE, device="cuda").mul_(0.001)
    for mask in (wide < _CHANCE, changed < _CHANCE, torch.rand(_SHAPE, device="cuda") + 1 < _CHANCE):
        assert mask.nonzero().shape[0] == _N


def test_few_coins_are_drawn(rec: memestimate.Recorder) -> None:
    counts = {int((torch.rand(100, device="cuda") < 0.5).nonzero().shape[0]) for _ in range(20)}
    assert len(counts) > 3
    assert max(counts) < 80


def test_a_large_mask_of_the_host_is_counted(rec: memestimate.Recorder) -> None:
    mask = Bernoulli(_CHANCE).sample((16, 20, 100, 100))
    assert mask.cuda().nonzero().shape[0] == int(mask.sum())
    assert mask.bool().cuda().nonzero().shape[0] == int(mask.sum())
    mask[0, 0, 0, 1] = 0.5
    assert mask.cuda().nonzero().shape[0] == mask.numel()


def test_parts_of_what_is_drawn_may_have_more_than_their_share(rec: memestimate.Recorder) -> None:
    row = (torch.rand(20, 1000, device="cuda") < 0.1)[0]
    assert row.nonzero().shape[0] >= 100 + 6 * 9
    wide = torch.rand(20000, 1, device="cuda").expand(20000, 64) < 0.1
    assert wide.nonzero().shape[0] >= 64 * (2000 + 6 * 42)
    places = torch.randn(20000, device="cuda").long()
    some = torch.zeros(20000, dtype=torch.bool, device="cuda")
    some[places[:100]] = True
    assert some[:200].nonzero().shape[0] == 100
    assert some[places[:300]].nonzero().shape[0] == 300


def test_what_may_all_be_set_leaves_others(rec: memestimate.Recorder) -> None:
    kept = torch.rand(20000, device="cuda") > 1e-4
    assert (~kept).nonzero().shape[0] >= 2 + 6
    assert not rec.values.guesses.of(kept.all()).sane
    some = torch.zeros(20000, dtype=torch.bool, device="cuda")
    some[torch.randn(20000, device="cuda").long()] = True
    assert (~some).nonzero().shape[0] == 20000

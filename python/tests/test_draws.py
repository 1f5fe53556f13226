"""Masks that a program draws: how many elements are set where they are too many to be drawn here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.distributions import Bernoulli

import memestimate

_SHAPE = (64, 20, 100, 100)
_N, _CHANCE = 12_800_000, 0.01


@pytest.fixture
def rec(tmp_path: Path) -> memestimate.Recorder:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        yield recorder


def test_coins_that_are_too_many_may_all_be_set(rec: memestimate.Recorder) -> None:
    for mask in (torch.empty(_SHAPE, device="cuda").bernoulli_(_CHANCE), torch.rand(_SHAPE, device="cuda") < _CHANCE):
        assert mask.nonzero().shape[0] == _N
    assert all(place.most for place in rec.decisions.places.values())


def test_up_to_a_million_coins_are_drawn(rec: memestimate.Recorder) -> None:
    chance, shape = torch.tensor(_CHANCE).cuda(), (16, 20, 50, 50)
    n = 16 * 20 * 50 * 50
    masks = [
        Bernoulli(chance).sample(shape),
        torch.empty(shape, device="cuda").bernoulli_(_CHANCE),
        torch.rand(shape, device="cuda") < _CHANCE,
        torch.rand_like(torch.empty(shape, device="cuda")).view(-1) > 1 - _CHANCE,
        torch.empty(shape, device="cuda").uniform_() <= _CHANCE,
        torch.empty(shape, device="cuda").bernoulli_(_CHANCE).bool().flatten(2),
        (torch.rand(20, n // 20, device="cuda") < 20 * _CHANCE)[3],
    ]
    for mask in masks:
        wanted = 20 * _CHANCE if mask.numel() < n else _CHANCE
        assert abs(mask.nonzero().shape[0] / mask.numel() / wanted - 1) < 0.1
    assert {place.taken.partition(": ")[2] for place in rec.decisions.places.values()} == {"random numbers"}
    kept = torch.rand(20000, device="cuda") > 1e-4
    assert not rec.values.guesses.of(kept.all()).sane


def test_what_is_written_over_is_not_drawn(rec: memestimate.Recorder) -> None:
    changed = torch.rand(20000, device="cuda").mul_(torch.randn(20000, device="cuda"))
    assert (changed < _CHANCE).nonzero().shape[0] == 20000


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


def test_parts_may_have_more_than_their_share(rec: memestimate.Recorder) -> None:
    places = torch.randn(20000, device="cuda").long()
    some = torch.zeros(20000, dtype=torch.bool, device="cuda")
    some[places[:100]] = True
    assert some[:200].nonzero().shape[0] == 100
    assert some[places[:300]].nonzero().shape[0] == 300


def test_what_may_all_be_set_leaves_others(rec: memestimate.Recorder) -> None:
    some = torch.zeros(20000, dtype=torch.bool, device="cuda")
    some[torch.randn(20000, device="cuda").long()] = True
    assert (~some).nonzero().shape[0] == 20000

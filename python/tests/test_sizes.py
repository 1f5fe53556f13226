"""How many elements a result has whose size only values know: the most that the program's own limits leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import memestimate
from memestimate.values.masks import Room


@pytest.fixture
def rec(tmp_path: Path) -> memestimate.Recorder:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        yield recorder


def sampled(labels: torch.Tensor, most: int) -> torch.Tensor:
    """Sample as detectors do: so many of each kind, as a mask."""
    chosen = torch.where(labels >= 1)[0]
    chosen = chosen[torch.randperm(chosen.numel(), device=labels.device)[:most]]
    mask = torch.zeros_like(labels, dtype=torch.uint8)
    mask[chosen] = 1
    return mask


@pytest.mark.parametrize("real", [False, True])
def test_ones_that_are_written_into_zeros_are_counted(tmp_path: Path, real: bool) -> None:
    with memestimate.record(tmp_path / "x.mrec", real=real) as recorder:
        labels = torch.randn(2, 5000, device="cuda").long()
        masks = [sampled(row, 64) for row in labels]
        counts = [torch.where(m)[0].numel() for m in (torch.cat(masks), masks[0] | masks[1], masks[0] & masks[1])]
        assert torch.where((masks[0] > 0) & (labels[0] > -9))[0].numel() == 64
    assert counts[0] == 128
    if real:
        assert counts[2] <= 64 <= counts[1] <= 128
        assert recorder.notes == []
    else:
        assert counts[1:] == [128, 64]
        assert {place.most for place in recorder.decisions.places.values() if place.kind == "size"} == {True}


def test_no_more_elements_are_set_than_there_are(rec: memestimate.Recorder) -> None:
    mask = torch.zeros(10, 3, dtype=torch.bool, device="cuda")
    where = torch.randn(7, device="cuda").long()
    mask[where] = True
    assert mask.nonzero().shape == (21, 2)
    mask[where, torch.zeros_like(where)] = True
    assert mask.nonzero().shape == (28, 2)
    mask[where] = True
    assert mask.nonzero().shape == (30, 2)
    filled = torch.zeros(10, 3, dtype=torch.bool, device="cuda").index_fill(1, where[:2], True)
    assert filled.nonzero().shape == (20, 2)
    few = torch.zeros(10, 3, dtype=torch.bool, device="cuda")
    few[where[:1], 0] = True  # through a view
    assert few.nonzero().shape == (30, 2)
    mask[torch.randn(10, device="cuda") > 0] = False  # by a mask: nothing is known
    assert mask.nonzero().shape == (30, 2)


def test_what_was_chosen_by_a_condition_meets_it(rec: memestimate.Recorder) -> None:
    """Of 128 boxes that a sampler chose, at most 32 are those that it chose for being positive: half of them."""

    def sample(labels: torch.Tensor) -> torch.Tensor:
        positive, negative = torch.where(labels >= 1)[0], torch.where(labels == 0)[0]
        positive = positive[torch.randperm(positive.numel(), device=labels.device)[:32]]
        negative = negative[torch.randperm(negative.numel(), device=labels.device)[:96]]
        masks = [torch.zeros_like(labels, dtype=torch.uint8) for _ in range(2)]
        masks[0][positive], masks[1][negative] = 1, 1
        return torch.where(masks[0] | masks[1])[0]

    images = [torch.randn(5000, device="cuda").long() for _ in range(2)]
    chosen = [sample(labels) for labels in images]
    labels = [labels[index] for labels, index in zip(images, chosen, strict=True)]
    assert [t.shape for t in labels] == [(128,)] * 2
    assert torch.where(labels[0] > 0)[0].shape == (16,)
    assert int((labels[0] > 0).sum()) == 16
    assert torch.cat(labels)[torch.cat(labels) > 0].shape == (32,)
    assert labels[1][labels[1] == 0].shape == (96,)
    assert labels[1][labels[1] < 0].shape == (0,)
    assert torch.where(images[0][chosen[1]] > 0)[0].shape == (128,), "chosen from another tensor"
    repeated = labels[0][torch.zeros(500, dtype=torch.int64, device="cuda")]
    assert torch.where(repeated > 0)[0].shape == (250,), "an index may have one element often: half of 500"
    images[0][chosen[0]] = 7
    assert torch.where(images[0][chosen[0]] > 0)[0].shape == (128,), "the labels were written"


def test_levels_between_two_limits_are_spread_evenly(rec: memestimate.Recorder) -> None:
    boxes = torch.randn(1000, device="cuda")
    levels = (torch.clamp(torch.floor(boxes + 4), min=2, max=5).to(torch.int64) - 2).to(torch.int64)
    assert [torch.where(levels == level)[0].numel() for level in range(4)] == [250] * 4
    share = boxes.clamp(0, 1)
    assert torch.where(share == 1)[0].numel() == 1000  # numbers between the limits are no alternatives
    assert torch.where(boxes.clamp(0, 1000).long() == 1)[0].numel() == 1000


def test_indices_of_a_mask_that_is_all_set_are_known(rec: memestimate.Recorder) -> None:
    classes = torch.arange(5, device="cuda").view(1, -1).expand(200, 5)
    found = torch.where(torch.randn(1000, device="cuda") > 0.05)[0]
    chosen = classes.reshape(-1)[found]
    assert chosen.shape == (1000,)
    assert [torch.where(chosen == c)[0].numel() for c in torch.unique(chosen)] == [200] * 5
    drawn = torch.randn(1000, device="cuda").long() % 7
    assert torch.unique(drawn).numel() == 7


def test_counts_of_different_values_add_up(rec: memestimate.Recorder) -> None:
    x = torch.randn(5000, 3, device="cuda")
    nearest = torch.cdist(x, x[:20]).argmin(1)
    values, inverse, counts = torch.unique(nearest, return_inverse=True, return_counts=True)
    assert values.shape == counts.shape == (20,)
    parts = torch.split(x[inverse.argsort()], counts.tolist())
    assert [part.shape[0] for part in parts] == [250] * 20
    assert int(inverse.max()) == 19


def test_boxes_that_are_suppressed_are_at_most_all(rec: memestimate.Recorder) -> None:
    ops = pytest.importorskip("torchvision.ops")
    boxes = torch.rand(50000, 4, device="cuda")  # of which the host would compare all pairs
    assert ops.nms(boxes, torch.randn(50000, device="cuda"), 0.5).shape == (50000,)
    apart = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]]).cuda()
    assert ops.nms(apart, torch.tensor([0.3, 0.2, 0.1]).cuda(), 0.5).shape == (2,)
    assert [code for code, _ in rec.notes] == ["kept", "fallback"]


@pytest.mark.parametrize("k", [1, 2])
def test_rows_of_a_routing_are_as_many_as_its_elements(rec: memestimate.Recorder, k: int) -> None:
    """A router chooses different experts for a token, so that each element that is set is another token."""
    tokens, experts = 240, 8
    share = tokens * k // experts
    x, y = torch.randn(tokens, 16, device="cuda"), torch.zeros(tokens, 16, device="cuda")
    weights, chosen = torch.randn(tokens, experts, device="cuda").softmax(-1).topk(k)
    for i in range(experts):
        mask = chosen == i
        rows = mask.any(dim=-1).nonzero().flatten()
        assert rows.shape == weights[mask].shape == (share,)
        y.index_add_(0, rows, x[rows] * weights[mask].view(-1, 1))
    assert x[(chosen == 3).float().sum(-1) > 0].shape == (share, 16)
    assert len((chosen == 3).any(0).nonzero()) == k
    assert set(dict(rec.notes)) == {"routing"}


def test_pairs_of_what_is_there_are_counted(rec: memestimate.Recorder) -> None:
    """Padded particles have no pairs: of two million a model takes those of the others."""
    there = torch.arange(512) < torch.tensor([100, 200, 300, 512, 1, 0, 7, 50])[:, None]
    expected = int(there.sum(1).square().sum())
    mask = there.cuda()
    pairs = mask[:, :, None] & mask[:, None, :]
    assert pairs.numel() > 1 << 20
    assert len(pairs.nonzero()) == int(pairs.sum()) == expected
    assert len((~pairs).nonzero()) == pairs.numel() - expected
    once = pairs.float().tril(-1)
    assert len(once.nonzero()) == len((pairs * pairs.triu(1)).nonzero()) == (expected - int(there.sum())) // 2
    pairs[3] = False  # through a view
    assert len(pairs.nonzero()) == expected - 512 * 512
    pairs[0] &= torch.randn(512, 512, device="cuda") > 0
    assert rec.values.get(pairs) is None
    assert [code for code, _ in rec.notes] == []


def test_large_masks_are_known_while_there_is_room(rec: memestimate.Recorder) -> None:
    rec.values._made = Room(5 << 20)
    mask = (torch.arange(2 << 20) % 3 == 0).cuda()
    made = [mask.flip(0), mask.roll(1)]
    assert all(rec.values.get(m) is not None for m in made)
    view = made[1].view(2, -1)[1]
    assert rec.values.get(mask.roll(2)) is None
    assert rec.values.get(mask.cumsum(0)) is None, "no mask"
    assert rec.values.get(mask.sort()[0]) is None, "what comes with it is no mask"
    del made[1]
    assert rec.values.get(mask.roll(2)) is None, "a view holds it"
    del view
    assert rec.values.get(mask.roll(2)) is not None


@pytest.mark.parametrize("corner", [torch.tril, torch.triu])
def test_no_more_is_set_on_one_side_of_a_diagonal(
    rec: memestimate.Recorder, corner: Callable[..., torch.Tensor]
) -> None:
    few = torch.zeros(100, 100, dtype=torch.bool, device="cuda")
    few[torch.randn(7, device="cuda").long(), torch.randn(7, device="cuda").long()] = True
    assert len(corner(few).nonzero()) == len(corner(few.float(), 1).nonzero()) == 7
    assert len(corner(torch.randn(100, 100, device="cuda")).nonzero()) == 10000

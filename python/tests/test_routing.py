"""Mixtures of experts: what balanced routing takes, and how far it is where a router sends all to the same ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import memestimate

TOKENS, WIDTH, EXPERTS, PICKS = 4608, 256, 8, 2  # so many numbers of the input that nobody follows them


class Experts(nn.Module):
    """Chosen by masks, by `one_hot` and `where`, or by counts that the sorted tokens are split by."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.gate = way, nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2048), nn.GELU(), nn.Linear(2048, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(PICKS)
        out = torch.zeros_like(x)
        if self.way == "counts":
            flat = chosen.flatten()
            order = flat.argsort()
            counts = torch.bincount(flat, minlength=EXPERTS).tolist()
            parts = x[order // PICKS].split(counts)
            made = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
            return out.index_add(0, order // PICKS, made * weights.flatten()[order, None])
        masks = nn.functional.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            if self.way == "where":
                which, rows = torch.where(masks[i])
                share = weights[rows, which]
            else:
                mask = chosen == i
                rows, share = mask.any(-1).nonzero().flatten(), weights[mask]
            out = out.index_add(0, rows, expert(x[rows]) * share[:, None])
        return out


def live(path: Path, way: str, skewed: bool) -> int:
    """The most that is live in balanced routing, which is taken, or in skewed routing, of a router's values."""
    torch.manual_seed(0)
    model, x = Experts(way), torch.randn(TOKENS, WIDTH)
    model.gate.weight.data.zero_()
    model.gate.bias.data.copy_(torch.tensor([9.0, 9.0, *[0.0] * (EXPERTS - 2)]))
    with memestimate.record(path, real=skewed) as rec:
        optimizer = torch.optim.AdamW(model.cuda().parameters(), lr=1e-6)
        for _ in range(2):
            output = model(x.cuda())
            loss = output.mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return rec.storages.highest


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("way", ["where", "masks", "counts"])
def test_how_far_skewed_routing_is(tmp_path: Path, way: str) -> None:
    answer = memestimate.estimate(Experts(way), (torch.randn(TOKENS, WIDTH),))
    assert any("spread evenly" in note for note in answer.notes)
    assert answer.depends_on_data
    assert all("balanced routing" in place.taken for place in answer.depends_on_data)
    further = live(tmp_path / "x.mrec", way, True) - live(tmp_path / "y.mrec", way, False)
    told = max(place.bytes or 0 for place in answer.depends_on_data)
    assert told == pytest.approx(further, rel=0.01)
    assert further > 1 << 20
    assert answer.peak.safe >= answer.peak.device + further
    assert not answer.is_bound

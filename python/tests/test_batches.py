"""Where batches differ in size, the largest that a loader gives in a second is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import memestimate
from recording import Recording


def train(lengths: list[int]) -> list[int]:
    loader: Any = DataLoader([torch.full((n,), i) for i, n in enumerate(lengths)], batch_size=1)  # type: ignore[arg-type]
    model = nn.Embedding(100, 64, device="cuda")
    optimizer = torch.optim.Adam(model.parameters())
    seen = []
    for batch in loader:
        seen.append(int(batch[0, 0]))
        model(batch.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return seen


@pytest.mark.parametrize(
    ("lengths", "order"),
    [([5, 6, 7, 90, 8], [0, 3, 1, 2, 4]), ([90, 5, 6, 7], [0, 1, 2, 3]), ([5] * 12, list(range(12)))],
)
def test_the_largest_batch_comes_second(tmp_path: Path, lengths: list[int], order: list[int]) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        assert train(lengths) == order
    told = [note[1] for note in Recording(tmp_path / "a.mrec").of("note") if note[0] == "batches"]
    assert len(told) == (len(set(lengths)) > 1)
    assert not told or (f"of {len(lengths)} that" in told[0] and "of 90 elements" in told[0])


def test_a_loader_is_as_it_was_afterwards(tmp_path: Path) -> None:
    before = DataLoader.__iter__
    with memestimate.record(tmp_path / "a.mrec"):
        loader = DataLoader(range(10), batch_size=5)  # type: ignore[arg-type]
        assert len(loader) == 2
        assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert DataLoader.__iter__ is before

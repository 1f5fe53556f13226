"""The trial that sees whether PyTorch decides as the GPU would."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.optim.optimizer as optimizer

import memestimate
from memestimate.checks import check
from recording import Recording


@pytest.mark.parametrize("gpu", ["h200", "a100-80gb", "t4"])
def test_nothing_is_amiss_and_nothing_is_left(tmp_path: Path, gpu: str) -> None:
    with memestimate.record(tmp_path / "x.mrec", gpu=gpu) as rec:
        assert check(rec) == []
        assert rec.steps == 0
        assert rec.storages.allocated == 0
    assert Recording(tmp_path / "x.mrec").events == []


def test_another_choice_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        monkeypatch.setattr(optimizer, "_foreach_supported_types", [])
        assert check(rec) == ["optimizers: _foreach_add_ was wanted and did not run"]
    assert [code for code, _, _ in Recording(tmp_path / "x.mrec").of("note")] == ["check"]

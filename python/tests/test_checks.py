"""The trial that sees whether PyTorch decides as the GPU would."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.optim.optimizer as optimizer
from torch import nn

import memestimate
from memestimate.ops import checks
from recording import Recording


@pytest.fixture(autouse=True)
def _untried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_tried", {})  # as in a process that has tried nothing yet


@pytest.mark.parametrize("gpu", ["h200", "a100-80gb", "t4"])
def test_nothing_is_amiss_and_nothing_is_left(tmp_path: Path, gpu: str) -> None:
    with memestimate.record(tmp_path / "x.mrec", gpu=gpu) as rec:
        checks._tried.clear()
        assert checks.check(rec) == []
        assert rec.steps == 0
        assert rec.storages.allocated == 0
    assert Recording(tmp_path / "x.mrec").events == []


def test_another_choice_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        monkeypatch.setattr(optimizer, "_foreach_supported_types", [])
        checks._tried.clear()
        assert checks.check(rec) == ["optimizers: _foreach_add_ was wanted and did not run"]
    assert [code for code, _, _ in Recording(tmp_path / "x.mrec").of("note")] == ["check"]


def test_a_recording_without_cudnn_is_forgotten(tmp_path: Path) -> None:
    """Fake tensors remember what convolutions gave, and not whether cuDNN was enabled."""
    torch._subclasses.FakeTensorMode.cache_clear()
    with torch.backends.cudnn.flags(enabled=False), memestimate.record(tmp_path / "x", gpu="t4"):
        pass
    with memestimate.record(tmp_path / "x", gpu="t4") as recorder:
        images = torch.ones(2, 8, 4, 4, device="cuda").contiguous(memory_format=torch.channels_last)
        assert nn.functional.conv2d(images, torch.ones(8, 8, 1, 1, device="cuda")).stride(1) == 1
    assert not [text for code, text in recorder.notes if code == "check"]

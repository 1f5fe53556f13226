"""A process uses one GPU, whichever it names; libraries that ask NVML of it are told what PyTorch says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import memestimate


def test_any_number_is_the_one_gpu(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        model = torch.nn.Linear(8, 8).to("cuda:3")
        out = model(torch.ones(4, 8, device="cuda:3"))
        assert out.to(model.weight.device).sum().to("cuda:3").is_cuda


def test_several_in_a_process_are_refused(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        x = torch.ones(4, 8, device="cuda:0")
        with pytest.raises(RuntimeError, match=r"uses cuda:0 and cuda:1: a recording has one GPU in a process"):
            x.to("cuda:1")


def test_nvml_says_what_pytorch_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = pytest.importorskip("pynvml")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    before = nvml.nvmlInit
    with memestimate.record(tmp_path / "a.mrec", gpu="t4"):
        assert "CUDA_VISIBLE_DEVICES" not in os.environ
        nvml.nvmlInit()
        found = nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0))
        assert (found.free, found.total) == torch.cuda.mem_get_info()
    assert nvml.nvmlInit is before
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""

"""A process uses one GPU, whichever it names, or as many as it was told; NVML says of them what PyTorch says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from torch import nn

import memestimate
from memestimate.api import program as answers
from recording import Recording


def test_any_number_is_the_one_gpu(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        model = torch.nn.Linear(8, 8).to("cuda:3")
        out = model(torch.ones(4, 8, device="cuda:3"))
        assert out.to(model.weight.device).sum().to("cuda:3").is_cuda


def test_several_in_a_process_are_refused(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        x = torch.ones(4, 8, device="cuda:0")
        with pytest.raises(RuntimeError, match=r"uses cuda:0 and cuda:1: record it with --gpus 2"):
            x.to("cuda:1")


def test_each_gpu_has_its_own_memory(tmp_path: Path, program: Path) -> None:
    path = tmp_path / "a.mrec"
    mib = 1 << 20
    with memestimate.record(path, gpus=2):
        assert torch.cuda.device_count() == 2
        first = nn.Linear(512, 512, bias=False).to("cuda:0")  # 1 MiB
        second = nn.Linear(512, 1024, bias=False).to(1)  # 2 MiB
        x = torch.ones(1024, 512, device="cuda", requires_grad=True)  # 2 MiB
        y = second(first(x).to("cuda:1"))  # 2 MiB on the first, let go of; 2 and 4 on the second
        assert (y.device.index, x.device.index) == (1, 0)
        assert [torch.cuda.memory_allocated(i) for i in range(2)] == [3 * mib, 8 * mib]
        y.sum().backward()
        assert x.grad is not None
        assert x.grad.device == first.weight.grad.device == torch.device("cuda:0")  # type: ignore[union-attr]
        with torch.cuda.device(1):
            assert torch.empty(1, device="cuda").device.index == torch.cuda.current_device() == 1
            assert torch.cuda.current_stream().device.index == 1
        with torch.cuda.stream(torch.cuda.Stream(1)):
            assert torch.empty(1, device="cuda").device.index == 1
        assert torch.cuda.current_device() == 0
        with pytest.raises(RuntimeError, match=r"uses cuda:2: record it with --gpus 3"):
            x.to("cuda:2")
    assert Recording(path).header["gpus"] == 2
    answer = answers.ask([str(path)])
    by_gpu = [gpu["allocated_bytes"] for gpu in answer["gpus"]]
    assert answer["peak"]["allocated_bytes"] == max(by_gpu)
    assert by_gpu[0] >= 5 * mib
    assert by_gpu[1] >= 10 * mib


def test_replicas_are_on_their_own_gpus(tmp_path: Path) -> None:
    """`nn.DataParallel`: the model's copies in buffers of 10 MiB, the batch in parts, gradients added on the first."""
    mib = 1 << 20
    with memestimate.record(tmp_path / "a.mrec", gpus=2) as recorder:
        net = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False)).cuda()  # 4 MiB each
        out = nn.DataParallel(net)(torch.ones(512, 1024, device="cuda"))  # 2 MiB
        assert (out.shape, out.device.index) == ((512, 1024), 0)
        # The copy, half of the batch and what the second layer keeps of it: 8, 1 and 1.
        assert torch.cuda.memory_allocated(1) == 10 * mib
        out.sum().backward()
        assert all(p.grad is not None and p.grad.device.index == 0 for p in net.parameters())
        assert recorder.storages.levels[1].allocated < 10 * mib


def test_processes_have_one_gpu_each(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 GPUs in each of 2 processes"):
        memestimate.record(tmp_path / "a.mrec", gpus=2, world_size=2)


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

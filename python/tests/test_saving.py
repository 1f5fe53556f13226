"""What is saved of the pretended GPU is there when it is loaded; what another library wants of it is refused."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import memestimate


def loaded(value: Any, **how: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **how)


Ways = list[Callable[[Any], Any]]


def test_a_checkpoint_is_loaded_onto_the_gpu_that_it_is_of(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x") as recorder:
        net = nn.Linear(512, 512).cuda()
        held = recorder.storages.allocated
        state = loaded({"net": net.state_dict(), "host": torch.ones(3)})
        assert (state["net"]["weight"].device.type, state["host"].device.type) == ("cuda", "cpu")
        assert recorder.storages.allocated == 2 * held
        to_gpu: Ways = [lambda s, _: s.cuda(), lambda s, _: None]
        for way in ("cuda:0", torch.device("cuda"), {"cuda:0": "cuda:0"}, *to_gpu):
            assert loaded(net.weight, map_location=way).is_cuda
        to_host: Ways = [lambda s, _: s]
        for way in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, *to_host):
            assert loaded(net.weight, map_location=way).device.type == "cpu"
        whole = loaded(net, weights_only=False)
        assert whole.weight.is_cuda
        assert isinstance(whole.weight, nn.Parameter)
    own = torch.load, torch.save, torch.serialization.location_tag, torch.UntypedStorage.cuda
    assert all(function.__module__.startswith("torch") for function in own)


def test_tied_parameters_are_saved_and_loaded_as_one(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x") as recorder:
        table, head = nn.Embedding(1000, 64).cuda(), nn.Linear(64, 1000, bias=False).cuda()
        head.weight = table.weight
        before = recorder.storages.allocated
        state = loaded({"table": table.state_dict(), "head": head.state_dict(), "part": table.weight.detach()[10:20]})
        assert recorder.storages.allocated - before == 1000 * 64 * 4
        assert state["part"].storage_offset() == 640
        del state
        assert recorder.storages.allocated == before


def test_copies_and_pickles_of_tensors_stay_on_the_gpu(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x") as recorder:
        net = nn.Linear(512, 512).cuda()
        held = recorder.storages.allocated
        same = copy.copy(net.weight)
        assert isinstance(same, nn.Parameter)
        assert same.is_cuda
        assert recorder.storages.allocated == held
        again = pickle.loads(pickle.dumps(net))
        assert again.weight.is_cuda
        assert recorder.storages.allocated == 2 * held
        written = pickle.dumps(net)
    assert pickle.loads(written).weight.device.type == "cpu"  # where nothing is recorded


def test_memory_that_another_library_wants(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x") as recorder:
        x = torch.ones(1024, device="cuda")
        held = recorder.storages.allocated
        same = [torch.from_dlpack(x), torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))]
        assert all(y.is_cuda for y in same)
        assert recorder.storages.allocated == held
        with pytest.raises(BufferError, match="do it with PyTorch"):
            x.__cuda_array_interface__  # noqa: B018
        with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
            np.asarray(x)
        assert x.numpy(force=True).shape == (1024,)
        with pytest.raises(RuntimeError, match="on the same device, but found at least two devices, cuda:0 and cpu!"):
            x + torch.ones(1024)


def test_a_gradient_that_is_lost_is_said(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x") as recorder:
        net = nn.Linear(8, 8).cuda()
        net.bias.data = net.bias.data.cpu().cuda()
        assert not recorder.notes
        net(torch.ones(2, 8, device="cuda")).sum().backward()
        net.weight.data = net.weight.data.cpu()
        assert [code for code, _ in recorder.notes] == ["gradient"]

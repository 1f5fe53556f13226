"""Each way of recording gives the calls that CUDA tensors would make, and the same bytes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import _get_current_function_mode_stack

import memestimate
from forks import PYTHON
from memestimate.api.recorder import Recorder, Way
from memestimate.pretend import engine
from memestimate.pretend.device_numbers import DeviceNumbers
from recording import Recording


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 1)
        self.head = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.head(self.layers(x))
        return y.mean(1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2, dropout=0.1, batch_first=True)
        self.cells = nn.ModuleList([nn.LSTMCell(16, 16), nn.GRUCell(16, 16)])
        self.mix = nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(x)
        state = self.cells[1](self.cells[0](y[:, 0])[0])
        y = y * state[:, None]
        y[:, 0] = 3.0
        out: torch.Tensor = self.mix(y.transpose(1, 2))
        return out.mean(-1) + y[:, [0, 2]].mean()


def convolutions() -> nn.Module:
    depthwise = nn.Conv2d(8, 8, 3, groups=8, dilation=2)
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), depthwise, nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.1), nn.Linear(8, 5)).to(memory_format=torch.channels_last)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutions": (convolutions, (2, 3, 16, 16)),
    "encoder": (Encoder, (2, 8, 32)),
    "recurrent": (Recurrent, (2, 6, 8)),
}


def train(path: Path, name: str, way: Way | None, dtype: torch.dtype | None) -> tuple[Recorder, Recording]:
    make, shape = MODELS[name]
    with Recorder(path, gpu="a100-80gb", way=way) as rec:
        net = make().cuda()
        optimizer = torch.optim.AdamW(net.parameters())
        scaler = torch.amp.GradScaler("cuda", enabled=dtype is torch.float16)
        x, labels = torch.randn(shape).cuda(), torch.zeros(shape[0], dtype=torch.long).cuda()
        for _ in range(2):
            with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
                loss = F.cross_entropy(net(x), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            rec.step()
    return rec, Recording(path)


def calls(recording: Recording) -> list[tuple[str, Any, Any]]:
    """Operators with their arguments, storages replaced by what lies in them."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, str) and value[:1] not in "'!":
            storage, _, meta = value.partition(":")
            return [storage == "c", *recording.tables["meta"][int(meta)]]
        return value

    # In PyTorch 2.15, up to 2.11 not yet, the device decides how a linear layer names its view, and how it is filled.
    newer = torch.__version__ >= (2, 12)
    spelt = {"_unsafe_view": "view"} if newer else {}
    taken = {"fill_": 1} if newer else {}
    return [
        (spelt.get(name, name), plain(args)[: taken.get(name)], plain(results))
        for name, args, results, _, _ in recording.calls()
    ]


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", list(MODELS))
def test_all_ways_give_the_same_step(tmp_path: Path, name: str, dtype: torch.dtype | None) -> None:
    _, wanted = train(tmp_path / "wanted", name, None, dtype)
    for way in ("fake-cpu", "real-cpu"):
        _, found = train(tmp_path / way, name, way, dtype)  # type: ignore[arg-type]
        assert found.header["way"] == way
        assert calls(found) == calls(wanted)
        assert found.phases() == wanted.phases()


@pytest.fixture
def without_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A build without CUDA, as far as C++ asks its hooks: what all are false in such a build."""
    hooks, table, slots = engine._hooks()
    _, zero = engine._thunks()
    count = max(slots.values()) + 32
    copy = (ctypes.c_void_p * count)()
    ctypes.memmove(copy, table - 16, ctypes.sizeof(copy))
    for method in ("isBuilt", "isAvailable", "hasCUDA", "hasCuDNN", "compiledWithCuDNN", "compiledWithMIOpen"):
        if method in slots:
            copy[2 + slots[method]] = zero
    for method in ("supportsDilatedConvolutionWithCuDNN", "supportsDepthwiseConvolutionWithCuDNN"):
        copy[2 + slots[method]] = zero
    cell = ctypes.c_void_p.from_address(hooks)
    before, cell.value = cell.value, ctypes.addressof(copy) + 16
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    yield
    cell.value = before


@pytest.mark.skipif(sys.platform != "linux", reason="changes C++ tables as the engine does on Linux")
@pytest.mark.parametrize("name", list(MODELS))
def test_a_build_without_cuda_records_the_same(tmp_path: Path, name: str, request: pytest.FixtureRequest) -> None:
    _, wanted = train(tmp_path / "wanted", name, None, torch.float16)
    request.getfixturevalue("without_cuda")
    rec, found = train(tmp_path / "found", name, None, torch.float16)
    assert found.header["way"] == "fake-cpu"
    assert found.header["cudnn"] == wanted.header["cudnn"]
    assert [text for code, text in rec.notes if code == "way"] == [
        "recorded on fake tensors of the host: this is a build of PyTorch without CUDA and cuDNN"
    ]
    assert calls(found) == calls(wanted)
    assert found.phases() == wanted.phases()


def test_devices_to_python_and_to_the_host(tmp_path: Path) -> None:
    with Recorder(tmp_path / "x", way="fake-cpu"):
        x = torch.zeros(4, 4, device="cuda")
        assert x.is_cuda
        assert str(x.device) == "cuda:0"
        assert x.to("cuda") is x
        assert x.cuda() is x
        assert x.to(torch.float16).device.type == "cuda"
        assert x.cpu().device.type == "cpu"
        assert torch.ones(2).to(x).is_cuda
        assert torch.ones(2).type_as(x).is_cuda
        assert x.new_zeros(3).is_cuda
        assert torch._C._get_accelerator().type == "cuda"
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert torch.ones(2).device.type == "cpu"


NUMBERED: dict[str, Callable[[], Any]] = {
    "device": lambda: torch.zeros(2, device=torch.device(0)),
    "device by name": lambda: torch.zeros(2, device=torch.device(device=0)),
    "to": lambda: torch.ones(2).to(0),
    "to by name": lambda: torch.ones(2).to(device=0, dtype=torch.float16),
    "cuda": lambda: torch.ones(2).cuda(0),
    "zeros": lambda: torch.zeros(2, device=0),
    "like": lambda: torch.empty_like(torch.ones(2), device=0),
    "new": lambda: torch.ones(2).new_zeros(2, device=0),
    "values": lambda: torch.tensor([1, 2], device=0),
    "module to": lambda: nn.Linear(2, 2).to(0).weight,
    "module cuda": lambda: nn.Linear(2, 2).cuda(0).weight,
    "module": lambda: nn.Linear(2, 2, device=0).weight,
}


@pytest.mark.skipif(sys.platform != "linux", reason="changes C++ tables as the engine does on Linux")
@pytest.mark.parametrize("build", ["with_cuda", "without_cuda"])
@pytest.mark.parametrize("default", [False, True])
def test_a_number_names_a_gpu(tmp_path: Path, request: pytest.FixtureRequest, build: str, default: bool) -> None:
    """In every thread, and whatever default device the program leaves behind."""
    if build == "without_cuda":
        request.getfixturevalue(build)
    found: dict[str, Any] = {}

    def run(thread: str) -> None:
        for name, make in NUMBERED.items():
            try:
                found[thread, name] = str(make().device)
            except RuntimeError as error:
                found[thread, name] = error

    try:
        with Recorder(tmp_path / "x") as recorder:
            assert recorder.by_host == (build == "without_cuda")
            run("first")
            if default:
                torch.set_default_device("cuda")
            thread = threading.Thread(target=run, args=("second",))
            thread.start()
            thread.join()
        assert not [mode for mode in _get_current_function_mode_stack() if isinstance(mode, DeviceNumbers)]
    finally:
        torch.set_default_device(None)
    assert found == {(thread, name): "cuda:0" for thread in ("first", "second") for name in NUMBERED}


@torch.library.custom_op("memestimate_tests::positives", mutates_args=())
def positives(x: torch.Tensor) -> torch.Tensor:
    """Without a rule of shapes, which depend on values."""
    return x[x > 0].clone()


def test_real_values_decide(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x", real=True) as rec:
        net = nn.Linear(4, 4).cuda()
        x = torch.tensor([[1.0, -2.0, 3.0, -4.0]]).cuda()
        assert x.relu().sum().item() == 4
        assert x[x > 0].shape == (2,)
        assert positives(x).shape == (2,)
        before = net.weight.detach().cpu().clone()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        net(x).sum().backward()
        optimizer.step()
        assert torch.allclose(net.weight.detach().cpu(), before - 0.5 * x.cpu())
        assert torch.unique(torch.tensor([1, 2, 2]).cuda() + 1).tolist() == [2, 3]
        x.mul_(2)[0, 1:].zero_()
        assert x.tolist() == [[2, 0, 0, 0]]
    assert {code for code, _ in rec.notes} <= {"fallback"}


def test_real_attention_is_attention(tmp_path: Path) -> None:
    q, k, v = (torch.randn(1, 4, 6, 8) for _ in range(3))
    k, v = k[:, :2], v[:, :2]
    inputs = [t.clone().requires_grad_() for t in (q, k, v)]
    F.scaled_dot_product_attention(*inputs, is_causal=True, enable_gqa=True).square().sum().backward()
    with memestimate.record(tmp_path / "x", real=True) as rec:
        ours = [t.cuda().bfloat16().requires_grad_() for t in (q, k, v)]
        out = F.scaled_dot_product_attention(*ours, is_causal=True, enable_gqa=True)
        out.square().sum().backward()
        for t, wanted in zip(ours, inputs, strict=True):
            assert t.grad is not None
            assert wanted.grad is not None
            assert torch.allclose(t.grad.float().cpu(), wanted.grad, atol=0.2, rtol=0.1)
    assert "real" not in {code for code, _ in rec.notes}


def test_real_on_the_command_line(tmp_path: Path) -> None:
    script = "import torch\nx = torch.ones(3, device='cuda')\nassert x.cumsum(0)[x > 0].tolist() == [1, 2, 3]\n"
    (tmp_path / "script.py").write_text(script)
    command = [PYTHON, "-m", "memestimate", "record", "--real", "script.py"]
    environment = os.environ | {"PYTHONPATH": str(Path(memestimate.__file__).parents[1])}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert Recording(tmp_path / "script.mrec").header["way"] == "real-cpu"

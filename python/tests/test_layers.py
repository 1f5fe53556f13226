"""Layers whose CUDA kernels differ from what fake tensors do."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import memestimate
from memestimate.pretend.engine import EngineError, virtual_slots
from recording import Recording


def train(path: Path, net: nn.Module, x: torch.Tensor, dtype: torch.dtype | None = None) -> Recording:
    with memestimate.record(path):
        net.cuda()
        with torch.autocast("cuda", dtype=dtype or torch.float16, enabled=dtype is not None):
            out = net(x.cuda())
        out = out[0] if isinstance(out, tuple) else out
        out.float().sum().backward()
    return Recording(path)


def sizes(recording: Recording, call: str) -> list[int]:
    """Bytes of the storages that calls of one operator made."""
    names = [op[0].removeprefix("aten::") for op in recording.tables["op"]]
    found, current = [], ""
    for word, *rest in recording.events:
        if word == "call":
            current = names[rest[0]]
        elif word == "alloc" and current == call:
            found.append(rest[1])
    return found


def test_lstm_has_one_block_of_weights_and_a_reserve(tmp_path: Path) -> None:
    """Sizes as measured on an H200: nn.LSTM(256, 512, 2) on [16, 100, 256]."""
    recording = train(tmp_path / "x", nn.LSTM(256, 512, 2, batch_first=True), torch.randn(16, 100, 256))
    assert sizes(recording, "_cudnn_rnn_flatten_weight") == [14712832]
    assert sizes(recording, "_cudnn_rnn") == [3276800, 65536, 65536, 36045056]
    assert sizes(recording, "_cudnn_rnn_backward")[-1] == 14712832
    assert "clone" not in [call[0] for call in recording.calls()]  # gradients are pieces of one block, and kept


def test_recurrent_layers_without_biases(tmp_path: Path) -> None:
    """As measured on an H200: cuDNN's block has biases all the same, and the gradients are copies out of it."""
    recording = train(tmp_path / "x", nn.RNN(193, 256, bias=False), torch.randn(126, 64, 193).requires_grad_())
    assert sizes(recording, "_cudnn_rnn_flatten_weight") == [461824]
    assert sizes(recording, "_cudnn_rnn_backward") == [6225408, 65536, 197632, 262144]


def test_projected_states_are_kept(tmp_path: Path) -> None:
    """As measured on an H200: an LSTM keeps its states before and after the projection."""
    recording = train(tmp_path / "x", nn.LSTM(256, 1024, proj_size=512), torch.randn(255, 48, 256), torch.float16)
    assert sizes(recording, "_cudnn_rnn") == [12533760, 49152, 98304, 162939136]


@pytest.mark.parametrize("layer", [nn.GRU(8, 16), nn.RNN(8, 16), nn.LSTM(8, 16, 2, dropout=0.5, bidirectional=True)])
def test_recurrent_layers(tmp_path: Path, layer: nn.RNNBase) -> None:
    recording = train(tmp_path / "x", layer, torch.randn(5, 3, 8), torch.bfloat16)
    assert len(recording.calls("_cudnn_rnn")) == 1
    assert len(recording.calls("_cudnn_rnn_backward")) == 1
    (call,) = recording.calls("_cudnn_rnn")
    assert recording.tables["meta"][int(call[2][0].split(":")[1])][0] == "float16"  # even where autocast is bfloat16
    assert ("gradient", "weight_ih_l0") in {(kind, name) for _, kind, name in recording.of("is")}


def test_convolutions_and_norms_are_cudnns(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5))
    names = [call[0] for call in train(tmp_path / "x", net, torch.randn(2, 3, 16, 16)).calls()]
    assert "cudnn_batch_norm" in names
    assert "cudnn_batch_norm_backward" in names
    assert "native_dropout" in names


def test_the_same_program_makes_the_same_bytes(tmp_path: Path) -> None:
    """Autocast's cache lets its weights go in the order of their addresses, which is another in every process."""
    net = nn.Sequential(*[nn.Conv2d(4, 4, 3, padding=1) for _ in range(8)])
    files = []
    for name in ("a", "b", "c"):
        train(tmp_path / name, copy.deepcopy(net), torch.randn(2, 4, 8, 8), torch.bfloat16)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1] == files[2]


def test_autocast_casts(tmp_path: Path) -> None:
    recording = train(tmp_path / "x", nn.Linear(64, 64), torch.randn(8, 64), torch.bfloat16)
    assert sizes(recording, "addmm") == [8 * 64 * 2]


def test_layer_norm_makes_rows(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x * 2).permute(0, 2, 1).contiguous() * 3

    recording = train(tmp_path / "x", Net(), torch.randn(2, 5, 8, requires_grad=True))
    (call,) = recording.calls("native_layer_norm_backward")
    layout = recording.tables["meta"][int(call[2][0].split(":")[1])]
    assert layout[1:3] == [[2, 5, 8], [40, 8, 1]]


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_computes_again(tmp_path: Path, reentrant: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = checkpoint(self.block, x.requires_grad_(), use_reentrant=reentrant)
            return y

    recording = train(tmp_path / "x", Net(), torch.randn(512, 64))
    assert len(recording.calls("addmm")) == (4 if reentrant else 3)  # the other kind stops where it has enough
    forward = next(end for name, end, _ in recording.phases() if name == "forward")
    assert forward < 512 * 256 * 4


def test_the_inference_fast_path(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec"), torch.no_grad():
        net = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, batch_first=True), 2).cuda().eval()
        assert net(torch.randn(2, 8, 64, device="cuda")).shape == (2, 8, 64)
    assert len(Recording(tmp_path / "x.mrec").calls("_transformer_encoder_layer_fwd")) == 2


def test_entries_of_virtual_tables_are_counted() -> None:
    base = (
        "struct TORCH_API Base { virtual ~Base() = default; /* virtual bool no() */ virtual bool a() const { f(); } };"
    )
    derived = """struct TORCH_API Derived : Base {
      // virtual bool gone() const;
      bool a() const override { return true; }
      virtual long b(int x = 3) const { return 1; }
      virtual long b(long x) const { return 1; }
      virtual c::D* e() const = 0;
    };"""
    assert virtual_slots(base, "Base", derived, "Derived") == {"a": 2, "b": 3, "e": 5}
    with pytest.raises(EngineError, match="do not define Other"):
        virtual_slots(base, "Other")


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.GroupNorm(2, 8)])
def test_norms_refuse_other_weights_as_a_gpu_does(tmp_path: Path, norm: nn.Module) -> None:
    with memestimate.record(tmp_path / "x"):
        x = torch.ones(2, 8, 8, device="cuda", dtype=torch.bfloat16)
        with pytest.raises(RuntimeError, match="expected scalar type BFloat16 but found Float"):
            norm.cuda()(x)
        with torch.autocast("cuda", torch.bfloat16):
            assert norm(x).dtype is torch.float32
        assert norm.bfloat16()(x).dtype is torch.bfloat16

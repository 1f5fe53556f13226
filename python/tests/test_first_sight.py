"""What published models do beside layers and steps: data of tensors on the host, sparse gradients, TorchScript."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import memestimate
from recording import Recording


def test_data_of_what_is_on_the_host_stays_there(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        net = nn.Linear(4, 3)
        (net.weight * 2).data.fill_(1)
        net.bias.view(1, -1).data.fill_(5)
        assert net.bias.tolist() == [5, 5, 5]
        assert not isinstance(net.weight.data, FakeTensor)
        assert type(net.weight.data.sum().item()) is float
        net.cuda()
        assert isinstance(net.weight.data, FakeTensor)
        (net.weight * 2).data.fill_(1)
    recording = Recording(tmp_path / "x")
    assert [call[0] for call in recording.calls() if call[0] in ("mul", "fill_")] == ["mul", "fill_"]
    assert len(recording.calls("_to_copy")) == 2


@torch.jit.script
def gate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.tanh(a + b) * torch.sigmoid(a)


def test_torchscript_is_recorded_operator_by_operator(tmp_path: Path) -> None:
    fuses = torch._C._jit_can_fuse_on_gpu(), torch._C._jit_texpr_fuser_enabled()
    with memestimate.record(tmp_path / "x") as recorder:
        x = torch.randn(8, 8, device="cuda", requires_grad=True)
        for _ in range(4):  # the fuser comes in after two calls
            gate(x, x).sum().backward()
    assert len(Recording(tmp_path / "x").calls("tanh")) == 4
    assert [text for code, text in recorder.notes if code == "script"] == [
        "TorchScript's gate was recorded operator by operator; on a GPU some may be fused"
    ]
    assert fuses == (torch._C._jit_can_fuse_on_gpu(), torch._C._jit_texpr_fuser_enabled())


def test_types_that_carry_the_device(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        y = torch.ones(3).type("torch.cuda.HalfTensor")
        assert (y.device.type, y.dtype) == ("cuda", torch.float16)
        assert y.type(torch.cuda.DoubleTensor).dtype is torch.float64
        assert y.type(torch.int8).dtype is torch.int8
        assert torch.ones(3).type() == "torch.FloatTensor"
    assert len(Recording(tmp_path / "x").calls("_to_copy")) == 3


def test_grid_sampler_is_cudnns(tmp_path: Path) -> None:
    """Its results are contiguous, and so must be the grid, which is copied for each kernel."""
    with memestimate.record(tmp_path / "x"):
        images = torch.randn(2, 3, 8, 8, device="cuda", requires_grad=True)
        grid = torch.rand(2, 2, 4, 5, device="cuda").permute(0, 2, 3, 1)
        out = nn.functional.grid_sample(images, grid, align_corners=True)
        assert out.shape == (2, 3, 4, 5)
        out.sum().backward()
        assert images.grad is not None
        assert images.grad.shape == images.shape
    recording = Recording(tmp_path / "x")
    names = [call[0] for call in recording.calls()]
    assert names.index("clone") == names.index("cudnn_grid_sampler") - 1
    assert "cudnn_grid_sampler_backward" in names


def test_ctc_loss_keeps_its_states(tmp_path: Path) -> None:
    """A log probability for each label and the blanks around them; backward has as many of its own."""
    with memestimate.record(tmp_path / "x"):
        scores = torch.randn(50, 4, 20, device="cuda", requires_grad=True)
        targets = torch.randint(1, 20, (4, 10)).cuda()
        lengths = torch.full((4,), 50), torch.tensor([5, 6, 7, 8])
        nn.functional.ctc_loss(scores.log_softmax(2), targets, *lengths, zero_infinity=True).backward()
        assert scores.grad is not None
    recording = Recording(tmp_path / "x")
    (call,) = recording.calls("_ctc_loss")
    shapes = [recording.tables["meta"][int(result.split(":")[1])][1] for result in call[2]]
    assert shapes == [[4], [4, 50, 17]]
    names = [call[0] for call in recording.calls()]
    assert names.index("_ctc_loss_backward") == names.index("empty_like") + 1


def test_ctc_loss_of_cudnn(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        scores = torch.randn(50, 4, 20, device="cuda", requires_grad=True)
        lengths = torch.full((4,), 50, dtype=torch.int32), torch.full((4,), 7, dtype=torch.int32)
        targets = torch.randint(1, 20, (28,), dtype=torch.int32)
        on_gpu = [t.cuda() for t in (targets, *lengths)]
        nn.functional.ctc_loss(scores.log_softmax(2), *on_gpu).backward()
    names = [call[0] for call in Recording(tmp_path / "x").calls()]
    assert "_cudnn_ctc_loss" in names
    assert "_ctc_loss" not in names


def test_sparse_tensors_are_their_values_and_indices(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        torch.eye(12).to_sparse().cuda()
        table = nn.Embedding(1000, 8, sparse=True).cuda()
        table(torch.arange(5).cuda()).square().sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad.layout is torch.sparse_coo
    recording = Recording(tmp_path / "x")
    copied = [event[1:] for event in recording.of("alloc")][:2]
    assert copied == [[12 * 4], [2 * 12 * 8]]
    kept = {serial for serial, kind, _ in recording.of("is") if kind == "gradient"}
    assert {size for serial, size in recording.of("alloc") if serial in kept} == {5 * 8 * 4, 5 * 8}
    assert all(len(sizes) == len(strides) for _, sizes, strides, _ in recording.tables["meta"])


def test_sparse_gradients_of_bags(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        table = nn.EmbeddingBag(1000, 8, sparse=True, mode="sum").cuda()
        table(torch.arange(5).cuda(), torch.tensor([0, 2]).cuda()).square().sum().backward()
    recording = Recording(tmp_path / "x")
    kept = {serial for serial, kind, _ in recording.of("is") if kind == "gradient"}
    assert {size for serial, size in recording.of("alloc") if serial in kept} == {5 * 8 * 4, 5 * 8}

"""What published models do beside layers and steps: data of tensors on the host, sparse gradients, TorchScript."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import memestimate
from memestimate.ops.bilinear import trilinear
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


def test_products_of_sparse_and_dense(tmp_path: Path) -> None:
    """SparseCUDATensorMath.cu: a zeroed start, the result, rows and columns in 32 bits, the result by columns."""
    with memestimate.record(tmp_path / "x"):
        graph = torch.eye(300).to_sparse().coalesce().cuda()
        x = torch.randn(300, 7, device="cuda", requires_grad=True)
        out = torch.spmm(graph, x)
        assert (out.shape, out.device.type, out.requires_grad) == ((300, 7), "cuda", True)
        out.sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
        assert torch.sparse.mm(graph, x).shape == (300, 7)
        assert torch.addmm(out, graph, x).shape == (300, 7)
        assert torch.mv(graph, x[:, 0]).shape == (300,)
    recording = Recording(tmp_path / "x")
    names = [call[0] for call in recording.calls() if call[0] not in ("select", "t", "transpose")]
    first = names.index("zeros")
    assert names[first : first + 7] == ["zeros", "empty", "empty", "empty_like", "copy_", "empty_like", "copy_"]
    assert names[first + 7 : first + 11] == ["zero_", "clone", "empty", "copy_"]
    sizes = [size for _, size in recording.of("alloc")]
    start = sizes.index(300 * 7 * 4, sizes.index(300 * 7 * 4) + 1)
    product = [300 * 7 * 4, 300 * 7 * 4, 301 * 4, 300 * 4, 300 * 4, 300 * 7 * 4, 2 * 4]
    assert sizes[start : start + 7] == product
    assert 2 * 300 * 8 in sizes[start + 7 :]  # backward transposes a copy, and sorts it


def test_duplicates_leave_a_sparse_tensor_when_it_is_sorted(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        places = torch.zeros(2, 50, dtype=torch.int64)
        places[:, 0] = 1
        graph = torch.sparse_coo_tensor(places, torch.ones(50), (4, 4)).cuda()
        x = torch.randn(4, 3, device="cuda")
        assert torch.mm(graph, x).shape == (4, 3)
        assert torch.mm(x.t(), graph).shape == (3, 4)
    recording = Recording(tmp_path / "x")
    sizes = [size for _, size in recording.of("alloc")]
    assert sizes.count(2 * 2 * 8) == 2  # indices of two distinct places, once each product
    assert sizes.count(2 * 50 * 8) == 1 + 1 + 2  # of the host, transposed, and scaled for each sort


@pytest.mark.parametrize("real", [False, True])
def test_sparse_tensors_are_scaled(tmp_path: Path, real: bool) -> None:
    """intersection_binary_op_sparse_dense_out: a copy of the places, and a product for each value."""
    places, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([1.0, 2.0, 3.0])
    graph, column = torch.sparse_coo_tensor(places, values, (2, 3)), torch.tensor([[2.0], [4.0]])
    wanted = [graph * 2.0, 2.0 * graph, graph / 2.0, graph * column, graph.clone().mul_(2.0), graph.clone().div_(4.0)]
    with memestimate.record(tmp_path / "x", real=real) as recorder:
        x, by = torch.sparse_coo_tensor(places.cuda(), values.cuda(), (2, 3)), column.cuda()
        before = recorder.storages.allocated
        found = [x * 2.0, 2.0 * x, x / 2.0, x * by]
        assert recorder.storages.allocated == before + 4 * 1024
        found += [x.clone().mul_(2.0), x.clone().div_(4.0)]
        assert all(y.layout is torch.sparse_coo and y.shape == (2, 3) and y._nnz() == 3 for y in found)
        if recorder.values.real is not None:
            for y, dense in zip(found, wanted, strict=True):
                assert torch.equal(recorder.values.real.of(y).to_dense(), dense.to_dense())
        with pytest.raises(RuntimeError, match="by dense ones that it holds can"):
            torch.ones(5, 2, 3, device="cuda") * x


def test_products_of_other_layouts_are_refused(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        graph = torch.eye(4).to_sparse().cuda()
        with pytest.raises(RuntimeError, match="a product of sparse_coo and sparse_coo matrices cannot be recorded"):
            torch.mm(graph, graph)


def test_bilinear_products_are_linear_cpps() -> None:
    torch.manual_seed(0)
    i1, weight, i2, grad = torch.randn(5, 3), torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(5, 2)
    for args in (
        (i1, weight, i2, [1, 3], [0], [1, 2], [2, 3]),
        (grad, weight, i2, [2, 3], [0], [1, 2], [1, 3]),
        (i1, grad, i2, [1, 3], [2, 3], [1, 2], [0]),
        (i1, weight, grad, [1, 3], [0], [2, 3], [1, 2]),
    ):
        torch.testing.assert_close(trilinear(*args), torch.ops.aten._trilinear.default(*args))


def test_gradients_of_bilinear_layers_are_taken_apart(tmp_path: Path) -> None:
    """Linear.cpp: an input's gradient takes the weight of one output for all of the batch at once."""
    with memestimate.record(tmp_path / "x"):
        layer = nn.Bilinear(16, 24, 1).cuda()
        x = torch.randn(10, 16, device="cuda", requires_grad=True)
        layer(x, torch.randn(10, 24, device="cuda")).sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape
        assert layer.weight.grad is not None
        assert layer.weight.grad.shape == layer.weight.shape
    recording = Recording(tmp_path / "x")
    assert not recording.calls("_trilinear")
    assert recording.calls("bmm")
    assert 10 * 16 * 24 * 4 in {size for _, size in recording.of("alloc")}


def test_what_decides_the_order_of_contractions_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("torch.backends.opt_einsum"), "enabled", False)
    with memestimate.record(tmp_path / "x") as recorder:
        a, b, c = (torch.randn(4, 4, device="cuda") for _ in range(3))
        torch.einsum("ij,jk->ik", a, b)
        assert recorder.notes == []
        torch.einsum("ij,jk,kl->il", a, b, c)
    assert [code for code, _ in recorder.notes] == ["einsum"]
    assert "3 operands" in recorder.notes[0][1]


def test_profilers_ask_no_driver(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without the GPU's part: its stand-in warns of each call, with a stack of C++."""
    from torch.profiler import ProfilerActivity, profile

    with memestimate.record(tmp_path / "x.mrec") as rec:
        layer = nn.Linear(64, 64).cuda()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            layer(torch.randn(8, 64, device="cuda")).sum().backward()
            profiler.step()
        profiler.key_averages().table(sort_by="cuda_time_total")
        with profile(), torch.cuda.nvtx.range("forward"):
            layer(torch.randn(8, 64, device="cuda"))
        torch.cuda.profiler.start()
    assert [code for code, _ in rec.notes] == ["profiler"]
    assert "Failed to record" not in capfd.readouterr().err
    assert len(Recording(tmp_path / "x.mrec").calls("addmm")) == 2

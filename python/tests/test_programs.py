"""Every program in `programs` records."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import memestimate
from recording import Recording

Program = Callable[..., Iterator[None]]
FILES = ("functional", "equations", "training", "optimizing", "autograd", "sequences", "vision", "graphs", "serving")
SLOW = {"transducer", "maml", "generation", "trainer", "kalman"}  # thousands of calls


def programs() -> dict[str, Program]:
    modules = [importlib.import_module(f"programs.{name}") for name in FILES]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isgeneratorfunction(value) and value.__module__ == module.__name__
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(programs()) - SLOW))
def test_program(tmp_path: Path, name: str) -> None:
    if name in ("faster_rcnn", "retinanet", "deformable", "style_transfer"):
        pytest.importorskip("torchvision")
    with memestimate.record(tmp_path / "x") as recorder:
        steps = programs()[name]()
        next(steps)
        ready = recorder.storages.highest
        next(steps)
        assert recorder.storages.highest > ready
        steps.close()
    recording = Recording(tmp_path / "x")
    assert recording.peak() == recorder.storages.highest
    assert len(recording.calls()) > 10


@pytest.mark.filterwarnings("ignore")
def test_batch_norm_across_processes(tmp_path: Path) -> None:
    import torch.distributed as dist

    with memestimate.record(tmp_path / "x", world_size=2) as recorder:
        dist.init_process_group("nccl")
        net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(torch.ones(2, 3, 8, 8, device="cuda")).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        gathered = [None, None]
        dist.all_gather_object(gathered, {"rank": dist.get_rank()})
        assert gathered == [{"rank": 0}] * 2
        dist.destroy_process_group()
    assert recorder.steps == 2
    recording = Recording(tmp_path / "x")
    for name in ("stats", "gather_stats_with_counts", "elemt", "backward_reduce", "backward_elemt"):
        assert len(recording.calls(f"batch_norm_{name}")) == 2
    assert not list(recording.of("depends"))  # every process has samples


@pytest.mark.filterwarnings("ignore")
def test_batch_norm_across_processes_has_values(tmp_path: Path) -> None:
    """They are those of one process, where all have the same samples; sums over processes are this one's."""
    import torch.distributed as dist

    torch.manual_seed(0)
    x = torch.randn(4, 8, 5, 5)
    plain = nn.BatchNorm2d(8)
    nn.init.uniform_(plain.weight)
    kept = copy.deepcopy(plain)
    out = plain(x)
    weights = torch.randn_like(out)
    (out * weights).sum().backward()
    with memestimate.record(tmp_path / "x", world_size=2, real=True) as recorder:
        dist.init_process_group("nccl")
        net = nn.SyncBatchNorm.convert_sync_batchnorm(kept).cuda()
        found = net(x.cuda().requires_grad_())
        (found * weights.cuda()).sum().backward()
        real = recorder.values.real
        assert real is not None
        assert torch.allclose(real.of(found), out, atol=1e-5)
        for tensor, want in zip([net.weight, net.bias], [plain.weight, plain.bias], strict=True):
            assert tensor.grad is not None
            assert want.grad is not None
            assert torch.allclose(real.of(tensor.grad), want.grad, atol=1e-4)
        assert torch.allclose(real.of(net.running_mean), plain.running_mean, atol=1e-5)
        gathered = [torch.zeros(2, device="cuda") for _ in range(2)]
        dist.all_gather(gathered, torch.arange(2.0, device="cuda"))
        assert [t.tolist() for t in gathered] == [[0.0, 1.0]] * 2
        dist.destroy_process_group()
    assert "real" not in [code for code, _ in recorder.notes]


def test_a_graph_has_memory_of_its_own(tmp_path: Path) -> None:
    """What is captured is on a stream that nothing else is on; a replay takes nothing."""
    with memestimate.record(tmp_path / "x") as recorder:
        x = torch.ones(1000, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            assert torch.cuda.is_current_stream_capturing()
            y = x * 2
        assert not torch.cuda.is_current_stream_capturing()
        before = recorder.storages.allocated
        graph.replay()
        assert recorder.storages.allocated == before
        del y
    assert torch.cuda.graph.default_capture_stream is None
    recording = Recording(tmp_path / "x")
    streams = [number for (number,) in recording.of("stream")]
    assert len(streams) == 1
    assert streams[0] > 0
    assert (streams[0],) in [tuple(row) for row in recording.of("pool")]


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: object, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * torch.tensor(2.0, device="cuda")


def test_a_tensor_is_made_in_backward(tmp_path: Path) -> None:
    """On autograd's own thread, too, it comes from the host."""
    with memestimate.record(tmp_path / "x"):
        x = torch.ones(4, device="cuda", requires_grad=True)
        Scale.apply(x).sum().backward()  # type: ignore[no-untyped-call]
        assert x.grad is not None
    assert Recording(tmp_path / "x").calls("_to_copy")


def test_a_lazy_layer_is_on_the_gpu_once_it_has_a_shape(tmp_path: Path) -> None:
    net = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d())
    with memestimate.record(tmp_path / "x"):
        net.cuda()
        net(torch.ones(5, 4, device="cuda")).sum().backward()
        assert all(t.device.type == "cuda" for t in [*net.parameters(), *net.buffers()])
    assert all(t.device.type == "cpu" for t in [*net.parameters(), *net.buffers()])
    assert net[0].weight.shape == (8, 4)


def test_what_decides_alone_is_known(tmp_path: Path) -> None:
    """A loop that ends where all are done ends, though some are done for reasons that nobody knows."""
    with memestimate.record(tmp_path / "x"):
        unknown = torch.rand(3, device="cuda") > 0.5
        left = torch.ones(3, dtype=torch.long, device="cuda") & unknown
        done = unknown | torch.full((3,), True, device="cuda")
        assert bool(done.all())
        assert (left & ~done).max() == 0


def test_kernels_of_attention_can_be_asked_for(tmp_path: Path) -> None:
    from torch.backends import cuda

    with memestimate.record(tmp_path / "x"):
        q = torch.ones(1, 4, 16, 64, device="cuda", dtype=torch.bfloat16)
        asked = cuda.SDPAParams(q, q, q, None, 0.0, True, False)
        assert cuda.can_use_flash_attention(asked)
        assert cuda.can_use_efficient_attention(asked)
        full = q.float()
        assert not cuda.can_use_flash_attention(cuda.SDPAParams(full, full, full, None, 0.0, True, False))


class Cell(torch.jit.ScriptModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 8)
        self.register_buffer("scale", torch.ones(8))

    @torch.jit.script_method
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x)) * self.scale


@pytest.mark.filterwarnings("ignore")
def test_a_script_module_goes_to_the_gpu_and_comes_back(tmp_path: Path) -> None:
    net = Cell()
    before = net.layer.weight.detach().clone()
    with memestimate.record(tmp_path / "x") as recorder:
        net.cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(torch.ones(3, 4, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert all(t.device.type == "cuda" for t in [*net.parameters(), *net.buffers()])
    assert recorder.steps == 2
    assert torch.equal(net.layer.weight, before)
    assert net.scale.device.type == "cpu"
    assert net.layer._c.getattr("weight").device.type == "cpu"


@pytest.mark.parametrize("real", [False, True])
def test_a_sparse_gradient_is_put_in_order(tmp_path: Path, real: bool) -> None:
    """Rows that come twice are summed by SparseAdam, and added one by one by SGD."""
    ids = torch.tensor([3, 1, 3, 0])
    wanted = nn.Embedding(5, 4, sparse=True)
    given = copy.deepcopy(wanted).cpu()
    factor = torch.arange(16.0).view(4, 4)
    (wanted(ids) * factor).sum().backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(wanted.parameters(), lr=0.5).step()
    with memestimate.record(tmp_path / "x", real=real) as recorder:
        net = given.cuda()
        optimizers = [torch.optim.SGD(net.parameters(), lr=0.5), torch.optim.SparseAdam(list(net.parameters()))]
        (net(ids.cuda()) * factor.cuda()).sum().backward()
        assert net.weight.grad is not None
        assert not net.weight.grad.is_coalesced()
        optimizers[0].step()
        if recorder.values.real is not None:
            assert torch.allclose(recorder.values.real.of(net.weight), wanted.weight)
        ordered = net.weight.grad.coalesce()
        assert ordered.is_coalesced()
        assert ordered._values().shape == (3, 4)
        if recorder.values.real is not None:
            assert wanted.weight.grad is not None
            assert torch.equal(recorder.values.real.of(ordered).to_dense(), wanted.weight.grad.to_dense())
        optimizers[1].step()
    assert not [code for code, _ in recorder.notes if code == "real"]
    assert len(Recording(tmp_path / "x").calls("index_add_")) == 4  # SparseAdam makes three that are in no order


def test_a_sparse_product_has_values(tmp_path: Path) -> None:
    matrix = torch.sparse_coo_tensor(torch.tensor([[0, 2, 2], [1, 0, 0]]), torch.tensor([1.0, 2.0, 3.0]), (3, 3))
    dense = torch.arange(6.0).view(3, 2).requires_grad_()
    wanted = torch.sparse.mm(matrix, dense)
    wanted.square().sum().backward()
    with memestimate.record(tmp_path / "x", real=True) as recorder:
        x = dense.detach().cuda().requires_grad_()
        out = torch.sparse.mm(matrix.cuda(), x)
        out.square().sum().backward()
        assert recorder.values.real is not None
        assert x.grad is not None
        assert dense.grad is not None
        assert torch.equal(recorder.values.real.of(out), wanted)
        assert torch.equal(recorder.values.real.of(x.grad), dense.grad)

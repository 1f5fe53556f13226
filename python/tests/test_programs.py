"""Every program in `programs` records."""

from __future__ import annotations

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
        ready = recorder.storages.peak
        next(steps)
        assert recorder.storages.peak > ready
        steps.close()
    recording = Recording(tmp_path / "x")
    assert recording.peak() == recorder.storages.peak
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
    streams = [number for (number,) in Recording(tmp_path / "x").of("stream")]
    assert len(streams) == 1
    assert streams[0] > 0


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

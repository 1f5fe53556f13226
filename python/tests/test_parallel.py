"""Distributed steps of which one rank runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import memestimate
from recording import Recording

WIDTH = 512


@pytest.fixture
def rec(tmp_path: Path) -> Iterator[memestimate.Recorder]:
    with memestimate.record(tmp_path / "x.mrec", world_size=4) as recorder:
        dist.init_process_group("nccl")
        yield recorder
        dist.destroy_process_group()


def net() -> nn.Sequential:
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)]).cuda()


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(8, WIDTH, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_ddp_keeps_buckets(rec: memestimate.Recorder) -> None:
    model = DistributedDataParallel(net(), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model, optimizer)
    step(model, optimizer)
    weights = 4 * WIDTH * WIDTH * 4
    assert dist.get_world_size() == 4
    assert 2 * weights <= rec.storages.allocated < 2 * weights + (1 << 16)  # parameters and the reducer's buckets
    rec.writer._flush()


def test_zero_keeps_a_quarter_of_the_state(rec: memestimate.Recorder) -> None:
    model = net()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    step(model, optimizer)
    weights = 4 * WIDTH * WIDTH * 4
    assert rec.storages.allocated == weights + 2 * weights // 4


def test_fsdp_gathers_and_frees(rec: memestimate.Recorder, tmp_path: Path) -> None:
    model = net()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    assert rec.storages.allocated < WIDTH * WIDTH * 4 * 4 // 2
    step(model, optimizer)
    step(model, optimizer)
    rec.stop()
    rec.stop = lambda keep: None  # type: ignore[method-assign]
    recording = Recording(tmp_path / "x.mrec")
    assert {size for _, size in recording.of("resize")} >= {0, WIDTH * WIDTH * 4}
    assert len({number for (number,) in recording.of("stream")}) > 1
    current, gathered = 0, set()
    for word, *rest in recording.events:
        if word == "stream":
            (current,) = rest
        elif word == "resize" and rest[1] > 0:
            gathered.add(current)
    assert gathered == {0}  # whole parameters are the default stream's, as FSDPParam.alloc_all_gather_outputs has it
    names = {call[0] for call in recording.calls()}
    assert "c10d::_allgather_base_" in names
    assert "c10d::_reduce_scatter_base_" in names


@pytest.mark.parametrize("setting", ["static_graph", "find_unused_parameters"])
def test_ddp_looks_for_what_is_not_used(rec: memestimate.Recorder, setting: str) -> None:
    """It copies a map of parameters through pinned memory (`Reducer::all_reduce_local_used_map`)."""
    model = DistributedDataParallel(net(), device_ids=[0], **{setting: True})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        step(model, optimizer)
    weights = 4 * WIDTH * WIDTH * 4
    assert 2 * weights <= rec.storages.allocated < 2 * weights + (1 << 16)


@pytest.mark.parametrize("reentrant", [False, True])
def test_ddp_of_a_static_graph(rec: memestimate.Recorder, tmp_path: Path, reentrant: bool) -> None:
    """It reduces the first gradients at the end of backward, beside which they are, and makes its buckets anew last.

    Its old buckets were there in the third step in nine of ten measured ranks: docs/accuracy.md.
    """
    seen: list[int] = []

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(rec.storages.allocated)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=True) if reentrant else layer(x)
            return x

    model = DistributedDataParallel(Net(), device_ids=[0], static_graph=True, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    peaks, ends = [], []
    for _ in range(4):
        torch.cuda.reset_peak_memory_stats()
        x = torch.randn(8, WIDTH, device="cuda", requires_grad=True)
        model(x).sum().backward()
        ends.append(rec.storages.allocated)
        optimizer.step()
        optimizer.zero_grad()
        peaks.append(rec.storages.levels[0].peak)
        del x
    weights = 4 * WIDTH * WIDTH * 4

    def times(sizes: list[int]) -> list[int]:
        return [size // weights for size in sizes]

    assert times(seen) == [2, 2, 3, 2]
    assert times(ends) == [2, 2, 2, 2]
    assert times(peaks) == [3, 2, 3, 2]
    assert [code for code, _ in rec.notes].count("buckets") == 1
    rec.writer._flush()


@pytest.mark.filterwarnings("ignore")
def test_fsdp1_moves_and_shards_what_is_on_the_host(rec: memestimate.Recorder) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    layers = [FullyShardedDataParallel(nn.Linear(WIDTH, WIDTH, bias=False), device_id=0) for _ in range(4)]
    model = FullyShardedDataParallel(nn.Sequential(*layers), device_id=0)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        step(model, optimizer)
    quarter = WIDTH * WIDTH * 4  # a fourth of four layers
    assert 3 * quarter <= rec.storages.allocated < 4 * quarter  # parameters and two states


def test_what_others_send_has_values(tmp_path: Path) -> None:
    """Each process is taken to send what this one, rank 1 here, sends itself."""
    with memestimate.record(tmp_path / "x.mrec", world_size=2, rank=1, real=True) as recorder:
        dist.init_process_group("nccl")
        given = torch.arange(4.0, device="cuda")
        results = [torch.empty(4, device="cuda"), torch.empty(2, device="cuda"), torch.empty(6, device="cuda")]
        dist.all_to_all_single(results[0], given)
        dist.reduce_scatter_tensor(results[1], given)
        dist.all_to_all_single(results[2], given, output_split_sizes=[3, 3], input_split_sizes=[1, 3])
        wanted = [[2.0, 3.0, 2.0, 3.0], [2.0, 3.0], [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]]
        assert [t.tolist() for t in results] == wanted
        assert recorder.values.real is not None
        dist.destroy_process_group()


def test_as_many_tokens_come_as_go(rec: memestimate.Recorder) -> None:
    """Where a router's tokens are spread evenly over the experts, the other processes' are, too."""
    chosen = nn.Linear(16, 8).cuda()(torch.randn(1000, 16, device="cuda")).softmax(-1).topk(2).indices.flatten()
    counts = torch.bincount(chosen, minlength=8)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    assert counts.tolist() == [250] * 8
    assert theirs.view(4, 2).sum(1).tolist() == [500] * 4


def test_what_another_process_says_is_not_known(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x", world_size=2, rank=1) as recorder:
        dist.init_process_group("nccl")
        with pytest.raises(RuntimeError, match="what rank 0 sends rank 1 is not known: record the script by"):
            dist.recv_object_list([None], src=0)
        length = torch.tensor(-1, device="cuda")
        assert length.item() == -1
        dist.broadcast(length, src=1)
        assert length.item() == -1
        dist.broadcast(length, src=0)
        assert length.item() != -1
        error = RuntimeError("they differ")
        recorder.explain(error)
        assert any("rank 0 broadcast values that rank 1" in note for note in error.__notes__)
        dist.destroy_process_group()


def test_one_process_on_several_gpus_is_told_what_to_do(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x") as recorder:
        assert nn.DataParallel(nn.Linear(4, 4)).cuda()(torch.ones(2, 4, device="cuda")).shape == (2, 4)
        assert [text for code, text in recorder.notes if code == "gpus"] == [
            "nn.DataParallel takes all GPUs that it sees, and was recorded with one: --gpus N for more"
        ]
    with memestimate.record(tmp_path / "x", world_size=2):
        net = nn.DataParallel(nn.Linear(4, 4)).cuda()
        with pytest.raises(NotImplementedError, match="without --world-size and with --gpus 2"):
            net(torch.ones(2, 4, device="cuda"))

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

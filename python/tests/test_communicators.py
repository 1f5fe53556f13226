"""NCCL's communicators, as a program's process groups make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import memestimate
from recording import Recording


def recorded(path: Path, body: Any, *, at_once: bool, rank: int = 0) -> list[list[Any]]:
    """Lines about communicators of four processes: their ranks, or a number, how they connect, and to whom."""
    with memestimate.record(path, world_size=4, rank=rank):
        dist.init_process_group("nccl", **({"device_id": torch.device("cuda", 0)} if at_once else {}))
        body(torch.ones(4, device="cuda"))
        dist.destroy_process_group()
    lines = Recording(path).events
    assert [line for line in lines if line[0] == "nccl"] == [["nccl", 4, -1, -1, True]]
    return [line[1:] for line in lines if line[0] in ("communicator", "connect")]


def test_a_group_that_runs_nothing_has_a_communicator_only_where_all_are_made_at_once(tmp_path: Path) -> None:
    def body(x: torch.Tensor) -> None:
        dist.new_group([0, 1])
        dist.new_group([2, 3])
        for _ in range(2):
            dist.all_reduce(x)

    assert recorded(tmp_path / "x.mrec", body, at_once=False) == [[[0, 1, 2, 3]], [0, "ring", []]]
    assert recorded(tmp_path / "x.mrec", body, at_once=True) == [[[0, 1, 2, 3]], [[0, 1]], [0, "ring", []]]


def test_groups_of_another_backend_have_none(tmp_path: Path) -> None:
    def body(x: torch.Tensor) -> None:
        group = dist.new_group([0, 1], backend="gloo")
        dist.barrier(group)
        dist.all_gather_object([None] * 2, "a", group)
        host = torch.ones(2)
        dist.all_reduce(host, group=group)
        dist.all_reduce(x, group=dist.new_group([0, 1], backend="cpu:gloo,cuda:nccl"))

    assert recorded(tmp_path / "x.mrec", body, at_once=False) == [[[0, 1]], [0, "ring", []]]


@pytest.mark.parametrize("rank", [0, 2])
def test_what_is_sent_alone_has_a_communicator_of_the_two(tmp_path: Path, rank: int) -> None:
    peer = 2 - rank

    def body(x: torch.Tensor) -> None:
        (dist.send if rank == 0 else dist.recv)(x, peer)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, x.clone(), peer)]):
            work.wait()

    how = "send" if rank == 0 else "receive"
    alone = [[[0, 2]], [0, how, [peer]], [[0, 1, 2, 3]], [1, "send", [peer]], [1, "receive", [peer]]]
    assert recorded(tmp_path / "x.mrec", body, at_once=False, rank=rank) == alone
    assert [line[-1] for line in recorded(tmp_path / "x.mrec", body, at_once=True, rank=rank)] == [
        [0, 1, 2, 3],
        [peer],
        [peer],
    ]


def test_experts_connect_with_all_and_a_root_with_each(tmp_path: Path) -> None:
    def body(x: torch.Tensor) -> None:
        dist.all_to_all_single(torch.empty_like(x), x)
        dist.gather(x, [torch.empty_like(x) for _ in range(4)], group=dist.new_group(range(4)))
        dist.scatter(x, src=2, group=dist.new_group([0, 2]))

    others = [1, 2, 3]
    want = [[[0, 1, 2, 3]], [0, "send", others], [0, "receive", others], [[0, 1, 2, 3]], [1, "receive", others]]
    assert recorded(tmp_path / "x.mrec", body, at_once=False) == [*want, [[0, 2]], [2, "receive", [2]]]


def test_an_all_to_all_connects_those_that_get_something(tmp_path: Path) -> None:
    def body(x: torch.Tensor) -> None:
        dist.all_to_all_single(torch.empty_like(x), x, [0, 0, 0, 4], [0, 4, 0, 0])  # as ring attention does

    want = [[[0, 1, 2, 3]], [0, "send", [1]], [0, "receive", [3]]]
    assert recorded(tmp_path / "x.mrec", body, at_once=False) == want


def test_a_mesh_and_its_tensors(tmp_path: Path) -> None:
    def body(x: torch.Tensor) -> None:
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("a", "b"))
        shards = distribute_tensor(torch.ones(4, 4, device="cuda"), mesh["b"], [Shard(0)])
        shards.redistribute(mesh["b"], [Replicate()])

    assert [0, "ring", []] in recorded(tmp_path / "x.mrec", body, at_once=False)
    assert recorded(tmp_path / "x.mrec", body, at_once=False)[0] == [[0, 1]]


def test_settings_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BUFFSIZE": "1048576", "MAX_NCHANNELS": "4", "P2P_DISABLE": "1"}.items():
        monkeypatch.setenv(f"NCCL_{name}", value)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with memestimate.record(tmp_path / "x.mrec", world_size=4):
        dist.init_process_group("nccl")
        dist.destroy_process_group()
    assert ["nccl", 2, 1048576, 4, False] in Recording(tmp_path / "x.mrec").events

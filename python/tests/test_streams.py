"""What a program asks of the pretended GPU's streams."""

from __future__ import annotations

from pathlib import Path

import torch

import memestimate
from recording import Recording


def test_a_stream_says_whether_a_graph_is_being_captured(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec"):
        assert torch.cuda.current_stream().is_capturing() is False
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            assert torch.cuda.current_stream().is_capturing() is torch.cuda.is_current_stream_capturing()


def test_a_pool_of_the_programs_own_is_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "x.mrec"
    with memestimate.record(path):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = torch.empty(1024, device="cuda")
        outside = torch.empty(2048, device="cuda")
        assert pool.id != torch.cuda.MemPool().id
    assert inside.is_cuda
    assert outside.is_cuda
    events = [event for event in Recording(path).events if event[0] in ("pool", "stream", "alloc")]
    words = [event[0] for event in events]
    assert words.index("pool") < words.index("stream") < words.index("alloc")
    assert [event[2] for event in events if event[0] == "alloc"] == [4096, 8192]
    assert words[words.index("alloc") + 1] == "stream"  # back in the default one

"""What a program asks of the pretended GPU's streams."""

from __future__ import annotations

from pathlib import Path

import torch

import memestimate


def test_a_stream_says_whether_a_graph_is_being_captured(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec"):
        assert torch.cuda.current_stream().is_capturing() is False
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            assert torch.cuda.current_stream().is_capturing() is torch.cuda.is_current_stream_capturing()

"""Scripted functions: what the fuser's kernels keep for the backward pass beside what the operators do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import memestimate
from recording import Recording


def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.5, 1) * torch.sigmoid(y + 1.0)


class Gate(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return gate(x, y)


def copies(folder: Path, function: Callable[..., torch.Tensor], *, amp: bool = True, grad: bool = True) -> list[int]:
    """How many copies of float32 the forward pass of each of three calls makes."""
    with memestimate.record(folder / "x.mrec") as recorder:
        x, y = (torch.randn(4, 1024, device="cuda", requires_grad=True) for _ in range(2))
        for _ in range(3):
            with torch.autocast("cuda", torch.bfloat16, enabled=amp), torch.set_grad_enabled(grad):
                function(x, y)
            recorder.step()
    recording, counts = Recording(folder / "x.mrec"), [0]
    clone = [op[0] for op in recording.tables["op"]].index("aten::clone") if recording.calls("clone") else -1
    for word, *rest in recording.events:
        if word == "step":
            counts.append(0)
        elif word == "call" and rest[0] == clone:
            counts[-1] += 1
    return counts[:3]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("of_module", [False, True])
def test_casts_of_a_fused_kernel_have_memory_of_their_own(tmp_path: Path, of_module: bool) -> None:
    def made() -> Callable[..., torch.Tensor]:
        return torch.jit.script(Gate()).forward if of_module else torch.jit.script(gate)

    profiled, *optimized = copies(tmp_path, made())
    assert profiled == 0
    assert optimized[0] >= 2
    assert optimized[0] == optimized[1]
    assert copies(tmp_path, made(), amp=False) == [0, 0, 0]
    assert copies(tmp_path, made(), grad=False) == [0, 0, 0]
    assert copies(tmp_path, gate) == [0, 0, 0]

"""Products that PyTorch has no rule for: those with a type of their own for the result."""

from __future__ import annotations

from pathlib import Path

import torch

import memestimate
from recording import Recording


def test_products_with_a_type_of_their_own(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        left, right = torch.ones(4, 6, device="cuda").half(), torch.ones(6, 8, device="cuda").half()
        bias, biases = torch.ones(8, device="cuda"), torch.ones(2, 4, 8, device="cuda")
        out = torch.addmm(bias, left, right, out_dtype=torch.float32)
        batch = torch.baddbmm(biases, left.expand(2, 4, 6), right.expand(2, 6, 8), out_dtype=torch.float32, beta=0.5)
        assert (out.shape, out.dtype) == ((4, 8), torch.float32)
        assert (batch.shape, batch.dtype) == ((2, 4, 8), torch.float32)
        held = torch.cuda.memory_allocated()
        assert torch.addmm(out, left, right, out_dtype=torch.float32, out=out) is out
        assert torch.cuda.memory_allocated() == held
    recording = Recording(tmp_path / "a.mrec")
    assert (len(recording.calls("addmm")), len(recording.calls("baddbmm"))) == (2, 1)

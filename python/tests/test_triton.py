"""Triton's kernels on the pretended GPU: launches take nothing, autotuners hold a buffer while they time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import memestimate
from recording import Recording

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402


@triton.jit
def _add_one(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = x_ptr + at
    to = out_ptr + at
    tl.store(to, tl.load(row, mask=at < n) + 1, mask=at < n)


_tuned = triton.autotune(
    configs=[triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})], key=["n"], restore_value=["x_ptr"]
)(_add_one)
_chosen = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(_add_one)


def _state() -> list[Any]:
    driver, jit, tuner = triton.runtime.driver, triton.runtime.jit.JITFunction, triton.runtime.autotuner.Autotuner
    return [dict(vars(driver)), jit.run, tuner.run, vars(tuner)["do_bench"], triton.testing.do_bench]


def test_a_launch_is_a_call_that_takes_nothing(tmp_path: Path) -> None:
    before = _state()
    with memestimate.record(tmp_path / "a.mrec"):
        x = torch.zeros(1000, device="cuda")
        out = torch.empty_like(x)
        _add_one[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, out, 1000, BLOCK=256)
        _chosen[(1,)](x, out, n=1000)
        assert triton.runtime.driver.active.get_current_target().arch == 90
        with pytest.raises(TypeError, match="missing"):
            _add_one[(1,)](x, out, BLOCK=256)
    assert _state() == before
    recording = Recording(tmp_path / "a.mrec")
    [first, second] = recording.calls("triton::_add_one")
    assert first[1] == second[1]
    assert len(first[1]) == 2
    assert recording.peak() == 2 * 4096


def test_what_a_kernel_only_reads_stays_known(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        x = torch.tensor([3, 4, 5]).cuda()
        out = torch.zeros(3, dtype=torch.int64, device="cuda")
        _add_one[(1,)](x, out, 3, BLOCK=16)
        assert x.tolist() == [3, 4, 5]
        out.sum().item()
    recording = Recording(tmp_path / "a.mrec")
    asked = [event[2] for event in recording.events if event[:2] == ["note", "item"]]
    assert len(asked) == 1, "of what was written a plausible number is told"


def test_an_autotuner_holds_what_triton_holds_while_it_times(tmp_path: Path) -> None:
    for name in ("a", "b"):  # what the first recording has found is not known in the second
        with memestimate.record(tmp_path / f"{name}.mrec"):
            x = torch.zeros(1 << 20, device="cuda")
            _tuned[(1,)](x, torch.empty_like(x), 1 << 20)
            assert _tuned.best_config.kwargs == {"BLOCK": 256}
        recording = Recording(tmp_path / f"{name}.mrec")
        assert recording.peak() == (256 << 20) + 3 * (4 << 20), "the buffer, both tensors, and a copy of the one"
        assert len(recording.calls("triton::_add_one")) == 2 * 2 + 1
    assert not _tuned.cache


def test_a_kernel_that_is_compiled_before_is_compiled_for_the_pretended_gpu(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec", gpu="a100-80gb"):
        x = torch.zeros(1000, device="cuda")
        kernel = _add_one.warmup(x, x, 1000, BLOCK=256, grid=(1,))
        kernel._init_handles()
        assert kernel.metadata.target.arch == 80
        assert kernel.n_regs > 0
        kernel[(4, 1, 1)](x, x, 1000, 256)
        assert triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"] == 166912
    assert len(Recording(tmp_path / "a.mrec").calls("triton::_add_one")) == 1
    assert not _add_one.device_caches

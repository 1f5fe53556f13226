"""Operators that PyTorch knows nothing of: Python's run as they are, others are named with what settles them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import memestimate
from recording import Recording


@torch.library.custom_op("memestimate_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    scratch = torch.empty(x.numel() * 4, device=x.device)
    return x * factor + scratch[: x.numel()].view_as(x)


def test_an_operator_in_python_runs_as_it_is(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        x = torch.ones(1024, device="cuda")
        assert scaled(x, 2.0).shape == x.shape
    assert Recording(tmp_path / "a.mrec").peak() == 4096 * (1 + 4 + 2), "with what it allocates in between"


def test_an_operator_without_a_rule_is_named_with_its_cure(tmp_path: Path) -> None:
    library = torch.library.Library("memestimate_tests", "FRAGMENT")
    library.define("attend(Tensor q, Tensor k, float scale) -> (Tensor, Tensor)")
    attend = torch.ops.memestimate_tests.attend
    x = torch.ones(8, 16)
    with pytest.raises(RuntimeError) as raised, memestimate.record(tmp_path / "a.mrec"):
        attend(x.cuda(), x.cuda(), 0.5)
    assert "memestimate_tests.attend.default cannot be recorded" in str(raised.value)
    lines = str(raised.value).splitlines()[-3:]
    assert lines[0] == '@torch.library.register_fake("memestimate_tests::attend")'
    exec("\n".join(lines))  # it is Python, and it is enough
    with memestimate.record(tmp_path / "a.mrec"):
        first, second = attend(x.cuda(), x.cuda(), 0.5)
        assert first.shape == second.shape == x.shape
    assert len(Recording(tmp_path / "a.mrec").calls("memestimate_tests::attend")) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_compiled_code_that_is_no_operator_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as raised, memestimate.record(tmp_path / "a.mrec"):
        raise RuntimeError("Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor)")
    assert "register_fake" in raised.value.__notes__[-1]


def test_a_batch_is_keyword_arguments_where_forward_has_the_names(program: Path) -> None:
    class Model(torch.nn.Linear):
        def forward(self, input_ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return super().forward(input_ids)

    class Whole(torch.nn.Linear):
        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return super().forward(batch["x"])

    x = torch.ones(4, 64)
    by_name = memestimate.estimate(Model(64, 64), {"input_ids": x}).peak.allocated
    assert memestimate.estimate(Model(64, 64), kwargs={"input_ids": x}).peak.allocated == by_name
    assert memestimate.estimate(Whole(64, 64), {"x": x}).peak.allocated == by_name
    with pytest.raises(TypeError, match=r"forward\(\) has no tokens"):
        memestimate.estimate(Model(64, 64), {"tokens": x})

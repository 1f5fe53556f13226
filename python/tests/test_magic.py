"""``%%memestimate`` in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import memestimate
from recording import Recording

testing = pytest.importorskip("IPython.testing.globalipapp")

CELL = """
optimizer = torch.optim.SGD(model.to("cuda").parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.ones(8, 64, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def shell() -> Iterator[Any]:
    shell = testing.start_ipython() or testing.get_ipython()
    shell.run_line_magic("load_ext", "memestimate")
    shell.push({"torch": torch, "model": torch.nn.Linear(64, 64)})
    yield shell
    shell.reset(new_session=False)


@pytest.mark.usefixtures("program")
def test_a_cell_is_recorded(shell: Any, tmp_path: Path) -> None:
    """With what the notebook has; nothing pretended stays in it, and its own model is as it was."""
    path = tmp_path / "cell.mrec"
    answer = shell.run_cell_magic("memestimate", f"--gpu t4 -o {path}", CELL)
    assert isinstance(answer, memestimate.Estimate)
    assert answer.parameters == (64 * 64 + 64) * 4
    assert "<iframe" in answer._repr_html_()
    assert Recording(path).header["gpu"]["name"] == "t4"
    assert "optimizer" not in shell.user_ns
    assert {p.device.type for p in shell.user_ns["model"].parameters()} == {"cpu"}
    assert shell.run_cell_magic("memestimate", "--gpu t4", CELL).peak.allocated == answer.peak.allocated


@pytest.mark.usefixtures("program")
def test_a_cell_runs_again_where_it_asks_for_values(shell: Any) -> None:
    cell = "x = torch.randn(1000, device='cuda')\nfor _ in range(2):\n    y = x[x > 0].repeat(5000)\n"
    answer = shell.run_cell_magic("memestimate", "", cell)
    assert [a.question for a in answer.depends_on_data] == ["size"]
    assert answer.depends_on_data[0].bytes


def test_a_wrong_flag_is_a_line(shell: Any) -> None:
    from IPython.core.error import UsageError

    for line, said in (("--gqu t4", "--gqu"), ("--gpu voodoo", "voodoo"), ("--steps x", "--steps")):
        with pytest.raises(UsageError, match=said):
            shell.run_cell_magic("memestimate", line, CELL)


def test_what_a_cell_raises_is_raised(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        shell.run_cell_magic("memestimate", "", "torch.ones(3, device='cuda')\n1 / 0\n")
    assert torch.ones(1).device.type == "cpu"

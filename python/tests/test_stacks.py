"""Unchanged scripts of many libraries, beside what a GPU measured: in the nightly workflow, since they take minutes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memestimate.api import program as answers

FOLDER = Path(__file__).parent / "stacks"
CASES = json.loads((FOLDER / "truth.json").read_text())["cases"]
WANTED = os.environ.get("MEMESTIMATE_STACKS", "")
ALLOCATED, RESERVED = 0.05, 0.08  # of the worst; most are right to the byte: docs/recording.md
VALUES_DECIDE = {"17_maskrcnn.py": 0.03, "39_int8_generate.py": 0.05}  # boxes that are found; columns with outliers


def _named(case: dict[str, Any]) -> str:
    rank = f" rank {case['rank']}" if "rank" in case else ""
    return " ".join([case["script"], *case.get("arguments", [])]) + rank


def _wanted(case: dict[str, Any]) -> bool:
    return WANTED == "all" or any(_named(case).startswith(name) for name in WANTED.split(","))


def test_the_nightly_workflow_records_each_script() -> None:
    text = (Path(__file__).parents[2] / ".github" / "workflows" / "nightly.yml").read_text()
    (matrix,) = re.findall(r"scripts: \[(.*)\]", text)
    names = [name.strip(" '") for name in matrix.split(",")]
    assert [case for case in map(_named, CASES) if not case.startswith(tuple(names))] == []


@pytest.mark.skipif(not WANTED, reason="takes minutes: MEMESTIMATE_STACKS=all, or beginnings of names with commas")
@pytest.mark.parametrize("case", CASES, ids=_named)
def test_a_script_is_answered_as_measured(
    case: dict[str, Any], program: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not _wanted(case):
        pytest.skip("not among those asked for")
    if "short" in case:
        request.applymarker(pytest.mark.xfail(reason=case["short"], strict=True))
    output = tmp_path / "step.mrec"
    ranks = ["--world-size", str(case["ranks"]), "--rank", str(case.get("rank", 0))]
    ranks += ["--gpus", str(len(case.get("devices", [0])))]
    words = [
        "--once",
        "--seconds",
        "0",
        "-o",
        str(output),
        *ranks,
        *case.get("launcher", []),
        str(FOLDER / case["script"]),
        *case.get("arguments", []),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "memestimate", "record", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr[-3000:]
    answer = answers.ask([str(output)])
    allowed = VALUES_DECIDE.get(case["script"], ALLOCATED)
    measured = case.get("devices", [[case["peak_alloc"], case["peak_reserved"]]])
    for peak, (allocated, reserved) in zip(answer.get("gpus", [answer["peak"]]), measured, strict=True):
        assert abs(peak["allocated_bytes"] / allocated - 1) <= allowed
        assert abs(peak["reserved_bytes"] / reserved - 1) <= max(allowed, RESERVED)
        assert peak["safe_bytes"] >= reserved

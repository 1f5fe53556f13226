"""Unchanged scripts of many libraries, beside what a GPU measured: in the nightly workflow, since they take minutes."""

from __future__ import annotations

import json
import os
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
VALUES_DECIDE = {"17_maskrcnn.py": 0.15, "39_int8_generate.py": 0.05}  # boxes that are found; columns with outliers


@pytest.mark.skipif(not WANTED, reason="takes minutes: MEMESTIMATE_STACKS=all, or numbers with commas between them")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['script']}-{case['ranks']}")
def test_a_script_is_answered_as_measured(case: dict[str, Any], program: Path, tmp_path: Path) -> None:
    if WANTED != "all" and case["script"][:2] not in WANTED.split(","):
        pytest.skip("not among those asked for")
    output = tmp_path / "step.mrec"
    words = ["--once", "-o", str(output), "--world-size", str(case["ranks"]), str(FOLDER / case["script"])]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "memestimate", "record", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr[-3000:]
    peak = answers.ask([str(output)])["peak"]
    allowed = VALUES_DECIDE.get(case["script"], ALLOCATED)
    assert abs(peak["allocated_bytes"] / case["peak_alloc"] - 1) <= allowed
    assert abs(peak["reserved_bytes"] / case["peak_reserved"] - 1) <= max(allowed, RESERVED)
    assert peak["safe_bytes"] >= case["peak_reserved"]

"""``python -m memestimate record`` on a script as people write them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from recording import Recording

SCRIPT = Path(__file__).parent / "scripts" / "train.py"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [sys.executable, "-m", "memestimate", "record", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_script_runs_unchanged(tmp_path: Path) -> None:
    done = run(tmp_path, "--steps", "0", "-o", "step.mrec", str(SCRIPT), "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert "4 steps recorded in step.mrec" in done.stderr
    assert (tmp_path / "checkpoint.pt").stat().st_size > 0
    recording = Recording(tmp_path / "step.mrec")
    assert sum(1 for _ in recording.of("step")) == 4
    assert sum(1 for _ in recording.of("empty_cache")) == 1
    assert ["label", ""] in [event[1:] for event in recording.of("is")]


def test_it_ends_after_the_steps_asked_for(tmp_path: Path) -> None:
    done = run(tmp_path, "--steps", "2", "--gpu", "t4", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    assert "accuracy" not in done.stdout
    recording = Recording(tmp_path / "train.mrec")
    assert sum(1 for _ in recording.of("step")) == 2
    assert recording.header["gpu"]["name"] == "t4"


def test_a_script_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(4)\n")
    done = run(tmp_path, "bad.py")
    assert done.returncode == 4
    assert [p.name for p in tmp_path.iterdir()] == ["bad.py"]


def test_an_unknown_gpu_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "--gpu", "h9000", str(SCRIPT))
    assert done.returncode == 2
    assert "no GPU named 'h9000'" in done.stderr

"""What people train with: each example is a script that knows nothing of the recorder."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forks import PYTHON

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCE = Path(__file__).parents[1] / "src"


def record(program: Path, name: str, gpu: str, folder: Path) -> dict[str, Any]:
    """Record an example and return the program's answer."""
    file = folder / "step.mrec"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "HF_HUB_OFFLINE": "1", "MEMESTIMATE": str(program)}
    command = [PYTHON, "-m", "memestimate", "record", "--steps", "2", "--gpu", gpu, "-o", str(file)]
    done = subprocess.run([*command, str(EXAMPLES / name)], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = subprocess.run([str(program), str(file), "--format", "json"], capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def trained(answer: dict[str, Any]) -> tuple[int, int, int]:
    """Bytes of parameters, gradients and optimizer states at the peak of the run."""
    held = answer["peak"]["by_category"]
    return answer["parameters"]["bytes"], held.get("gradients", 0), held.get("optimizer_state", 0)


@pytest.mark.parametrize("name", ["accelerate_loop.py", "lightning_fit.py"])  # test_start.py has hf_trainer.py
def test_adamw_on_every_parameter(program: Path, tmp_path: Path, name: str) -> None:
    answer = record(program, name, "a100-80gb", tmp_path)
    parameters, _, states = trained(answer)
    assert parameters > 30 << 20
    assert 2 * parameters <= states < 2.01 * parameters + (1 << 20)  # the peak is in a step that has its states
    assert answer["peak"]["allocated_bytes"] > 3 * parameters
    assert answer["peak"]["device_bytes"] < answer["peak"]["upper_bound_bytes"]


def test_lora_trains_little(program: Path, tmp_path: Path) -> None:
    answer = record(program, "peft_lora.py", "rtx-4090", tmp_path)
    parameters, gradients, states = trained(answer)
    adapters = 4 * 2 * (512 + 512) * 16 * 4  # layers, projections, both matrices, rank, float32
    assert parameters > 40 * adapters
    assert 0 <= gradients <= adapters + (1 << 20)
    assert 2 * adapters <= states < 2 * adapters + (1 << 20)

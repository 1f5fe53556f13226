"""A default export is told from one for training, and the two commands that its report gives are right."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from forks import PYTHON

FLAGS = ("--batch", "32", "--optimizer", "adamw", "--loss", "cross-entropy")

SCRIPT = """
import torch
from torch import nn
from test_default_export import build

model = build().cuda()
images, labels = torch.randn(32, 3, 32, 32).cuda(), torch.randint(0, 10, (32,)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def build() -> nn.Module:
    """A net with what an export in evaluation mode loses: batch norms and dropout."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.Dropout(0.1),
        nn.Conv2d(64, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.Dropout(0.1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def answer(program: Path, *arguments: str) -> dict[str, Any]:
    command = [str(program), *arguments, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def advice(report: dict[str, Any]) -> str:
    (text,) = [note["text"] for note in report["notes"] if "was not exported for training" in note["text"]]
    return str(text)


@pytest.mark.filterwarnings("ignore")
def test_the_commands_of_a_default_export_are_right(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, x = build(), torch.randn(32, 3, 32, 32)
    torch.onnx.export(model.eval(), (x,), "default.onnx")
    default = answer(program, "default.onnx", *FLAGS[2:])
    assert default["way_in"] == "torch-default"
    text = advice(default)
    assert "2 batch norms" in text
    assert "dropout" in text

    (call,) = re.findall(r"torch\.onnx\.export\(.*\)", text)
    exec(call, {"torch": torch, "model": model, "x": x})
    export = answer(program, "model.onnx", *FLAGS[2:])
    assert export["way_in"] == "torchscript"

    (command,) = re.findall(r"python -m memestimate record train\.py", text)
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    paths = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    words = [PYTHON, *command.split()[1:]]
    subprocess.run(words, env=environment, check=True, capture_output=True)
    recorded = answer(program, "train.mrec")
    assert recorded["way_in"] == "recording"

    exact = recorded["peak"]["allocated_bytes"]
    assert export["peak"]["allocated_bytes"] == pytest.approx(exact, rel=0.005)
    assert default["peak"]["allocated_bytes"] < 0.95 * exact
    assert default["peak"]["safe_bytes"] > recorded["peak"]["device_bytes"]

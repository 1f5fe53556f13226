"""The README's example in Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.usefixtures("program")
def test_the_example_runs() -> None:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "import memestimate" in block]
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    names: dict[str, Any] = {
        "model": model,
        "images": torch.randn(4, 3, 32, 32),
        "labels": torch.randint(0, 10, (4,)),
    }
    exec(example, names)
    answer = names["answer"]
    assert answer.parameters == sum(p.numel() * 4 for p in model.parameters())
    activations = 4 * 16 * 30 * 30 * 4
    assert 2 * activations < answer.peak.allocated <= answer.peak.at_most

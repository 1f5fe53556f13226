"""What `type(x)` is in a program's modules."""

from __future__ import annotations

import builtins
import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import memestimate
from forks import PYTHON

ASKS = """
import torch

def mapped(function, tree):
    kind = type(tree)
    if kind is dict:
        return {key: mapped(function, value) for key, value in tree.items()}
    elif kind is torch.Tensor:
        return function(tree)
    raise ValueError("not supported")

def is_parameter(x):
    return type(x) == torch.nn.Parameter
"""
BY_TYPE = "import torch\n\ndef size(x):\n    return {int: abs, torch.Tensor: len}[type(x)](x)\n"
NAMED = "import torch\n\ndef name(x):\n    return 'one' if type(x).__name__ == 'Tensor' else 'many'\n"
META = """
import torch

class Meta(type):
    pass

def check(x):
    if type(x) is not torch.Tensor:
        raise ValueError("not supported")
"""
REFUSES = "\n\ndef refuse(x):\n    raise ValueError('of mine')\n"
SCRIPT = """
import torch

x = torch.randn(3, device="cuda")
print("a tensor" if type(x) is torch.Tensor else "no tensor")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def module(folder: Path, name: str, source: str) -> ModuleType:
    (folder / f"{name}.py").write_text(source)
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_types_are_those_of_a_gpu(folder: Path) -> None:
    before = module(folder, "asks_before", ASKS)
    with memestimate.record(folder / "x.mrec"):
        x = torch.randn(3, device="cuda")
        assert before.mapped(lambda t: t + 1, {"x": x})["x"].shape == (3,)
        assert not before.is_parameter(x)
        assert before.is_parameter(nn.Linear(2, 2).cuda().weight)
        within, named = module(folder, "asks_within", ASKS), module(folder, "asks_name", NAMED)
        y = x * 2
        assert within.mapped(len, y) == 3
        by_type = module(folder, "asks_dictionary", BY_TYPE)
        y = y * 2  # modules are looked at when a call is recorded
        assert by_type.size(y) == 3
        assert (named.name(y), named.name([y])) == ("one", "many")
        assert type(y) is not torch.Tensor, "PyTorch itself, and who does not ask for it, has Python's function"
        assert builtins.type is type
    assert not {"type"} & (vars(before).keys() | vars(within).keys() | vars(named).keys())


def notes_of(folder: Path, function: Callable[[torch.Tensor], None]) -> list[str]:
    """Lines that an exception has which a program raises while it is recorded."""
    try:
        with memestimate.record(folder / "x.mrec"):
            function(torch.randn(3, device="cuda"))
    except ValueError as error:
        return getattr(error, "__notes__", [])
    raise AssertionError("nothing was raised")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_modules_that_make_types_keep_pythons(folder: Path) -> None:
    notes = notes_of(folder, module(folder, "makes_types", META).check)
    assert len(notes) == 1
    assert "makes_types compares the types of tensors" in notes[0]
    assert notes_of(folder, module(folder, "asks_at_all", ASKS + REFUSES).refuse) == []


def test_a_script_asks_for_types(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [PYTHON, "-m", "memestimate", "record", "--once", "asks.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "a tensor\n"), done.stderr

"""``pytest --memestimate`` with ``@pytest.mark.gpu_memory``."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from forks import PYTHON

SOURCE = Path(__file__).parents[1] / "src"

_TESTS = """
import unittest
import pytest, torch
from torch import nn

@pytest.fixture
def net():
    return nn.Linear(1024, 1024)

def step(net):
    net.cuda()
    net(torch.randn(64, 1024, device="cuda")).sum().backward()

@pytest.mark.gpu_memory("1GiB")
def test_fits(net):
    assert net.weight.device.type == "cpu"
    step(net)

@pytest.mark.gpu_memory("t4")
@pytest.mark.parametrize("n", [1, 2])
def test_fits_a_card(net, n):
    step(net)

@pytest.mark.gpu_memory("600MiB", gpu="a100-80gb")
def test_too_large(net):
    step(net)

@pytest.mark.gpu_memory("1GiB", real=True)
def test_values():
    assert torch.ones(3, device="cuda").sum().item() == 3

@pytest.mark.gpu_memory("1GiB")
def test_own_failure():
    assert 1 == 2

@pytest.mark.gpu_memory("1GiB")
def test_nothing():
    torch.ones(3)

@pytest.mark.gpu_memory("1GiB")
def test_skips():
    pytest.skip("not today")

@pytest.mark.gpu_memory(8)
def test_no_size():
    pass

@pytest.mark.gpu_memory("quite a lot")
def test_no_gpu():
    pass

class TestOld(unittest.TestCase):
    @pytest.mark.gpu_memory("1MiB")
    def test_method(self):
        step(nn.Linear(1024, 4))

def test_unmarked():
    assert not torch.cuda.is_available()
"""


def run(program: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_memory.py").write_text(_TESTS)
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "MEMESTIMATE": str(program), "CUDA_VISIBLE_DEVICES": "-1"}
    environment["COLUMNS"] = "300"  # or pytest cuts its lines
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # which would find it a second time where it was installed
    command = [PYTHON, "-m", "pytest", "-p", "memestimate.api.pytest_plugin", "--strict-markers", "-rfs"]
    command += ["-p", "no:cacheprovider"]
    return subprocess.run([*command, *words], cwd=folder, env=environment, capture_output=True, text=True)


def test_marked_tests_are_held_to_their_limits(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path, "--memestimate", "--tb=short")
    out = done.stdout
    assert "6 failed, 5 passed, 1 skipped" in out, out
    assert "\ntest_fits takes " in out
    assert (
        len(re.findall(r"^test_fits_a_card\[[12]\] takes \d+ MiB to be safe: fits Tesla T4$", out, re.MULTILINE)) == 2
    )
    failed = dict(
        line.removeprefix("FAILED test_memory.py::").split(" - ", 1)
        for line in out.splitlines()
        if line.startswith("FAILED")
    )
    assert failed["test_too_large"].startswith(
        "Failed: test_too_large takes 786 MiB to be safe: more than 600MiB; peak: "
    )
    assert failed["test_own_failure"] == "assert 1 == 2"
    assert failed["test_nothing"] == "Failed: gpu_memory('1GiB'): the test puts nothing on the GPU"
    assert failed["test_no_size"] == "Failed: gpu_memory: limit is 8, wanted a size such as '8GiB' or a GPU's name"
    assert re.match("Failed: gpu_memory: .*quite a lot", failed["test_no_gpu"])
    assert failed["TestOld::test_method"].startswith("Failed: test_method takes ")
    assert "Traceback" not in out


def test_without_the_flag_they_are_other_tests(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path, "-k", "test_unmarked or test_own_failure or test_nothing")
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "GPU memory" not in done.stdout

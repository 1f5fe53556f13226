"""Makes the package in src and the helpers beside the tests importable, and builds the program that they ask."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test asks the hub

import forks  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """Start what forks for all workers of xdist, which are configured with its name."""
    if sys.platform == "linux" and not hasattr(config, "workerinput"):
        stack = contextlib.ExitStack()
        stack.enter_context(forks.installed())
        config.add_cleanup(stack.close)


@pytest.fixture(scope="session", autouse=True)
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, which knows the GPUs, built from this source unless the environment names one."""
    if "MEMESTIMATE" not in os.environ:
        path = tmp_path_factory.mktemp("program") / "memestimate"
        root = Path(__file__).parents[2]
        subprocess.run(["go", "build", "-o", str(path), "./cmd/memestimate"], cwd=root, check=True)
        os.environ["MEMESTIMATE"] = str(path)
    return Path(os.environ["MEMESTIMATE"])


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a libnvidia-ml.so.1 without a GPU, which shows the machine of the file that $FAKE_NVML names."""
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).parents[2] / "devices/fakenvml/src/fakenvml.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libnvidia-ml.so.1", source], check=True)
    return folder

"""The recipes of docs/clusters.md: launchers of several processes on the GPUs that ``memestimate run`` holds."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MACHINE = "".join(
    f"gpu uuid=GPU-{i} bus=00000000:{i:02X}:00.0 total=85899345920 reserved=679477248 used=0 name=NVIDIA A100\n"
    for i in range(4)
)
TRAIN = """
import os, sys, time, torch, torch.distributed as dist
if sys.argv[1:] == ["accelerate"]:
    from accelerate import Accelerator
    Accelerator(cpu=True)
else:
    dist.init_process_group("gloo")
n = torch.ones(1)
dist.all_reduce(n)
with open(f"rank-{dist.get_rank()}", "w") as f:
    f.write(f"{int(n)} {os.environ['CUDA_VISIBLE_DEVICES']} {os.environ['CUDA_DEVICE_ORDER']}")
while os.path.exists("go on"):
    time.sleep(0.02)
dist.barrier()
dist.destroy_process_group()
sys.exit(int(os.environ.get("CODE", "0")))
"""


def recipe(launcher: str) -> list[str]:
    """Return the command that the page gives for a launcher."""
    page = (ROOT / "docs/clusters.md").read_text(encoding="utf-8")
    found = re.findall(rf"^    (memestimate run .* -- {launcher} .*)$", page, re.MULTILINE)
    assert len(found) == 1, found
    return shlex.split(found[0])


class Host:
    """A folder with a machine of four GPUs, its reservations, and a training script."""

    def __init__(self, folder: Path, driver: Path, program: Path) -> None:
        self.folder, self.program = folder, program
        (folder / "machine").write_text(MACHINE)
        (folder / "train.py").write_text(TRAIN)
        self.environ = {
            **os.environ,
            "FAKE_NVML": str(folder / "machine"),
            "LD_LIBRARY_PATH": str(driver),
            "MEMESTIMATE_STATE_DIR": str(folder / "state"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "OMP_NUM_THREADS": "1",
        }
        self.environ.pop("CUDA_VISIBLE_DEVICES", None)

    def start(self, launcher: str, **environ: str) -> subprocess.Popen[bytes]:
        command = [str(self.program), *recipe(launcher)[1:]]
        if launcher == "accelerate":
            command.append("accelerate")
        return subprocess.Popen(command, cwd=self.folder, env={**self.environ, **environ})

    def held(self) -> list[str]:
        """Return the GPUs that are held."""
        out = subprocess.run(
            [self.program, "devices", "--format", "json"], env=self.environ, capture_output=True, check=True
        ).stdout
        return [d["uuid"] for d in json.loads(out)["devices"] if d["reservations"]]

    def ranks(self) -> list[str]:
        return [f.read_text() for f in sorted(self.folder.glob("rank-*")) if f.read_text()]

    def wait_for_ranks(self) -> None:
        end = time.monotonic() + 90
        while len(self.ranks()) < 2:
            assert time.monotonic() < end, "the processes do not start"
            time.sleep(0.05)


@pytest.mark.parametrize(("launcher", "code"), [("torchrun", 1), ("accelerate", 0)])  # 1 of processes that fail
def test_launcher_gets_the_gpus_that_are_held(
    tmp_path: Path, driver: Path, program: Path, launcher: str, code: int
) -> None:
    host = Host(tmp_path, driver, program)
    (tmp_path / "go on").touch()
    process = host.start(launcher, CODE=str(3 * code))
    host.wait_for_ranks()
    held = host.held()
    assert len(held) == 2
    (tmp_path / "go on").unlink()
    assert process.wait(60) == code
    assert host.ranks() == [f"2 {','.join(held)} PCI_BUS_ID"] * 2
    assert host.held() == []


def test_torchrun_is_ended(tmp_path: Path, driver: Path, program: Path) -> None:
    host = Host(tmp_path, driver, program)
    (tmp_path / "go on").touch()
    process = host.start("torchrun")
    host.wait_for_ranks()
    assert len(host.held()) == 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) != 0
    assert host.held() == []

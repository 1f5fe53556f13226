"""However a script ends, there is a recording or a line that says why not, and nothing else is left."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from forks import PYTHON
from recording import Recording

TRAINS = """
import os, sys, time, torch
net = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters())
def train(steps):
    for _ in range(steps):
        net(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()
"""
FORKS = """
child = os.fork()
if child == 0:
    {}
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == {}
train(2)
"""
KEPT = {
    "os._exit": "train(2)\nos._exit(0)",
    "a forked child that exits": FORKS.format("sys.exit(4)", 4),
    "a forked child that raises": FORKS.format("raise ValueError('of the child')", 1),
    "a forked child that ends": "if os.fork() == 0:\n    train(1)\nelse:\n    os.wait()\n    train(2)",
    "a forked child that leaves": FORKS.format("os._exit(5)", 5),
    "a failure behind the third step": "train(5)\nraise ValueError('of the evaluation')",
}
LOST = {
    "os._exit with a status": ("train(2)\nos._exit(7)", 7, ""),
    "another program": ("train(2)\nos.execvp('true', ['true'])", 3, "the script becomes another program, true"),
    "SIGTERM": ("train(2)\nos.kill(os.getpid(), 15)\ntime.sleep(30)", 143, "terminated before the script had ended"),
    "more than there is": ("torch.empty(1 << 60, device='cuda')", 1, "torch.OutOfMemoryError: CUDA out of memory"),
    "a failure": ("train(1)\nraise ValueError('early')", 1, "early"),
}


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "s.py").write_text(TRAINS + script + "\n")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [PYTHON, "-m", "memestimate", "record", "--once", "s.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", KEPT)
def test_a_recording_is_there(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, KEPT[name])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("recorded in s.mrec") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.mrec", "s.py"]
    recording = Recording(tmp_path / "s.mrec")
    failed = "failure" in name
    assert sum(1 for _ in recording.of("step")) == (5 if failed else 2)
    assert ("the script failed (ValueError: of the evaluation), after 4 training steps" in done.stderr) == failed


@pytest.mark.parametrize("name", LOST)
def test_a_line_says_why_there_is_none(tmp_path: Path, name: str) -> None:
    script, status, told = LOST[name]
    done = run(tmp_path, script)
    assert done.returncode == status
    assert told in done.stderr
    assert "recorded in" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["s.py"]


def test_a_link_in_the_place_of_a_part_is_not_followed(tmp_path: Path) -> None:
    """As a name that others can foretell would be, in a folder that they can write."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "s.mrec").symlink_to(victim)
    done = run(tmp_path, "train(2)")
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == "precious"
    assert not (tmp_path / "s.mrec").is_symlink()
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "s.mrec").stat().st_mode & 0o777 == 0o666 & ~mask


DEEP = """
def deeper(x):
    return deeper(x + 1) + 1
for _ in range(2):
    try:
        deeper(torch.ones(1, device="cuda"))
    except RecursionError:
        print("caught")
    train(1)
assert sys.getrecursionlimit() == 1000
"""


def test_a_recursion_that_python_stops_leaves_a_whole_recording(tmp_path: Path) -> None:
    done = run(tmp_path, DEEP)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("caught") == 2
    events = Recording(tmp_path / "s.mrec").events
    made = [e[1] for e in events if e[0] == "alloc"]
    assert made == list(range(len(made)))

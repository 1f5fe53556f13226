"""What a hostile file, or a disk without room, does to the package."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from memestimate import program as programs

_ROOT = Path(__file__).parents[2]
_ODD = sorted((_ROOT / "estimate/testdata/odd").glob("*.onnx"))

# A recording of so many events, in a file that may have so many bytes.
_WRITE = """
import resource, sys
from memestimate.write import Writer

path, events, room = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if room >= 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
writer = Writer(path, {"of": "a test"})
try:
    for i in range(events):
        writer.event("alloc", i, i * 7919 % 104729)
except OSError:  # as a recorder does for whatever goes wrong within it
    writer.discard()
    raise
writer.close()
"""


def _write(path: Path, events: int, room: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _WRITE, str(path), str(events), str(room)],
        env={"PYTHONPATH": str(_ROOT / "python/src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files there")
@pytest.mark.parametrize("events", [10, 30_000])  # within one flush, and over several
def test_full_disk_leaves_the_old_recording(tmp_path: Path, events: int) -> None:
    path = tmp_path / "step.mrec"
    assert _write(path, events, -1).returncode == 0
    size = path.stat().st_size
    with gzip.open(path, "rt") as lines:
        assert len(list(lines)) == events + 2
    for room in (0, 1, size // 3, size - 1):
        path.write_text("what was there")
        done = _write(path, events, room)
        assert done.returncode != 0
        assert "OSError" in done.stderr
        assert path.read_text() == "what was there"
        assert [p.name for p in tmp_path.iterdir()] == ["step.mrec"], room


@pytest.mark.parametrize("model", _ODD, ids=lambda p: p.stem)
def test_odd_files_are_answered_or_refused_in_a_line(program: Path, model: Path) -> None:
    assert program
    try:
        answer = programs.ask([str(model)])
    except programs.ProgramError as error:
        message = json.loads(str(error))  # of --format json
        assert message["error"]
        assert "\n" not in message["error"]
    else:
        assert answer["schema"]
        assert answer["parameters"]["bytes"] >= 0


def test_there_are_odd_files() -> None:
    assert len(_ODD) >= 19

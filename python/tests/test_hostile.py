"""What a hostile file, or a disk without room, does to the package."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from memestimate import from_config
from memestimate.api import program as programs

_ROOT = Path(__file__).parents[2]
_ODD = sorted((_ROOT / "estimate/testdata/odd").glob("*.onnx"))

# A recording of so many events, in a file that may have so many bytes.
_WRITE = """
import resource, sys
from memestimate.core.writer import Writer

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
    message, answer = "", None
    try:
        answer = programs.ask([str(model)])
    except programs.ProgramError as error:
        message = str(error)
    if answer is None:
        assert message
        assert "\n" not in message
        assert not message.startswith("{")  # a sentence, not the JSON that the program wrote
    else:
        assert answer["schema"]
        assert answer["parameters"]["bytes"] >= 0


def test_there_are_odd_files() -> None:
    assert len(_ODD) >= 19


@pytest.mark.skipif(shutil.which("go") is None or sys.platform == "win32", reason="the files are made by a test in Go")
def test_the_catalogue_is_answered_or_refused_in_a_line(program: Path, tmp_path: Path) -> None:
    made = ["go", "test", "./onnxload", "-run", "^TestHostile$", "-count=1", "-args", "-hostile.out", str(tmp_path)]
    subprocess.run(made, cwd=_ROOT, check=True, capture_output=True)
    asked = sorted(str(p) for p in tmp_path.glob("*.onnx"))
    found = _read(program, asked)
    refused = [message for message in found["said"].values() if message]
    assert len(asked) > 120
    assert len(asked) // 2 < len(refused) < len(asked)
    assert 1024 * found["kilobytes"] <= 64_000_000 + 12 * max(Path(p).stat().st_size for p in asked)


# Reads recordings as a program does, and prints what came of each, and the most memory that the program took.
_READ = """
import json, resource, sys
from pathlib import Path
import memestimate

said = {}
for path in sys.argv[1:]:
    try:
        answer = memestimate.Estimate(path)
        figures = answer.peak, answer.notes, answer.depends_on_data, answer.parameters, repr(answer)
        assert figures[0].at_most >= figures[0].device >= figures[0].reserved >= figures[0].allocated >= 0
        said[path] = ""
    except memestimate.ProgramError as error:
        said[path] = str(error)
print(json.dumps({"said": said, "kilobytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}))
"""


def _read(program: Path, asked: list[str]) -> dict[str, Any]:
    """Read files in a process of its own, within five minutes, and hold what it says of each to one line."""
    environment = {"PYTHONPATH": str(_ROOT / "python/src"), "PATH": "/usr/bin:/bin", "MEMESTIMATE": str(program)}
    done = subprocess.run(
        [sys.executable, "-c", _READ, *asked], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    for path, message in found["said"].items():
        assert "\n" not in message, path
        assert len(message) < 10_000, path
        assert not message.startswith(("{", "panic", "goroutine")), message
        assert "internal error" not in message, path
    return found


_MUTANTS = int(os.environ.get("MEMESTIMATE_MUTATIONS", "60"))
_WORDS = re.compile(r'-?[0-9]+(\.[0-9]+)?|"(\\.|[^"\\])*"|null|true|false')
_ODD_TEXT = """
0 1 -1 512 2147483648 9223372036854775807 -9223372036854775808 18446744073709551616 1e400 0.5 NaN null true [] {} ""
"0:0" "c:0" "1:99999" "!float32" "\\ud800" "parameter" "forward" "aten::mm" "depends"
"""
_ODD_WORDS = [*_ODD_TEXT.split(), '"' + "n" * 5000 + '"', "[" * 2000 + "]" * 2000]


def _mutant(random: Random, lines: list[str]) -> bytes:
    """A recording with lines that are missing, doubled or exchanged, and words that are others; or one cut short."""
    lines = list(lines)
    for _ in range(random.randint(0, 3)):
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        match random.randrange(8):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                words = list(_WORDS.finditer(lines[at]))
                if words:
                    begin, end = random.choice(words).span()
                    lines[at] = lines[at][:begin] + random.choice(_ODD_WORDS) + lines[at][end:]
    if random.random() < 0.8:
        lines[-1] = json.dumps(["end", len(lines) - 2])
    packed = bytearray(gzip.compress("\n".join(lines).encode(), mtime=0))
    match random.randrange(20):
        case 0:
            del packed[random.randrange(len(packed)) :]
        case 1:
            packed[random.randrange(len(packed))] ^= 1 << random.randrange(8)
    return bytes(packed)


@pytest.mark.skipif(sys.platform == "win32", reason="no figures of children there")
def test_hostile_recordings_are_answered_or_refused_in_a_line(program: Path, tmp_path: Path) -> None:
    random = Random(19)
    paths = []
    bomb = tmp_path / "bomb.mrec"
    bomb.write_bytes(gzip.compress(b" " * (64 << 20)))
    (tmp_path / "empty.mrec").write_bytes(b"")
    for path in sorted((_ROOT / "recording/testdata").glob("*.b8.mrec")):
        lines = gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
        lines.insert(-1, '["depends","truth","False",4096,-1]')
        for i in range(_MUTANTS // 2):
            paths.append(tmp_path / f"{path.stem}-{i}.mrec")
            paths[-1].write_bytes(_mutant(random, lines))
    asked = [str(p) for p in (*paths, bomb, tmp_path / "empty.mrec", tmp_path, tmp_path / "nothing.mrec")]
    found = _read(program, asked)
    refused = [message for message in found["said"].values() if message]
    assert 4 + _MUTANTS // 4 <= len(refused) < len(asked)
    assert found["kilobytes"] < 160 << 10


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"n_layer": 10**9}, "n_layer is 1000000000, wanted 10000 at most"),
        ({"num_labels": 10**500}, "num_labels is 1000000"),
        (
            {"text_config": {"model_type": "qwen3", "num_hidden_layers": 10**12}},
            "num_hidden_layers is 1000000000000, wanted",
        ),
        ({"attn_implementation": "some/kernel"}, "names code of its own"),
        ({"vision_config": {"_attn_implementation": {"": "some/kernel"}}}, "names code of its own"),
        ({"model_type": "\x1b]0;title\x07\u202e"}, r"\\x1b\]0;title\\x07\\u202e"),
        ({"n_layer": -1}, "num_hidden_layers of the configuration is -1"),
        ({"n_embd": 10**15}, "makes no model"),
        ({"n_embd": "many"}, "expected int, got str"),
        ({"n_embd": -64}, "hidden_size of the configuration is -64"),
        ({"n_head": 0}, "num_attention_heads of the configuration is 0"),
        ({"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}, "custom code"),
        (None, "no configuration of a model"),
    ],
)
def test_hostile_configurations_are_refused_in_a_line(tmp_path: Path, said: dict[str, object] | None, why: str) -> None:
    pytest.importorskip("transformers")
    small = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64}
    text = json.dumps([1, 2] if said is None else small | said)
    (tmp_path / "config.json").write_text(text)
    # a module beside the file, which it names as its own code, is not run
    (tmp_path / "own.py").write_text("raise SystemExit('run')")
    with pytest.raises(ValueError, match=why) as refused:
        from_config(tmp_path, seq=16)
    assert "\n" not in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 600

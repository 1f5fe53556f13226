"""``memestimate WHAT``, typed in as a user does: the program finds Python, records with it, and answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forks import PYTHON

TRAIN = """
import argparse, torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=8)
width = parser.parse_args().width
model = nn.Linear(width, width).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(4, width, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("a step")
"""


class Door:
    """A folder with a script, and the program as it is typed there."""

    def __init__(self, folder: Path, program: Path, environment: str) -> None:
        self.folder, self.program = folder, program
        (folder / "train.py").write_text(TRAIN)
        self.environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "VIRTUAL_ENV": environment}
        self.environ.pop("PYTHONPATH", None)

    def __call__(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.program), *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the Python package in the cache, which Python compiles once."""
    return tmp_path_factory.mktemp("unpacked")


@pytest.fixture
def door(tmp_path: Path, program: Path, unpacked: Path) -> Door:
    (tmp_path / "cache" / "memestimate").mkdir(parents=True, mode=0o700)
    (tmp_path / "cache" / "memestimate" / "python").symlink_to(unpacked)
    return Door(tmp_path, program, str(Path(PYTHON).parents[1]))


def test_a_script_is_recorded_and_answered(tmp_path: Path, program: Path) -> None:
    door = Door(tmp_path, program, sys.prefix)
    done = door("--full=false", "--gpu", "t4", "--recording", "kept.mrec", "train.py", "--width", "1024")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("train.py, batch 4: fits Tesla T4: ")
    assert "a step" in done.stderr
    read = door("--full=false", "--gpu", "t4", "kept.mrec")
    assert done.stdout.partition("\n")[2] == read.stdout.partition("\n")[2]
    assert sorted(path.name for path in door.folder.iterdir()) == ["cache", "kept.mrec", "train.py"]


def test_a_script_behind_its_launcher(door: Door) -> None:
    done = door("--format", "json", "--steps", "2", "python", "-u", "train.py", "--width", "2048")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["model"]["name"] == "train.py"
    assert answer["parameters"]["bytes"] == 4 * (2048 * 2048 + 2048)


def test_flags_behind_a_script_are_its_own(door: Door) -> None:
    done = door("train.py", "--gpu", "t4")
    assert (done.returncode, done.stdout) == (3, "")
    assert "train.py: error: unrecognized arguments: --gpu t4" in done.stderr
    assert done.stderr.endswith(
        "memestimate: train.py: the script failed, as it says above (exit code 2)\n"
        "memestimate: hint: what is behind a script is its own: memestimate --gpu ... train.py\n"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ["--gpu", "t4"],
            "memestimate: hint: --gpu t4 went to deaf.py; write it before the script to ask memestimate: "
            "memestimate --gpu t4 deaf.py\n",
        ),
        (["--steps=3", "--format=json"], "memestimate --format=json deaf.py\n"),
        (["--gpu", "0", "--output", "there", "--format", "images", "--full=maybe", "--budget"], ""),
    ],
)
def test_a_script_that_reads_no_arguments_does_not_lose_a_question(door: Door, words: list[str], hint: str) -> None:
    (door.folder / "deaf.py").write_text("import torch\ntorch.ones(8, device='cuda')\n")
    done = door("deaf.py", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("deaf.py: ")
    assert done.stderr.endswith(hint)
    assert done.stderr.count("went to") == (hint != "")


def test_python_without_torch(door: Door) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(door.folder / "bare")], check=True)
    bare = door.folder / "bare" / "bin" / "python3"
    done = door("train.py", VIRTUAL_ENV=str(door.folder / "bare"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (f"memestimate: {bare} has no PyTorch\nmemestimate: hint: {bare} -m pip install torch\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.py"], 3, "memestimate: missing.py: no such file\n"),
        (["--python", "nowhere", "train.py"], 2, "memestimate: --python nowhere: "),
        (["--bacth", "3", "train.py"], 2, "memestimate: unknown flag: --bacth\n"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(door: Door, words: list[str], code: int, said: str) -> None:
    done = door(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(said), done.stderr


def test_an_environment_without_python(door: Door) -> None:
    done = door("train.py", VIRTUAL_ENV=str(door.folder))
    assert done.returncode == 3
    assert done.stderr == (
        f"memestimate: VIRTUAL_ENV={door.folder}: no Python there\n"
        "memestimate: hint: --python PATH names one that has PyTorch\n"
    )


TINY = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


def test_a_configuration_and_the_ways_to_train_it(door: Door) -> None:
    pytest.importorskip("peft")
    pytest.importorskip("bitsandbytes")
    (door.folder / "tiny").mkdir()
    (door.folder / "tiny" / "config.json").write_text(json.dumps(TINY))
    words = ("tiny", "--lora", "4", "--seq", "16", "--checkpoint", "--gpu", "t4", "--full=false")
    done = door(*words)
    assert done.returncode == 0, done.stderr
    answer, _, table = done.stdout.partition("\n\nways to train it")
    assert answer.startswith("tiny+LoRA-4+checkpointing, batch 1, seq 16: fits Tesla T4: ")
    ways = [line[:40].strip() for line in table.splitlines()[1:]]
    assert ways == [
        "LoRA r=4, 1 x 16, checkpointing",
        "QLoRA r=4, 1 x 16, checkpointing",
        "QLoRA r=4, 1 x 16",
        "LoRA r=4, 1 x 16",
        "all parameters, 1 x 16, checkpointing",
        "all parameters, 1 x 16",
    ]
    assert all(line.endswith("  yes") for line in table.splitlines()[1:]), table
    again = door(*words, PYTHONHOME="/nowhere")  # with which no Python starts
    assert again.stdout == done.stdout
    assert again.stderr == (
        "memestimate: Tesla T4 has no units for bf16, which PyTorch emulates, slowly; for fp16: --precision amp-fp16\n"
    )
    other = door("tiny/config.json", "--format", "json", "--qlora", "4", "--seq", "16", "--checkpoint")
    assert json.loads(other.stdout)["settings"]["dims"] == {"seq": 16}
    assert other.stderr == ""


def test_the_ways_at_several_lengths(door: Door) -> None:
    pytest.importorskip("transformers")
    (door.folder / "tiny").mkdir()
    (door.folder / "tiny" / "config.json").write_text(json.dumps({**TINY, "num_hidden_layers": 1}))
    done = door("tiny", "--seq", "16,8", "--full=false")
    assert done.returncode == 0, done.stderr
    answer, _, table = done.stdout.partition("\n\nways to train it")
    assert answer.startswith("tiny, batch 1, seq 16: ")
    ways = [line[:40].strip() for line in table.splitlines()[1:]]
    methods = ("QLoRA r=16", "LoRA r=16", "all parameters")
    rows = [f"{m}, 1 x {n}{c}" for m in methods for c in (", checkpointing", "") for n in (8, 16)]
    asked = "all parameters, 1 x 16"
    assert ways == [asked, *(row for row in rows if row != asked)]
    refused = door("tiny", "--seq", "16,8", "--no-ways")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("memestimate: --seq: several are for the table of ways")


def test_python_names_a_way_as_the_command_does(door: Door) -> None:
    pytest.importorskip("peft")
    (door.folder / "tiny").mkdir()
    (door.folder / "tiny" / "config.json").write_text(json.dumps(TINY))
    typed = door("tiny", "--lora", "4", "--seq", "16", "--gpu", "l4", "--full=false", "--no-ways")
    asked = "print(memestimate.from_config('tiny', lora=4, seq=16, gpu='l4'))"
    done = subprocess.run(
        [PYTHON, "-c", f"import memestimate; {asked}"],
        cwd=door.folder,
        env={**os.environ, "MEMESTIMATE": str(door.program), "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    found, wanted = done.stdout.splitlines()[0], typed.stdout.splitlines()[0]
    assert found.partition(":")[0] == "tiny+LoRA-4"  # a recording does not say which of its sizes are batch and seq
    assert wanted.partition(":")[0] == "tiny+LoRA-4, batch 1, seq 16"
    assert found.partition(" GiB,")[0].partition(":")[2] == wanted.partition(" GiB,")[0].partition(":")[2]


def test_a_model_that_nobody_knows(door: Door) -> None:
    pytest.importorskip("transformers")
    done = door("nobody/nothing", "--no-ways", HF_HUB_OFFLINE="1", HF_HOME=str(door.folder / "hub"))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(
        "memestimate: nobody/nothing: neither in the Hub's cache here nor among the well-known"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--gpus", "4", "--compile"],
            "memestimate: --gpus: of a configuration several GPUs train, and nothing is compiled\nmemestimate: hint",
        ),
        (
            ["--parallel", "fsdp"],
            "memestimate: --parallel is about several GPUs: want --gpus of 2 or more\nmemestimate: hint: --gpus 2",
        ),
        (["--gpus", "2", "--parallel", "pp"], 'memestimate: invalid argument "pp" for --parallel: want ddp, fsdp\n'),
        (["--lora", "8", "--qlora", "8"], "memestimate: --lora and --qlora are two ways, want one of them\n"),
        (["--seq", "none"], 'memestimate: --seq: "none" is not a size'),
    ],
)
def test_flags_of_a_model_that_do_not_go(door: Door, words: list[str], said: str) -> None:
    done = door("meta-llama/Llama-3.1-8B", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said), done.stderr


@pytest.mark.parametrize("name", ["a.safetensors", "a.gguf", "a.pt", "a.ipynb", "a.keras"])
def test_files_that_say_nothing_of_a_step(door: Door, name: str) -> None:
    (door.folder / name).write_text("{}")
    done = door(name)
    assert (done.returncode, done.stdout) == (3, "")
    what, hint = done.stderr.splitlines()
    assert what.startswith(f"memestimate: {name}: ")
    assert hint.startswith("memestimate: hint: ")
    assert "memestimate " in hint.removeprefix("memestimate: hint: ")

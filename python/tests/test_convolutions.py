"""What cuDNN is asked about convolutions, without a GPU."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import memestimate
from memestimate.api import program
from memestimate.api.gpus import find
from memestimate.pretend import convolutions
from memestimate.pretend.convolutions import Asked
from memestimate.pretend.cudnn_answers import partial_sums

ROOT = Path(__file__).parents[2]
# Of resnet50 at batch 64: y and the gradient of x took this on an H200.
MEASURED = Asked(
    "forward",
    "float32",
    False,
    False,
    1,
    (64, 128, 56, 56),
    (128, 128, 3, 3),
    (64, 128, 28, 28),
    (2, 2),
    (1, 1),
    (1, 1),
)
BYTES = 129_040_531

needs_cudnn = pytest.mark.skipif(torch.version.cuda is None, reason="a build without CUDA has no cuDNN")


def lines(path: Path) -> list[list[Any]]:
    """The answers of a recording."""
    with gzip.open(path, "rt") as file:
        return [line for line in map(json.loads, list(file)[1:]) if line[0] == "cudnn"]


def record(path: Path, model: nn.Module, x: torch.Tensor, gpu: str = "h200") -> list[list[Any]]:
    with memestimate.record(path, gpu=gpu):
        y = model.cuda()(x.cuda())
        y.sum().backward()
    return lines(path)


@needs_cudnn
def test_answers_are_what_a_gpu_took() -> None:
    path = convolutions.library()
    other = MEASURED._replace(operation="input")
    turned = other._replace(transposed=True, x=MEASURED.y, y=MEASURED.x)  # y is then what the gradient of x was
    assert convolutions.ask(path, find("h200"), [MEASURED, other, turned._replace(operation="forward")]) == [BYTES] * 3


@pytest.mark.parametrize(
    ("operation", "engine", "knobs", "x", "w", "y", "more"),
    [
        # A gradient of 64 x 64 x 3 x 3: nine tiles of 64 x 64, in 14 parts; in two on 18 multiprocessors.
        ("weight", 68, (5, 1, 1, 0), (32, 64, 56, 56), (64, 64, 3, 3), (32, 64, 56, 56), (126 - 18) * 64 * 64 * 4),
        # Of 3,584 tiles of 256 x 128 the 104 after the last full wave fill more than half of one.
        ("forward", 67, (0, 1, 1, 0), (16, 512, 64, 64), (512, 512, 3, 3), (16, 512, 64, 64), 0),
        # 20 are left of 3,584, in six parts, and two of 199 waves of 18, in nine.
        ("forward", 67, (3, 1, 2, 0), (28, 512, 128, 128), (256, 512, 3, 3), (28, 256, 128, 128), 102 * 131072),
        # Groups, engines that do not split, and tiles that were not seen.
        ("weight", 68, (5, 1, 1, 0), (32, 64, 56, 56), (64, 16, 3, 3), (32, 64, 56, 56), 0),
        ("weight", 68, (5, 1, 1, 1), (32, 64, 56, 56), (64, 64, 3, 3), (32, 64, 56, 56), 0),
        ("weight", 68, (2, 1, 1, 0), (32, 64, 56, 56), (64, 64, 3, 3), (32, 64, 56, 56), 0),
    ],
)
def test_partial_sums_are_those_of_the_last_wave(
    operation: str,
    engine: int,
    knobs: tuple[int, ...],
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    more: int,
) -> None:
    ones = (1, 1)
    asked = Asked(operation, "float32", False, False, 1, x, w, y, ones, ones, ones)
    names = ("TILE_SIZE", "TILE_CGA_M", "TILE_CGA_N", "WORKSPACE")
    choices = {f"CUDNN_KNOB_TYPE_{name}": value for name, value in zip(names, knobs, strict=True)}
    plan = {"engineId": engine, "knobChoices": choices}
    assert partial_sums(asked.question(), plan, 132) == more


@pytest.mark.parametrize("benchmark", [False, True])
def test_a_recording_says_where_cudnn_was_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: bool
) -> None:
    broken = tmp_path / "libcudnn.so.9"
    broken.write_bytes(b"no library")
    monkeypatch.setattr(convolutions, "library", lambda: broken)
    with torch.backends.cudnn.flags(benchmark=benchmark), memestimate.record(tmp_path / "x", gpu="h200") as recorder:
        nn.Conv2d(7, 29, 5).cuda()(torch.ones(13, 7, 101, 43, device="cuda")).sum().backward()
    (said,) = [text for code, text in recorder.notes if code == "cudnn"]
    assert said.startswith("cuDNN could not be asked what convolutions take, which is less exact without: OSError: ")
    assert str(broken) in said
    with gzip.open(tmp_path / "x", "rt") as file:
        events = [json.loads(line) for line in list(file)[1:]]
    assert [event[2] for event in events if event[0] == "note" and event[1] == "cudnn"] == [said]
    searches = [event[-2:] for event in events if event[0] == "search"]
    assert searches == ([[0, 0]] * 2 if benchmark else [])
    with memestimate.record(tmp_path / "y", gpu="h200") as recorder:  # without a convolution
        nn.Linear(7, 29).cuda()(torch.ones(13, 7, device="cuda")).sum().backward()
    assert "cudnn" not in [code for code, _ in recorder.notes]


@pytest.mark.parametrize(("code", "why"), [("import os; os.abort()", "-6"), ("raise SystemExit('no luck')", "no luck")])
def test_a_process_that_ends_early_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    program = tmp_path / "answers.py"
    program.write_text(code)
    monkeypatch.setattr(convolutions.cudnn_answers, "__file__", str(program))
    with pytest.raises(convolutions.NoAnswerError, match=why):
        convolutions.ask(tmp_path, find("h200"), [MEASURED])


@needs_cudnn
def test_cudnn_finds_the_libraries_that_pytorch_has_loaded(tmp_path: Path) -> None:
    """It looks for cuBLAS beside itself, as in a venv of all packages, and not in another venv below."""
    path = convolutions.library()
    for file in path.parent.glob("*.so*"):
        (tmp_path / file.name).symlink_to(file)
    assert convolutions.ask(tmp_path / path.name, find("h200"), [MEASURED]) == [BYTES]


def test_an_old_cudnn_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "_loaded", lambda: [Path("/x/libcudnn.so.9")])
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 90501)
    with pytest.raises(convolutions.NoAnswerError, match="90501 does not answer"):
        convolutions.library()
    monkeypatch.setattr(convolutions, "_loaded", list)
    with pytest.raises(convolutions.NoAnswerError, match="no library"):
        convolutions.library()


@needs_cudnn
def test_no_engine_is_no_answer() -> None:
    path = convolutions.library()
    wrong = MEASURED._replace(y=(64, 128, 29, 28))
    assert convolutions.ask(path, find("h200"), [wrong, MEASURED]) == [-1, BYTES]


@needs_cudnn
def test_recordings_have_what_was_not_measured(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(7, 29, 5), nn.Conv2d(29, 31, 1), nn.Conv2d(31, 31, 3, groups=31))
    found = record(tmp_path / "a.mrec", model, torch.randn(13, 7, 41, 43))
    first = [[13, 7, 41, 43], [29, 7, 5, 5], [13, 29, 37, 39], [1, 1], [1, 1]]
    passes = {(line[1], line[3]) for line in found if line[6:11] == first}
    assert passes == {(name, last) for name in ("forward", "weight") for last in (False, True)}  # x has no gradient
    products = [line for line in found if line[7][2:] == [1, 1]]
    assert products
    assert not any(line[3] for line in products)  # in channels-last order cuBLAS's
    assert all(line[3] for line in found if line[5] == 31)  # depthwise: PyTorch's own in row-major order
    assert all(line[-1] >= 0 and line[2] == "float32" for line in found)


@needs_cudnn
def test_rows_are_raised_to_images(tmp_path: Path) -> None:
    found = record(tmp_path / "a.mrec", nn.Conv1d(7, 29, 5, stride=2), torch.randn(13, 7, 431))
    shapes = [[13, 7, 1, 431], [29, 7, 1, 5], [13, 29, 1, 214], [1, 2], [1, 1]]
    assert found
    assert all(line[6:11] == shapes and line[3] is False for line in found)


@needs_cudnn
@pytest.mark.parametrize("gpu", ["a100-80gb", "rtx-4090"])
def test_other_chips_are_not_asked_about(tmp_path: Path, gpu: str) -> None:
    assert record(tmp_path / "a.mrec", nn.Conv2d(7, 29, 5), torch.randn(13, 7, 41, 43), gpu) == []


def test_what_was_measured_is_not_asked() -> None:
    assert MEASURED.key() in convolutions.measured()
    others = [MEASURED._replace(x=(64, 128, 56, n), y=(64, 128, 28, n // 2)).key() for n in range(1001, 2001)]
    assert sum(key in convolutions.measured() for key in others) < 60


def test_the_measured_ones_are_those_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "measure"))
    script = importlib.import_module("known_convolutions")
    assert convolutions.Measured.of(script.keys()).bits == convolutions.measured().bits


@needs_cudnn
def test_no_engine_takes_less_than_the_one_that_is_named() -> None:
    path = convolutions.library()
    (first,) = convolutions.ask(path, find("h200"), [MEASURED])
    (tried,) = convolutions.ask(path, find("h200"), [MEASURED], engines=10)
    (largest,) = convolutions.ask(path, find("h200"), [MEASURED], engines=0)
    assert BYTES == first <= tried <= largest


@pytest.mark.parametrize("gpu", ["h200", "a100-80gb"])
def test_searches_are_recorded(tmp_path: Path, gpu: str) -> None:
    def found(name: str) -> list[Any]:
        with memestimate.record(tmp_path / name, gpu=gpu):
            nn.Conv2d(256, 128, 3, padding=1).cuda()(torch.randn(2, 256, 128, 128).cuda()).sum().backward()
        with gzip.open(tmp_path / name, "rt") as file:
            return [line for line in map(json.loads, list(file)[1:]) if line[0] == "search"]

    assert found("without.mrec") == []
    with torch.backends.cudnn.flags(benchmark=True):
        forward, weight = found("with.mrec")
    shapes = [[2, 256, 128, 128], [128, 256, 3, 3], [2, 128, 128, 128], [1, 1], [1, 1]]
    assert forward[1:-2] == ["forward", "float32", False, False, 1, *shapes]
    assert weight[1:-2] == ["weight", "float32", False, False, 1, *shapes]
    for *_, offered, tried in (forward, weight):
        assert 0 <= tried <= offered
        assert (offered > 0) == (gpu == "h200" and torch.version.cuda is not None)  # no other chip is asked about


@pytest.mark.usefixtures("program")
def test_a_search_takes_no_more_than_is_free(tmp_path: Path) -> None:
    """It raises the peak of the first step on a large GPU, and never decides whether the step fits a small one."""

    def peak(name: str, gpu: str) -> Any:
        return json.loads(program.run([str(tmp_path / name), "--gpu", gpu, "--format", "json"]).stdout)["peak"]

    for name, benchmark in (("without.mrec", False), ("with.mrec", True)):
        with torch.backends.cudnn.flags(benchmark=benchmark), memestimate.record(tmp_path / name, gpu="h200"):
            nn.Conv2d(256, 128, 3, padding=1).cuda()(torch.randn(2, 256, 128, 128).cuda()).sum().backward()
    large, plain = peak("with.mrec", "h200"), peak("without.mrec", "h200")
    assert large["allocated_bytes"] > plain["allocated_bytes"] + (16 << 30)
    assert large["safe_bytes"] > large["device_bytes"] > 17 << 30
    small, plain = peak("with.mrec", "t4"), peak("without.mrec", "t4")
    assert small["allocated_bytes"] == plain["allocated_bytes"]
    assert small["safe_bytes"] < 2 << 30


@needs_cudnn
@pytest.mark.usefixtures("program")
def test_what_cudnn_answers_is_in_what_the_program_asks(tmp_path: Path) -> None:
    path = tmp_path / "a.mrec"
    with memestimate.record(path, gpu="h200"), torch.no_grad():
        # The trees would have it take 6 MB more.
        nn.Conv2d(384, 512, 7, padding=3).cuda()(torch.ones(6, 384, 28, 28).cuda())
        asked = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    peak = json.loads(program.run([str(path), "--format", "json"]).stdout)["peak"]
    assert lines(path)
    assert (peak["allocated_bytes"], peak["reserved_bytes"]) == asked

"""`estimate`, `fit` and `from_config`, asked through the program."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import memestimate
from memestimate.api import search

BATCH, WIDTH, CLASSES = 64, 1024, 256


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))


def rounded(net: nn.Module) -> int:
    return sum(-(-p.numel() * p.element_size() // 512) * 512 for p in net.parameters())


@pytest.mark.usefixtures("program")
def test_a_step_of_adamw() -> None:
    """Weights, gradients, two states, the foreach step's temporary, the batch, and cuBLAS's workspaces."""
    net = model()
    x, labels = torch.randn(BATCH, WIDTH), torch.randint(0, CLASSES, (BATCH,))
    answer = memestimate.estimate(net, (x,), labels=labels, gpu="h200")
    batch = BATCH * WIDTH * 4 + BATCH * 8
    workspaces = 2 * (32 << 20) + 2 * (1 << 20)  # 32 MiB of cuBLAS and 1 MiB of cublasLt a thread
    tensors = 5 * rounded(net) + batch
    assert tensors < answer.peak.allocated <= tensors + workspaces + (1 << 20)
    assert answer.peak.allocated <= answer.peak.reserved < answer.peak.device <= answer.peak.likely <= answer.peak.safe
    assert all(p.device.type == "cpu" and p.grad is None for p in net.parameters())


@pytest.mark.usefixtures("program")
def test_the_output_lives_through_the_backward_pass(tmp_path: Path) -> None:
    """The loop of `estimate` is the one that people write, and its optimizer's states are counted."""
    net = nn.Linear(WIDTH, CLASSES, device="meta")
    x, labels = torch.zeros(1, WIDTH).expand(1 << 14, WIDTH), torch.zeros(1 << 14, dtype=torch.long)
    answer = memestimate.estimate(net, (x,), labels=labels)
    assert answer.data["optimizer_state"]["bytes"] >= 2 * sum(p.numel() for p in net.parameters()) * 4
    with memestimate.record(tmp_path / "loop.mrec", gpu="h200") as recorder:
        written = nn.Linear(WIDTH, CLASSES, device="meta").to_empty(device="cuda")
        optimizer = torch.optim.AdamW(written.parameters())
        inputs, wanted = torch.empty(1 << 14, WIDTH, device="cuda"), labels.to("cuda")
        for _ in range(2):
            output = written(inputs)
            loss = nn.functional.cross_entropy(output, wanted)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
    assert answer.peak.allocated == memestimate.Estimate(tmp_path / "loop.mrec").peak.allocated


@pytest.mark.usefixtures("program")
def test_precisions_and_modes_change_the_answer() -> None:
    x = torch.zeros(1, WIDTH).expand(1 << 16, WIDTH)

    def allocated(**settings: object) -> int:
        return memestimate.estimate(model(), (x,), **settings).peak.allocated  # type: ignore[arg-type]

    plain = allocated()
    assert allocated(precision="bf16") < 0.7 * plain
    assert allocated(mode="infer") < plain
    assert allocated(optimizer=torch.optim.SGD) < plain


@pytest.mark.usefixtures("program")
def test_what_an_answer_offers(tmp_path: Path) -> None:
    answer = memestimate.estimate(model(), (torch.randn(BATCH, WIDTH),), recording=tmp_path / "step.mrec")
    assert answer.fits("t4")
    assert not answer.fits("32MiB")
    assert "max_memory_allocated()" in str(answer)
    assert len(str(answer).splitlines()) <= 20  # what a terminal shows
    assert "Linear" in answer.table()
    answer.to_html(tmp_path / "step.html")
    assert (tmp_path / "step.html").read_text().startswith("<!")
    answer.snapshot(tmp_path / "step.pickle")
    with (tmp_path / "step.pickle").open("rb") as file:
        trace = pickle.load(file)["device_traces"][0]
    assert {event["action"] for event in trace} >= {"alloc", "free_requested", "segment_alloc"}


@pytest.mark.usefixtures("program")
def test_fit_agrees_with_a_recording_of_its_batch() -> None:
    x = torch.randn(BATCH, WIDTH)
    found = memestimate.fit(model(), (x,), gpu="t4")
    lines = str(found).splitlines()
    assert [line.split(" ")[1] for line in lines] == [
        str(n) for n in (found.safe_batch, found.likely_batch, found.batch)
    ]
    assert f"the largest that fits {found.memory / 2**30:.2f} GiB" in lines[-1]
    assert found.safe_share == 0.985
    assert "is safe: fewer than two runs in a hundred take more than" in lines[0]
    assert repr(found).startswith(f"<Fit batch={found.batch} ")
    assert found.safe_batch <= found.batch
    assert found.batch > BATCH
    row = next(b for b in found.curve if b.batch == found.batch)
    again = memestimate.estimate(model(), (torch.zeros(1, WIDTH).expand(found.batch, WIDTH),), gpu="t4")
    assert row.allocated == again.peak.allocated


class Padded(nn.Module):
    """Of as many rows as the next power of two."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = model()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = 1 << (x.shape[0] - 1).bit_length()
        return self.inner(torch.cat([x, x.new_zeros(rows - x.shape[0], WIDTH)]))


@pytest.mark.usefixtures("program")
def test_what_no_line_foretells_is_recorded_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LARGEST", 16)
    found = memestimate.fit(Padded(), torch.randn(4, WIDTH), gpu="t4")
    assert [row.batch for row in found.curve] == [1, 2, 4, 8, 16]
    assert found.batch == found.safe_batch == 16
    assert found.safe_share == 0.985
    assert "recorded by itself" in found.notes[0]
    assert "/" not in found.notes[0]
    assert "no batch up to 16 was too large" in found.notes[1]


def test_refusals_are_sentences() -> None:
    with pytest.raises(ValueError, match="precision: fp8 is not modelled; bf16 takes more"):
        memestimate.estimate(model(), (torch.randn(2, WIDTH),), precision="fp8")
    with pytest.raises(ValueError, match="batch dimension"):
        memestimate.fit(model(), (), gpu="t4")
    x = torch.randn(2, WIDTH)
    with pytest.raises(ValueError, match="labels are numbers"):
        memestimate.estimate(model(), (x,), labels=x)
    with pytest.raises(ValueError, match="no parameter of the model"):
        memestimate.estimate(model().requires_grad_(False), x)
    with pytest.raises(ValueError, match="at least one"):
        memestimate.estimate(model(), x, steps=0)
    with pytest.raises(TypeError, match=r"torch\.optim\.SGD, or functools"):
        memestimate.estimate(model(), x, optimizer=torch.optim.SGD(model().parameters()))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="loss 'mse' compares with labels: give labels="):
        memestimate.estimate(model(), x, loss="mse")
    with pytest.raises(TypeError, match=r"not an nn\.Module"):
        memestimate.estimate(torch.sum, x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"forward\(\) has no x: give args= and kwargs= apart"):
        memestimate.estimate(torch.nn.Bilinear(WIDTH, WIDTH, 1), {"x": x})


def test_a_configuration_that_is_not_there_is_told() -> None:
    pytest.importorskip("transformers")
    with pytest.raises(FileNotFoundError, match="no such configuration"):
        memestimate.from_config("nowhere/config.json")


def test_torch_is_imported_when_it_is_needed() -> None:
    code = "import sys, memestimate; print('torch' in sys.modules, memestimate.ProgramError.__name__)"
    source = str(Path(memestimate.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=source)
    assert done.stdout.split() == ["False", "ProgramError"]


@pytest.mark.usefixtures("program")
def test_the_model_itself_is_a_layer_with_a_name() -> None:
    answer = memestimate.estimate(nn.Linear(WIDTH, CLASSES), (torch.zeros(BATCH, WIDTH),))
    of_parameters = {held["layer"] for held in answer.data["peak"]["live"] if held["category"] == "parameter"}
    assert of_parameters == {"model"} == {layer["name"] for layer in answer.data["layers"]}


@pytest.mark.usefixtures("program")
def test_the_verdict_comes_first() -> None:
    x = torch.randn(BATCH, WIDTH)
    answer = memestimate.estimate(model(), (x,), gpu="t4")
    first = str(answer).splitlines()[0]
    assert first.startswith(f"Sequential, batch {BATCH}: fits Tesla T4: ")
    assert answer.data["fits"][0]["fits"]
    small = memestimate.estimate(model(), (x,), gpu="600MiB")
    assert f"Sequential, batch {BATCH}: does not fit 600MiB: " in str(small)
    assert not small.fits("600MiB")
    assert small.fits("24GiB")
    with pytest.raises(memestimate.ProgramError):
        small.fits("rtx-9999")
    assert "fits" not in memestimate.estimate(model(), (x,)).data

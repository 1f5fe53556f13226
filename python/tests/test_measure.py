"""The scripts that measured what the tests of the program read: all of them that needs no GPU."""

import gzip
import importlib
import subprocess
from pathlib import Path
from types import ModuleType

import onnx
import pytest
import torch
from torch import nn

ROOT = Path(__file__).parents[2]
SCRIPTS = ("exports", "steps", "convolutions", "operators", "optimizers", "snapshots")


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "measure"))


def script(name: str) -> ModuleType:
    return importlib.import_module(name)


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_says_which_file_it_makes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        script(name).main(["--help"])
    assert end.value.code == 0
    help_ = capsys.readouterr().out
    assert f"python3 {name}.py" in help_
    assert "testdata" in help_


def test_export_is_the_built_in_graph(tmp_path: Path) -> None:
    assert script("exports").main([str(tmp_path), "--models", "mlp", "--forms", "ts-train"]) == 0
    graphs = []
    for folder in (tmp_path, ROOT / "models" / "graphs"):
        data = subprocess.run(["zstd", "-dcq", str(folder / "mlp.ts-train.onnx.zst")], capture_output=True, check=True)
        graphs.append(onnx.load_from_string(data.stdout).graph)
    made, kept = ([(n.op_type, *n.input, *n.output) for n in graph.node] for graph in graphs)
    assert made == kept
    made, kept = ([(t.name, t.data_type, *t.dims) for t in graph.initializer] for graph in graphs)
    assert made == kept


ASKS = """
from types import SimpleNamespace
import torch


class Asks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).tanh() if torch.is_grad_enabled() else self.linear(x).sigmoid()


ZOO = {"asks": SimpleNamespace(build=Asks, inputs=lambda batch: torch.randn(batch, 4))}
"""


@pytest.mark.parametrize(("form", "runs"), [("ts-train", "Tanh"), ("dynamo-train", "Tanh"), ("ts-eval", "Sigmoid")])
def test_exports_for_training_are_traced_with_gradients(tmp_path: Path, form: str, runs: str) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    assert script("exports").main([str(tmp_path), "--zoo", str(tmp_path / "asks.py"), "--forms", form]) == 0
    packed = tmp_path / f"asks.{form}.onnx.zst"
    data = subprocess.run(["zstd", "-dcq", str(packed)], capture_output=True, check=True).stdout
    operators = {n.op_type for n in onnx.load_from_string(data).graph.node}
    assert operators & {"Tanh", "Sigmoid"} == {runs}


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no model 'mpl': want some of"):
        script("exports").main([str(tmp_path), "--models", "mpl"])
    with pytest.raises(SystemExit, match="no form 'ts'"):
        script("exports").main([str(tmp_path), "--forms", "ts"])
    for name in ("operators", "snapshots"):
        arguments = [str(tmp_path / "out"), "nothing"] if name == "snapshots" else [str(tmp_path), "--only", "nothing"]
        with pytest.raises(SystemExit):
            script(name).main(arguments)


def test_convolutions_are_written_as_they_were_read() -> None:
    convolutions = script("convolutions")
    path = ROOT / "simulate" / "kernels" / "testdata" / "convolutions.bin.gz"
    data = gzip.decompress(path.read_bytes())
    rows, provenance = convolutions.decode(data)
    assert len(rows) > 80_000
    assert convolutions.encode(rows, provenance) == data


def test_convolutions_of_a_model() -> None:
    convolutions = script("convolutions")
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 2, 2))
        found = convolutions.shapes_of(model, torch.randn(2, 3, 16, 16))
    assert {(s.transposed, s.c, s.k, s.x, s.w, s.padding) for s in found} == {
        (False, 3, 8, (16, 16), (3, 3), (1, 1)),
        (True, 8, 4, (16, 16), (2, 2), (0, 0)),
    }
    assert convolutions.workspace([100, 40, -40, -60]) == 40  # 60 was there before
    assert convolutions.workspace([100]) == 0
    assert convolutions.workspace([]) == convolutions.NOT_SEEN


def test_cases_are_asked_without_their_answers() -> None:
    steps, allocator = script("steps"), script("allocator")
    measured = allocator.read(ROOT / "estimate" / "testdata" / "truth" / "variants.json.gz")["cases"]
    asked = [steps.question(case) for case in measured]
    assert len(asked) == 200
    assert not any("peak_alloc" in case or "steps" in case for case in asked)
    assert {case["opt"] for case in asked if case["mode"] == "train"} <= set(steps.OPTIMIZERS)
    plain = allocator.read(ROOT / "estimate" / "testdata" / "truth" / "steps.json.gz")["cases"]
    traces = (ROOT / "simulate" / "caching" / "testdata" / "traces").glob("*.json.gz")
    chosen = {f"{case['model']}.{case['mode']}" for case in steps.largest([steps.question(c) for c in plain])}
    assert chosen == {path.name.removesuffix(".json.gz") for path in traces}


def test_optimizers_that_were_measured() -> None:
    cases = script("allocator").read(ROOT / "estimate" / "torch" / "testdata" / "optimizers.json.gz")["cases"]
    kept = sorted((c["name"], c["kind"], tuple(c["shape"]), c["dtype"]) for c in cases)
    assert sorted(script("optimizers").questions()) == kept


def test_operators_are_drawn_alike() -> None:
    operators = script("operators")
    alone = [call.about for call in operators.calls(["rnn"])]
    assert alone == [call.about for call in operators.calls(["rnn"])]
    both = [call.about for call in operators.calls(["norm", "rnn"])]
    assert both[-len(alone) :] == alone
    assert {about["op"] for about in alone} == {"lstm", "gru", "rnn"}

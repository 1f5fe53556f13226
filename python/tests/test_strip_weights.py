"""The script that leaves the weights out of a graph: what is left answers the same, and has nothing trained in it."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


def strip(monkeypatch: pytest.MonkeyPatch, path: Path) -> onnx.GraphProto:
    light = path.with_name("light.onnx")
    monkeypatch.setattr(sys, "argv", ["strip_weights.py", str(path), str(light)])
    importlib.import_module("strip_weights").main()
    return onnx.load(light, load_external_data=False).graph


def save(path: Path, nodes: list[onnx.NodeProto], tensors: dict[str, np.ndarray]) -> None:
    """Write a graph from x, of 4 times 64, to y."""
    held = [numpy_helper.from_array(values, name) for name, values in tensors.items()]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [4, 64]), ("y", None))
    )
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)


def pooled(dtype: type) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    """As many copies of x as the last position says, as a model makes whose tables are of floating point."""
    nodes = [
        helper.make_node("Mul", ["x", "weight"], ["scaled"]),
        helper.make_node("Gather", ["positions", "last"], ["length"]),
        helper.make_node("Cast", ["length"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Concat", ["whole", "shape"], ["wide"], axis=0),
        helper.make_node("Expand", ["scaled", "wide"], ["y"]),
    ]
    tensors = {
        "weight": np.linspace(-1, 1, 64, dtype=np.float32),
        "positions": np.arange(64, dtype=dtype) * 2,
        "last": np.array([-1]),
        "shape": np.array([4, 64]),
    }
    return nodes, tensors


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_sizes_are_computed_of_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Path, dtype: type
) -> None:
    whole = tmp_path / "whole.onnx"
    save(whole, *pooled(dtype))
    left = {t.name: t for t in strip(monkeypatch, whole).initializer}
    assert left["weight"].data_location == TensorProto.EXTERNAL
    assert not left["weight"].raw_data
    answers = []
    for path in (whole, whole.with_name("light.onnx")):
        command = [program, "table", str(path), "--mode", "infer", "--columns", "operator,output"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
        answers.append([line for line in lines if "Expand" in line])
    assert answers[0] == answers[1]
    assert "[126, 4, 64]" in answers[0][0]


def test_what_is_trained_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {
        "trained": np.linspace(0, 63, 64, dtype=np.float32) + 0.25,
        "ones": np.ones(64, dtype=np.float32),
        "infinite": np.append(np.arange(63, dtype=np.float32), np.float32(np.inf)),
        "many": np.arange(2000, dtype=np.float32),
        "scale": np.array(0.125, dtype=np.float32),
        "table": np.arange(64, dtype=np.float32).reshape(1, 64),
    }
    nodes = [helper.make_node("Sum", ["x", *tensors], ["y"])]
    save(tmp_path / "whole.onnx", nodes, tensors)
    graph = strip(monkeypatch, tmp_path / "whole.onnx")
    assert [t.name for t in graph.initializer if t.data_location != TensorProto.EXTERNAL] == ["scale", "table"]


def test_weights_that_the_file_lacks_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "whole.onnx"
    save(path, [helper.make_node("Add", ["x", "lacking"], ["y"])], {"lacking": np.arange(64, dtype=np.float32)})
    model = onnx.load(path)
    model.graph.initializer[0].raw_data = b"1234"
    onnx.save(model, path)
    assert strip(monkeypatch, path).initializer[0].data_location == TensorProto.EXTERNAL

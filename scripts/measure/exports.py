"""Export models as ONNX without weights: models/graphs and the graphs of estimate/testdata.

    python3 exports.py OUT [--models mlp,resnet50] [--forms ts-train,dynamo-train] [--zoo FILE.py] [--lines]

writes OUT/MODEL.FORM.onnx.zst for each model of zoo.py, or of another file that has a ZOO like it, and for each form.
It needs no GPU. What a model cannot be exported as is said, and the others go on. --lines keeps the program's own lines
in the file, as in estimate/testdata/lines. The zstd command compresses.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import onnx
import torch
from torch import Tensor, nn

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from strip_weights import Stripper  # noqa: E402

NAMES: dict[str, Any] = {"input_names": ["input"], "output_names": ["output"]}
BATCH = "batch"


def ts_train(model: nn.Module, x: Tensor, path: str) -> None:
    """Export for training by the TorchScript exporter, nothing folded.

    Gradients are enabled, as in training: a model may ask whether they are, to use checkpoints.
    """
    _torchscript(model.train(), x, path, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)


def ts_eval(model: nn.Module, x: Tensor, path: str) -> None:
    """Export by the TorchScript exporter's defaults."""
    with torch.no_grad():
        _torchscript(model.eval(), x, path)


def _torchscript(model: nn.Module, x: Tensor, path: str, **settings: Any) -> None:
    axes = {"input": {0: BATCH}, "output": {0: BATCH}}
    torch.onnx.export(
        model, (x,), path, dynamo=False, opset_version=17, dynamic_axes=axes, verbose=False, **NAMES, **settings
    )


def _symbolic() -> tuple[dict[int, Any]]:
    return ({0: torch.export.Dim(BATCH, min=1, max=65536)},)


def dynamo(model: nn.Module, x: Tensor, path: str) -> None:
    """Export by the default exporter of torch 2.9 and later."""
    with torch.no_grad():
        torch.onnx.export(
            model.eval(),
            (x,),
            path,
            dynamo=True,
            dynamic_shapes=_symbolic(),
            external_data=True,
            verbose=False,
            **NAMES,
        )


def dynamo_train(model: nn.Module, x: Tensor, path: str) -> None:
    """Export what torch.export sees in training mode and with gradients, not optimised."""
    program = torch.export.export(model.train(), (x,), dynamic_shapes=_symbolic(), strict=False)
    exported = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False, **NAMES)
    assert exported is not None
    exported.save(path, external_data=True)


FORMS: dict[str, Callable[[nn.Module, Tensor, str], None]] = {
    "ts-train": ts_train,
    "ts-eval": ts_eval,
    "dynamo": dynamo,
    "dynamo-train": dynamo_train,
}


def light(path: str, lines: bool) -> onnx.ModelProto:
    """Read an export, and leave its weights out."""
    graph: onnx.ModelProto = onnx.load(path, load_external_data=False)
    stripper = Stripper("weights.bin", lines)
    stripper.graph(graph.graph)
    for function in graph.functions:
        for node in function.node:
            stripper.attributes(node)
            stripper.clean(node)
    return graph


def export(build: Callable[[], nn.Module], inputs: Callable[[int], Tensor], form: str, lines: bool) -> onnx.ModelProto:
    """Export a model at batch 2, without weights."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        FORMS[form](build(), inputs(2), path)
        return light(path, lines)


def zoo_of(path: Path) -> Mapping[str, Any]:
    """Return the models that a file names."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: not a file of Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    models: Mapping[str, Any] = module.ZOO
    return models


def chosen(named: str, known: Mapping[str, Any], what: str) -> list[str]:
    """Return the names in a list with commas, all for none."""
    names = [name for name in named.split(",") if name] or list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no {what} {unknown[0]!r}: want some of {', '.join(known)}")
    return names


def main(arguments: list[str] | None = None) -> int:
    """Export what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--forms", default="")
    parser.add_argument("--zoo", type=Path, default=Path(__file__).with_name("zoo.py"))
    parser.add_argument("--lines", action="store_true")
    args = parser.parse_args(arguments)
    forms = chosen(args.forms, FORMS, "form")
    zoo = zoo_of(args.zoo)
    failed = 0
    args.out.mkdir(parents=True, exist_ok=True)
    for name in chosen(args.models, zoo, "model"):
        for form in forms:
            try:
                graph = export(zoo[name].build, zoo[name].inputs, form, args.lines)
            except Exception as error:  # exporters raise whatever they meet
                print(f"{name}.{form}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
                failed += 1
                continue
            target = args.out / f"{name}.{form}.onnx.zst"
            data = graph.SerializeToString()
            # A frame that says how much is in it is unpacked into memory of that size, in an eighth of the time.
            command = ["zstd", "-q", "-19", "-f", f"--stream-size={len(data)}", "-o", str(target)]
            subprocess.run(command, input=data, check=True)
            print(f"{target}: {len(graph.graph.node)} nodes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure training steps under torch.compile on a GPU: cases of estimate/testdata/beyond/compile.json.gz.

usage: compiled.py OUT.json [SECONDS] [--width N] [--cpu]

Every case is a model of zoo.py and runs three steps of AdamW in a process of its own, as steps.py does; inferences run
under no_grad. What is left when SECONDS are over is named. --cpu traces each model with a batch of two, without
inductor and without figures, to see whether Dynamo takes it at all.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import time
import traceback
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")  # several cases compile at once

import torch
from steps import Measurement, loss_of, process_mib
from torch import nn
from zoo import ZOO

FP32, AMP = "fp32", "amp-bf16"
BATCHES: dict[str, int] = {
    "mlp": 512,
    "squeezenet1_1": 64,
    "torch_encoder": 64,
    "unet": 16,
    "t5_small": 16,
    "r3d_18": 8,
    "mobilenet_v2": 64,
    "bert_base": 32,
    "llama_160m": 8,
    "resnet18": 64,
    "distilbert": 32,
    "vgg16": 32,
}
# Large graphs first, so that none is begun last.
CASES: list[tuple[str, str, str]] = [
    *(
        (name, "train", dtype)
        for name in ("llama_160m", "bert_base", "mobilenet_v2", "t5_small")
        for dtype in (FP32, AMP)
    ),
    *((name, "train", dtype) for name in ("unet", "r3d_18", "torch_encoder", "squeezenet1_1") for dtype in (FP32, AMP)),
    *(("mlp", "train", AMP), ("resnet18", "train", FP32), ("distilbert", "train", AMP), ("vgg16", "train", FP32)),
    *(("bert_base", "infer", FP32), ("resnet18", "infer", FP32), ("unet", "infer", FP32)),
]


class Compiled(Measurement):
    """One compiled case on the GPU."""

    def prepare(self) -> None:
        """Build the model and its input on the GPU, and compile it when it is first called."""
        super().prepare()
        self.model: nn.Module = torch.compile(self.model)  # type: ignore[assignment]

    def saved(self) -> None:
        """Say nothing: what a compiled step saves is inductor's."""


def measure(path: str, model: str, mode: str, dtype: str) -> None:
    """Measure one case, and write it."""
    case = {"model": model, "mode": mode, "dtype": dtype, "opt": "adamw", "batch": BATCHES[model], "compile": 1}
    try:
        answer = Compiled(case, ZOO).run(False) | {"smi_mib": process_mib()}
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever it is, it is the case's answer
        answer = {
            **case,
            "error": f"{type(error).__name__}: {str(error)[:300]}",
            "where": traceback.format_exc()[-400:],
        }
    Path(path).write_text(json.dumps(answer))
    os._exit(0)  # without waiting for inductor's workers


def trace(model: str) -> str:
    """Say what Dynamo and AOTAutograd make of a training step on the CPU: ok, or the error."""
    entry = ZOO[model]
    try:
        net, x = entry.build().train(), entry.inputs(2)
        explained = torch._dynamo.explain(net)(x)
        out = torch.compile(net, backend="aot_eager")(x)
        loss_of(out, entry.labels(2, out) if entry.labels else None).backward()
    except Exception as error:  # noqa: BLE001  Dynamo raises whatever it meets
        return f"{type(error).__name__}: {str(error)[:200]}"
    return f"ok, {explained.graph_count} graphs, {explained.graph_break_count} breaks"


def main() -> None:
    """Run all cases, so many at once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out")
    parser.add_argument("seconds", type=float, nargs="?", default=200)
    parser.add_argument("--width", type=int, default=6)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    if args.cpu:
        for model in dict.fromkeys(name for name, _, _ in CASES):
            print(model, trace(model), flush=True)
        return
    end = time.time() + args.seconds
    context = mp.get_context("spawn")
    todo, live, done = (
        list(CASES),
        dict[str, tuple[SpawnProcess, tuple[str, str, str], float]](),
        list[dict[str, Any]](),
    )
    while todo or live:
        while todo and len(live) < args.width and time.time() < end:
            case = todo.pop(0)
            path = f"{args.out}.{'-'.join(case)}"
            process = context.Process(target=measure, args=(path, *case))
            process.start()
            live[path] = process, case, time.time()
        if time.time() >= end and todo:
            print("left out:", todo)
            todo = []
        time.sleep(0.2)
        for path, (process, case, since) in list(live.items()):
            if process.is_alive() and time.time() < end:
                continue
            process.kill()
            del live[path]
            answer = {"model": case[0], "mode": case[1], "dtype": case[2], "error": "no answer in time"}
            if Path(path).exists():
                answer = json.loads(Path(path).read_text())
                Path(path).unlink()
            done.append(answer)
            print(*case, f"{time.time() - since:.0f} s", answer.get("peak_alloc"), answer.get("error"), flush=True)
        about = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cases": done}
        Path(args.out).write_text(json.dumps(about))


if __name__ == "__main__":
    main()

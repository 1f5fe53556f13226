"""Measure training steps and inferences on a GPU: estimate/testdata/*/steps.json.gz and truth/variants.json.gz.

    python3 steps.py CASES.json.gz OUT.json.gz [--models mlp,resnet50] [--zoo FILE.py] [--traces DIR] [--memtracker]

measures the cases that a file lists once more, each in a process of its own: model, mode, dtype, opt and batch, and the
flags around the loop (channels_last, accum, clip, set_to_none, foreach, scaler, benchmark, alloc_conf, cap_mib).
--traces writes each event of the allocator in float32 with sgdm, and in inference, at the largest batch of a model:
DIR/MODEL.MODE.json.gz, as in simulate/caching/testdata/traces. --memtracker asks PyTorch's own tracker as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
import allocator
from exports import zoo_of

CASE = ("model", "mode", "dtype", "opt", "batch")
FLAGS = ("channels_last", "accum", "clip", "set_to_none", "foreach", "scaler", "benchmark", "alloc_conf", "cap_mib")
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
STEPS = {"train": 3, "infer": 2}
OPTIMIZERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {}),
    "sgdm": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "adamw-fused": (torch.optim.AdamW, {"fused": True}),
    "adafactor": (torch.optim.Adafactor, {}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "adagrad": (torch.optim.Adagrad, {}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
}


def question(case: dict[str, Any]) -> dict[str, Any]:
    """Return what of a measured case is asked, without what was answered."""
    return {key: case[key] for key in (*CASE, *FLAGS) if key in case}


def optimizer(case: dict[str, Any], model: nn.Module) -> torch.optim.Optimizer:
    """Make a case's optimizer."""
    kind, settings = OPTIMIZERS[case["opt"]]
    if "foreach" in case:
        settings = {**settings, "foreach": case["foreach"]}
    return kind(model.parameters(), lr=1e-4, **settings)


def loss_of(out: Tensor, labels: Tensor | None) -> Tensor:
    """Return cross entropy, or the mean where there are no labels."""
    if labels is None:
        return out.float().mean()
    if out.dim() == 3:  # tokens
        return F.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1))
    return F.cross_entropy(out, labels)


def autocast(case: dict[str, Any]) -> AbstractContextManager[Any]:
    """Return the context that a case's forward passes run in."""
    dtype = AUTOCAST.get(case["dtype"])
    return torch.autocast("cuda", dtype=dtype) if dtype else torch.autocast("cuda", enabled=False)


def process_mib() -> int | None:
    """Return what nvidia-smi says of this process, in MiB; None where it does not see it."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    lines = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    for pid, used in (line.split(",") for line in lines if line.count(",") == 1):
        if int(pid) == os.getpid():
            return int(used)
    return None


class Measurement:
    """One case on the GPU.

    Parameters
    ----------
    case
        What is measured.
    zoo
        The models by name.
    """

    def __init__(self, case: dict[str, Any], zoo: Any) -> None:
        self.case, self.entry = case, zoo[case["model"]]
        self.answer: dict[str, Any] = dict(case)

    def prepare(self) -> None:
        """Build the model and its input on the GPU."""
        case, answer = self.case, self.answer
        torch.manual_seed(0)
        dtype = TYPES.get(case["dtype"], torch.float32)
        form = torch.channels_last if case.get("channels_last") else torch.preserve_format
        self.model: nn.Module = self.entry.build().to("cuda", dtype).train(case["mode"] == "train")
        if case.get("channels_last"):
            self.model = self.model.to(memory_format=form)
        parameters = list(self.model.parameters())
        answer["param_bytes"] = sum(p.nbytes for p in parameters)
        answer["param_count"], answer["param_tensors"] = sum(p.numel() for p in parameters), len(parameters)
        answer["buffer_bytes"] = sum(b.nbytes for b in self.model.buffers())
        answer["alloc_model"] = torch.cuda.memory_allocated()
        x: Tensor = self.entry.inputs(case["batch"])
        self.x = x.to("cuda", dtype) if x.is_floating_point() else x.to("cuda")
        if case.get("channels_last") and x.dim() == 4:
            self.x = self.x.to(memory_format=form)
        answer["input_bytes"], answer["alloc_inputs"] = self.x.nbytes, torch.cuda.memory_allocated()

    def infer(self) -> list[dict[str, int]]:
        """Run inferences."""
        steps = []
        with torch.no_grad():
            for _ in range(STEPS["infer"]):
                torch.cuda.reset_peak_memory_stats()
                with autocast(self.case):
                    out = self.model(self.x)
                torch.cuda.synchronize()
                step = self.after("fwd")
                steps.append({**step, "reserved": torch.cuda.memory_reserved(), "out_bytes": out.nbytes})
                del out
        return steps

    def after(self, phase: str) -> dict[str, int]:
        """Return what is allocated after a phase, and the most within it; the next one begins."""
        figures = {phase: torch.cuda.memory_allocated(), f"peak_{phase}": torch.cuda.max_memory_allocated()}
        torch.cuda.reset_peak_memory_stats()
        return figures

    def train(self) -> list[dict[str, int]]:
        """Run training steps."""
        case = self.case
        update = optimizer(case, self.model)
        scaler = GradScaler("cuda", enabled=bool(case.get("scaler")))
        self.labels: Tensor | None = None
        steps = []
        for i in range(STEPS["train"]):
            step: dict[str, int] = {}
            torch.cuda.reset_peak_memory_stats()
            with autocast(case):
                out = self.model(self.x)
                step |= {"fwd": torch.cuda.memory_allocated(), "peak_fwd": torch.cuda.max_memory_allocated()}
                if i == 0:
                    self.answer |= {"out_shape": list(out.shape), "out_dtype": str(out.dtype)}
                    if self.entry.labels:
                        self.labels = self.entry.labels(case["batch"], out).to("cuda")
                torch.cuda.reset_peak_memory_stats()
                loss = loss_of(out, self.labels)
            step |= self.after("loss")
            scaler.scale(loss).backward()
            for _ in range(case.get("accum", 1) - 1):
                with autocast(case):
                    out = self.model(self.x)
                    loss = loss_of(out, self.labels)
                scaler.scale(loss).backward()
            step |= self.after("bwd")
            if case.get("clip"):
                scaler.unscale_(update)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), case["clip"])
            scaler.step(update)
            scaler.update()
            step |= self.after("opt")
            update.zero_grad(set_to_none=case.get("set_to_none", True))
            steps.append({**step, "end": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()})
        return steps

    def saved(self) -> None:
        """Say what autograd saves in one forward pass: each storage once, parameters and buffers left out."""
        own = {t.untyped_storage().data_ptr() for t in (*self.model.parameters(), *self.model.buffers())}
        seen: dict[int, int] = {}

        def pack(t: Tensor) -> Tensor:
            storage = t.untyped_storage()
            if storage.data_ptr() not in own:
                seen[storage.data_ptr()] = storage.nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), autocast(self.case):
            loss_of(self.model(self.x), self.labels)
        self.answer |= {"saved_bytes": sum(seen.values()), "saved_tensors": len(seen)}

    def run(self, traced: bool) -> dict[str, Any]:
        """Measure the case, with the allocator's events when asked to."""
        case, answer = self.case, self.answer
        torch.cuda.init()
        torch.backends.cudnn.benchmark = bool(case.get("benchmark"))
        if case.get("alloc_conf"):
            torch.cuda.memory._set_allocator_settings(case["alloc_conf"])
        total = torch.cuda.get_device_properties(0).total_memory
        if case.get("cap_mib"):
            torch.cuda.set_per_process_memory_fraction(case["cap_mib"] * 2**20 / total)
        if traced:
            allocator.begin()
        try:
            self.prepare()
            steps = self.infer() if case["mode"] == "infer" else self.train()
        except torch.OutOfMemoryError as error:
            tried = str(error).partition("Tried to allocate ")[2].partition(".  ")[0]
            return {**answer, "oom": True, "tried": " ".join(tried.split()[:2]).rstrip(".")}
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        answer |= {
            "steps": steps,
            "peak_alloc": max(v for step in steps for k, v in step.items() if k.startswith("peak")),
            "peak_reserved": torch.cuda.max_memory_reserved(),
            "num_segments": stats["segment.all.current"],
            "alloc_retries": stats["num_alloc_retries"],
            "smi_mib": process_mib(),
        }
        if traced:
            answer["trace"] = allocator.trace()
            if case["mode"] == "train":
                self.saved()
        return answer


def memtracker(case: dict[str, Any], zoo: Any) -> dict[str, Any]:
    """Ask torch.distributed._tools.MemTracker under FakeTensorMode for the same case."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    torch.cuda.init()
    began, entry, dtype = time.time(), zoo[case["model"]], TYPES.get(case["dtype"], torch.float32)
    with FakeTensorMode():
        torch.set_default_dtype(dtype)
        with torch.device("cuda"):
            model = entry.build()
        torch.set_default_dtype(torch.float32)
        x = entry.inputs(case["batch"])
        x = x.to("cuda", dtype) if x.is_floating_point() else x.to("cuda")
        tracker = MemTracker()
        if case["mode"] == "infer":
            tracker.track_external(model.eval(), x)
            with tracker, torch.no_grad(), autocast(case):
                model(x)
        else:
            update = optimizer(case, model.train())
            tracker.track_external(model, update, x)
            with tracker:
                for i in range(2):
                    with autocast(case):
                        out = model(x)
                        labels = entry.labels(case["batch"], out).to("cuda") if entry.labels else None
                        loss = loss_of(out, labels)
                    loss.backward()
                    update.step()
                    update.zero_grad()
                    if i == 0:
                        tracker.reset_mod_stats()
    peak = next(v for k, v in tracker.get_tracker_snapshot("peak").items() if "cuda" in str(k))
    return {"memtracker_peak": int(peak["Total"]), "memtracker_seconds": time.time() - began}


def largest(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cases of which the allocator's events are written: the largest batch by model and mode."""
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for case in cases:
        plain = not any(case.get(flag) for flag in FLAGS)
        if plain and case["dtype"] == "fp32" and case.get("opt") in ("sgdm", None, ""):
            key = (case["model"], case["mode"])
            if key not in best or case["batch"] > best[key]["batch"]:
                best[key] = case
    return list(best.values())


def child(case: dict[str, Any], args: argparse.Namespace, task: str) -> dict[str, Any]:
    """Measure a case in a process of its own."""
    command = [sys.executable, __file__, "-", "-", "--zoo", str(args.zoo), "--case", json.dumps(case), "--task", task]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {**case, "error": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main(arguments: list[str] | None = None) -> int:
    """Measure the cases of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", default="", help="only these, with commas")
    parser.add_argument("--zoo", type=Path, default=Path(__file__).with_name("zoo.py"))
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--memtracker", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--task", choices=("plain", "traced", "memtracker"), default="plain", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.case:
        zoo, case = zoo_of(args.zoo), json.loads(args.case)
        tracked = args.task == "memtracker"
        print(json.dumps(memtracker(case, zoo) if tracked else Measurement(case, zoo).run(args.task == "traced")))
        return 0
    wanted = [name for name in args.models.split(",") if name]
    cases = [question(c) for c in allocator.read(args.cases)["cases"] if not wanted or c["model"] in wanted]
    traced = largest(cases)
    answers = []
    for case in cases:
        answer = child(case, args, "traced" if case in traced else "plain")
        events = answer.pop("trace", None)
        if args.traces and events is not None:
            allocator.write(args.traces / f"{case['model']}.{case['mode']}.json.gz", events)
        if args.memtracker and case in traced:
            answer |= {k: v for k, v in child(case, args, "memtracker").items() if k.startswith("memtracker")}
        print(*case.values(), answer.get("peak_alloc", answer.get("error", "out of memory")), flush=True)
        answers.append(answer)
    allocator.write(args.out, {"meta": allocator.versions(), "cases": answers})
    return 1 if any("error" in answer for answer in answers) else 0


if __name__ == "__main__":
    sys.exit(main())

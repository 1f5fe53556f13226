"""Record every measured case, without a GPU, for `go test ./estimate -run RecordedAccuracy -v -recordings OUT`.

usage: record_zoo.py CASES.json OUT [--zoo FILE.py] [--only MODEL,MODEL] [--seconds N] [--world N] [--figures]

CASES.json is a file of measurements, compressed or not. What is in OUT already is not recorded again, so that a run
that was stopped goes on where it was. Inference, which is short, comes first; then every model once before one comes
twice. Cases on several GPUs are left out, or with --world N all others: of those rank 0 of N is recorded.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gc
import gzip
import json
import os
import re
import runpy
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
import memestimate
from memestimate.api import program
from zoo import ZOO

# What tells one recording from another, in the order of a file's name.
MAIN = ("model", "mode", "dtype", "opt")
FLAGS = [
    *("channels_last", "accum", "clip", "set_to_none", "foreach", "scaler", "benchmark"),
    *("ckpt", "ckpt_modules", "train_only", "lora", "lora_dropout", "compile"),
    *("par", "mp", "reshard", "view"),
]
# What an estimate is told, and a recording need not know.
TOLD = ("alloc_conf", "cap_mib")

STEPS = {"train": 3, "infer": 2}
STORED = {"bf16": torch.bfloat16, "fp16": torch.float16}
AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
# The modules that are checkpointed one by one, and those that LoRA adds to.
BLOCKS = {
    "resnet50": r"layer\d\.\d+",
    "vit_b_16": r"encoder\.layers\.[^.]+",
    "gpt2": r"m\.transformer\.h\.\d+",
    "llama_160m": r"m\.model\.layers\.\d+",
    "qwen2_0_5b": r"m\.model\.layers\.\d+",
    "bert_base": r"m\.bert\.encoder\.layer\.\d+",
    "convnext_tiny": r"features\.[1357]\.\d+",
    "swin_t": r"features\.[1357]\.\d+",
    "mixer_b16": r"blocks\.\d+",
    "efficientnet_b0": r"features\.[1-7]\.\d+",
    "t5_small": r"m\.(en|de)coder\.block\.\d+",
    "torch_encoder": r"t\.layers\.\d+",
}
LORA = {"llama_160m": ["q_proj", "v_proj"], "qwen2_0_5b": ["q_proj", "v_proj"], "gpt2": ["c_attn"]}

Case = dict[str, Any]


def optimizer_of(case: Case, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The case's optimizer at its defaults."""
    if case.get("par") == "zero1":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(parameters, torch.optim.AdamW, lr=1e-4)
    given = {"foreach": case["foreach"]} if "foreach" in case else {}
    match case["opt"]:
        case "sgdm":
            return torch.optim.SGD(parameters, lr=1e-4, momentum=0.9, **given)
        case "adamw-fused":
            return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        case name:
            optim = torch.optim
            classes: list[Any] = [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adafactor, optim.Adagrad]
            classes += [optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam]
            made: Callable[..., optim.Optimizer] = {c.__name__.lower(): c for c in classes}[name]
            return made(parameters, lr=1e-4, **given)


def loss_of(out: Tensor, labels: Tensor | None) -> Tensor:
    """Cross entropy over the last dimension for tokens, over the second one for images."""
    if labels is None:
        return out.float().mean()
    if out.dim() == 3:
        return F.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1))
    return F.cross_entropy(out, labels)


def with_checkpoints(modules: str, model: nn.Module, *, reentrant: bool) -> None:
    """Checkpoint each module whose whole name an expression matches."""

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        if reentrant:  # it takes no arguments by name: as GradientCheckpointingLayer of transformers has it
            return lambda *args, **kwargs: checkpoint(functools.partial(forward, **kwargs), *args, use_reentrant=True)
        return lambda *args, **kwargs: checkpoint(forward, *args, use_reentrant=False, **kwargs)

    for path, block in model.named_modules():
        if re.fullmatch(modules, path):
            block.forward = wrapped(block.forward)


def spread(case: Case, model: nn.Module) -> nn.Module:
    """Wrap a model on the GPU as ranks do: DDP, also under ZeRO-1, or FSDP2 around each block and the model."""
    if case["par"] != "fsdp2":
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=bool(case.get("view")))
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if case.get("mp") else MixedPrecisionPolicy()
    for path, block in model.named_modules():
        if re.fullmatch(BLOCKS[case["model"]], path):
            fully_shard(block, reshard_after_forward=case.get("reshard", True), mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


def prepare(case: Case, model: nn.Module) -> nn.Module:
    """Do to a model on the GPU what the case does before it trains."""
    if case.get("lora"):
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(
            r=case["lora"], target_modules=LORA[case["model"]], lora_dropout=case.get("lora_dropout", 0.0)
        )
        adapted: Any = get_peft_model(cast(nn.Module, model.m), config)
        model.m = adapted.train()
        if "ckpt" in case:
            adapted.base_model.model.gradient_checkpointing_enable(
                gradient_checkpointing_kwargs={"use_reentrant": False}
            )
    elif "ckpt" in case:
        with_checkpoints(case.get("ckpt_modules", BLOCKS[case["model"]]), model, reentrant=case["ckpt"])
    if "train_only" in case:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(bool(re.match(case["train_only"], name)))
    if "par" in case:
        return spread(case, model)
    return cast(nn.Module, torch.compile(model)) if case.get("compile") else model


def autocast(case: Case) -> AbstractContextManager[Any]:
    dtype = AUTOCAST.get(case["dtype"])
    return torch.autocast("cuda", dtype=dtype, enabled=dtype is not None)


def run(case: Case, model: nn.Module, batch: Tensor) -> None:
    """The loop that was measured: its variables hold what they held there."""
    dtype = STORED.get(case["dtype"])
    model = model.to("cuda", dtype)
    last = torch.channels_last if case.get("channels_last") else torch.preserve_format
    if case.get("channels_last"):
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.train(case["mode"] == "train")
    model = prepare(case, model)
    x = batch.to("cuda", dtype) if batch.is_floating_point() else batch.to("cuda")
    if x.dim() == 4:
        x = x.to(memory_format=last)
    if case["mode"] == "infer":
        with torch.no_grad():
            for _ in range(STEPS["infer"]):
                with autocast(case):
                    out = model(x)
                del out
        return
    optimizer = optimizer_of(case, [p for p in model.parameters() if p.requires_grad])
    scaler = torch.amp.grad_scaler.GradScaler("cuda", enabled=bool(case.get("scaler")))
    make, labels = ZOO[case["model"]].labels, None
    for step in range(STEPS["train"]):
        for _ in range(case.get("accum", 1)):
            with autocast(case):
                out = model(x)
                if step == 0 and labels is None and make is not None:
                    labels = make(case["batch"], out).to("cuda")
                loss = loss_of(out, labels)
            scaler.scale(loss).backward()
        if case.get("clip"):
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), case["clip"])
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=case.get("set_to_none", True))


def name_of(case: Case) -> str:
    """The file of a case: what it is, then the flags that are off their defaults."""
    main = [case[key] for key in MAIN if case.get(key)]
    flags = [f"{key}={case[key]}" for key in FLAGS if key in case and (key, case[key]) != ("channels_last", False)]
    return "-".join([*main, f"b{case['batch']}", *flags]).replace("\\", "") + ".mrec"


def cases_of(path: Path, world: int = 1) -> list[Case]:
    """The cases of a file on so many GPUs, one of each setting; those that ran out of memory are of no use."""
    text = path.read_bytes()
    measured = json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text)["cases"]
    cases: list[Case] = []
    for row in measured:
        case = {key: row[key] for key in (*MAIN, "batch", *FLAGS, *TOLD) if key in row}
        if row.get("world", 1) == world and not row.get("oom") and case not in cases:
            cases.append(case)
    seen: Counter[str] = Counter()
    order = []
    for case in cases:
        seen[case["model"]] += 1
        order.append((case["mode"] != "infer", seen[case["model"]]))
    return [case for _, case in sorted(zip(order, cases, strict=True), key=lambda pair: pair[0])]


def record(case: Case, models: dict[str, nn.Module], path: Path, world: int = 1) -> None:
    """Record one case; a model that the case does not change is kept for the next one."""
    name = case["model"]
    if name not in models:
        models.clear()
        torch.manual_seed(0)
        with torch.device("meta"):
            models[name] = ZOO[name].build()
    alters = {"ckpt", "lora", "train_only", "compile", "par"} & case.keys()
    model = copy.deepcopy(models[name]) if alters else models[name]
    batch = ZOO[name].inputs(case["batch"])
    torch.backends.cudnn.benchmark = bool(case.get("benchmark"))
    if "par" not in case:
        with memestimate.record(path):
            run(case, model, batch)
        return
    with memestimate.record(path, world_size=world):
        dist.init_process_group("nccl")
        try:
            run(case, model, batch)
        finally:
            dist.destroy_process_group()


def write_figures(path: Path, folder: Path) -> None:
    """Write what recorded cases allocate and reserve at most into the file that lists them, a line a case."""
    cases = json.loads(path.read_text())["cases"]
    for case in cases:
        recording = folder / name_of(case)
        if recording.exists():
            answer = estimate_of(recording)["peak"]
            case["peak_alloc"], case["peak_reserved"] = answer["allocated_bytes"], answer["reserved_bytes"]
    path.write_text('{"cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]}\n")


def estimate_of(recording: Path) -> Case:
    """What the program says of a recording."""
    return cast(Case, json.loads(program.run([str(recording), "--format", "json"]).stdout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--zoo", type=Path, help="a file that has the models in place of zoo.py")
    parser.add_argument("--only", default="", help="names of models")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no recording after so long")
    parser.add_argument("--world", type=int, default=1, help="how many GPUs the cases ran on")
    parser.add_argument("--figures", action="store_true", help="write into CASES.json what the recordings in OUT take")
    asked = parser.parse_args()
    if asked.figures:
        write_figures(asked.cases, asked.out)
        return 0
    if asked.zoo:
        ZOO.clear()
        ZOO.update(runpy.run_path(str(asked.zoo))["ZOO"])
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    end, failed = time.monotonic() + asked.seconds, 0
    models: dict[str, nn.Module] = {}
    cases = cases_of(asked.cases, asked.world)
    for case in cases:
        path = asked.out / name_of(case)
        wanted = not asked.only or case["model"] in asked.only.split(",")
        if wanted and not path.exists() and time.monotonic() < end:
            began = time.monotonic()
            try:
                record(case, models, path, asked.world)
            except Exception:  # noqa: BLE001 - the others go on
                failed += 1
                print(path.name, traceback.format_exc(limit=-3), flush=True)
                models.clear()
                continue
            print(f"{path.name} {time.monotonic() - began:.1f} s", flush=True)
            gc.collect()
        index = [{"file": name_of(case), **case} for case in cases if (asked.out / name_of(case)).exists()]
        (asked.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

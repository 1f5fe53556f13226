"""Measure training steps of models that two GPUs share: estimate/testdata/beyond/split.json.gz.

    python3 split_models.py OUT.json [--seconds N]
    python3 split_models.py DIR --record

Tensor parallelism (parallelize_module), pipelines (ScheduleGPipe, Schedule1F1B), FSDP2 whose shards are on the CPU, and
DDP with static_graph. Every case runs three steps of AdamW in processes of its own and says, for each rank, the memory
after each phase and the most within it, in bytes. What is left when the seconds are over is named. --record needs no
GPU: it writes a recording of rank 0 of every case that a group of one process can run, DIR/MODEL-CASE.mrec.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
from several_gpus import of_process
from zoo import ZOO

Case = dict[str, Any]

TP, PP, FSDP2, DDP = "tp", "pp", "fsdp2", "ddp"
CASES: list[Case] = [
    {"par": TP, "model": "llama_160m", "batch": 8},
    {"par": TP, "model": "llama_160m", "batch": 8, "dtype": "bf16"},
    {"par": TP, "model": "bert_base", "batch": 32},
    {"par": TP, "model": "bert_base", "batch": 32, "dtype": "bf16"},
    {"par": TP, "model": "qwen2_0_5b", "batch": 2},
    {"par": TP, "model": "vit_b_16", "batch": 32},
    {"par": PP, "model": "llama_160m", "batch": 2, "schedule": "gpipe", "microbatches": 4},
    {"par": PP, "model": "llama_160m", "batch": 2, "schedule": "1f1b", "microbatches": 4},
    {"par": PP, "model": "llama_160m", "batch": 2, "schedule": "1f1b", "microbatches": 8, "drop_output": True},
    {"par": PP, "model": "llama_160m", "batch": 4, "schedule": "1f1b", "microbatches": 4, "dtype": "bf16"},
    {"par": PP, "model": "vit_b_16", "batch": 8, "schedule": "gpipe", "microbatches": 4},
    {"par": PP, "model": "vit_b_16", "batch": 8, "schedule": "1f1b", "microbatches": 4},
    {"par": FSDP2, "model": "llama_160m", "batch": 4, "offload": True},
    {"par": FSDP2, "model": "llama_160m", "batch": 4, "offload": True, "mp": True},
    {"par": FSDP2, "model": "vit_b_16", "batch": 16, "offload": True},
    {"par": DDP, "model": "llama_160m", "batch": 4, "static_graph": True},
    {"par": DDP, "model": "vit_b_16", "batch": 16, "static_graph": True, "view": True},
    {"par": DDP, "model": "resnet18", "batch": 64, "static_graph": True},
]

# What parallelize_module is told of the layers of a model: the modules whose names end so.
COLUMNS = r"(q_proj|k_proj|v_proj|gate_proj|up_proj|self\.query|self\.key|self\.value|intermediate\.dense|mlp\.0)$"
ROWS = r"(o_proj|down_proj|attention\.output\.dense|layer\.\d+\.output\.dense|mlp\.3)$"
# The modules that are sharded one by one.
BLOCKS = r"(m\.model\.layers\.\d+|encoder\.layers\.[^.]+)"
TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


def name_of(case: Case) -> str:
    """Name a case in one word."""
    words = [case["model"], case["par"]]
    words += [str(v if v is not True else k) for k, v in case.items() if k not in ("model", "par", "batch") and v]
    return "-".join(words)


def tensor_parallel(model: nn.Module) -> nn.Module:
    """Shard the layers within the blocks, as PyTorch's tutorial of tensor parallelism does."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    plan: dict[str, Any] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and re.search(COLUMNS, name):
            plan[name] = ColwiseParallel()
        elif isinstance(module, nn.Linear) and re.search(ROWS, name):
            plan[name] = RowwiseParallel()
    return parallelize_module(model, mesh, plan)


def shard(model: nn.Module, case: Case) -> None:
    """FSDP2 around each block and the model, its shards on the CPU where the case says so."""
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    options: dict[str, Any] = {}
    if case.get("mp"):
        options["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    if case.get("offload"):
        options["offload_policy"] = CPUOffloadPolicy()
    for name, module in model.named_modules():
        if re.fullmatch(BLOCKS, name):
            fully_shard(module, **options)
    fully_shard(model, **options)


class LanguageStage(nn.Module):
    """One half of a causal language model: its layers, and what comes before or after them."""

    def __init__(self, model: Any, *, first: bool) -> None:
        super().__init__()
        layers = model.model.layers
        half = len(layers) // 2
        self.m, self.first = model, first
        model.model.layers = layers[:half] if first else layers[half:]
        model.config.num_hidden_layers = half
        if first:
            model.model.norm, model.lm_head = nn.Identity(), None
        else:
            model.model.embed_tokens = None

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor
        if self.first:
            out = self.m.model(x, use_cache=False).last_hidden_state
        else:
            out = self.m(inputs_embeds=x, use_cache=False).logits
        return out


class VisionStage(nn.Module):
    """One half of a vision transformer."""

    def __init__(self, model: Any, *, first: bool) -> None:
        super().__init__()
        layers = model.encoder.layers
        half = len(layers) // 2
        self.first = first
        if first:
            self.patches, self.token, self.position = model.conv_proj, model.class_token, model.encoder.pos_embedding
            self.layers = layers[:half]
        else:
            self.layers, self.norm, self.heads = layers[half:], model.encoder.ln, model.heads

    def forward(self, x: Tensor) -> Tensor:
        if self.first:
            x = self.patches(x).flatten(2).permute(0, 2, 1)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
            x = self.layers(x + self.position)
        else:
            x = self.heads(self.norm(self.layers(x))[:, 0])
        return x


def loss_of(out: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy over the last dimension."""
    return F.cross_entropy(out.flatten(0, -2), labels.flatten())


class Phases:
    """The memory after each phase of a step and the most within it, in bytes."""

    def __init__(self) -> None:
        self.row: dict[str, int] = {}
        torch.cuda.reset_peak_memory_stats()

    def mark(self, phase: str) -> None:
        """End a phase."""
        self.row[phase], self.row[f"peak_{phase}"] = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()


def training(model: nn.Module, x: Tensor) -> list[dict[str, int]]:
    """Run three steps of AdamW, which takes tensors of one kind a group: DTensors or others."""
    kinds: dict[type, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        kinds.setdefault(type(parameter.data), []).append(parameter)
    optimizer = torch.optim.AdamW([{"params": group} for group in kinds.values()], lr=1e-4)
    labels, rows = None, []
    for _ in range(3):
        phases = Phases()
        out = model(x)
        phases.mark("fwd")
        if labels is None:
            labels = torch.randint(0, out.shape[-1], out.shape[:-1]).to("cuda")
        loss = loss_of(out, labels)
        phases.mark("loss")
        loss.backward()
        phases.mark("bwd")
        optimizer.step()
        phases.mark("opt")
        optimizer.zero_grad()
        rows.append({**phases.row, "end": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()})
    return rows


def piping(stage: nn.Module, case: Case, rank: int) -> list[dict[str, int]]:
    """Run three steps of AdamW on a stage of a pipeline."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    device = torch.device("cuda", rank)
    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[case["schedule"]]
    count = case["microbatches"]
    schedule = kind(PipelineStage(stage, rank, 2, device), count, loss_fn=loss_of)
    x = ZOO[case["model"]].inputs(count * case["batch"])
    if x.is_floating_point():
        x = x.to(TYPES[case.get("dtype", "fp32")])
    classes = 1000 if case["model"].startswith("vit") else 30000
    shape = (x.shape[0],) if x.is_floating_point() else x.shape
    settings: dict[str, Any] = {"return_outputs": not case.get("drop_output", False)}
    if rank == 0:
        x = x.to(device)
    else:
        settings.update(target=torch.randint(0, classes, shape).to(device))
    optimizer, rows = torch.optim.AdamW(stage.parameters(), lr=1e-4), []
    out = None
    for _ in range(3):
        phases = Phases()
        out = schedule.step(x, **settings) if rank == 0 else schedule.step(losses=[], **settings)
        phases.mark("bwd")
        optimizer.step()
        phases.mark("opt")
        optimizer.zero_grad()
        rows.append({**phases.row, "end": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()})
    del out
    return rows


def prepared(case: Case) -> nn.Module:
    """Build a case's model on the GPU, and wrap it; the shards of one that is offloaded stay on the CPU."""
    dtype = TYPES[case.get("dtype", "fp32")]
    model = ZOO[case["model"]].build().to(dtype).train()
    if case.get("offload"):
        shard(model, case)
        return model
    model = model.to("cuda")
    if case["par"] == TP:
        return tensor_parallel(model)
    return nn.parallel.DistributedDataParallel(
        model, static_graph=case.get("static_graph", False), gradient_as_bucket_view=case.get("view", False)
    )


def stage_of(case: Case, rank: int) -> nn.Module:
    """Build one half of a case's model on its GPU."""
    model: Any = ZOO[case["model"]].build().to(TYPES[case.get("dtype", "fp32")]).train()
    vision = case["model"].startswith("vit")
    stage = VisionStage(model, first=rank == 0) if vision else LanguageStage(model.m, first=rank == 0)
    return stage.to("cuda")


def answer_of(case: Case, rank: int) -> Case:
    """Measure one rank of a case, in this process."""
    answer: Case = {"dtype": "fp32", "mode": "train", "opt": "adamw", "rank": rank, **case}
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    if case["par"] == PP:
        stage = stage_of(case, rank)
        answer["alloc_model"] = torch.cuda.memory_allocated()
        rows = piping(stage, case, rank)
    else:
        model = prepared(case)
        x = ZOO[case["model"]].inputs(case["batch"]).to("cuda")
        if x.is_floating_point():
            x = x.to(TYPES[answer["dtype"]])
        answer["alloc_model"] = torch.cuda.memory_allocated()
        rows = training(model, x)
    torch.cuda.synchronize()
    answer["steps"] = rows
    answer["peak_alloc"] = max(v for row in rows for k, v in row.items() if k.startswith("peak"))
    answer["peak_reserved"], answer["smi_mib"] = torch.cuda.max_memory_reserved(), of_process(os.getpid())
    return answer


def child(number: int, rank: int, port: int, path: str) -> None:
    """Measure one rank and write what came of it."""
    case = CASES[number]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    try:
        answer = answer_of(case, rank)
    except BaseException as error:  # noqa: BLE001 - it is the answer
        answer = {**case, "rank": rank, "error": f"{type(error).__name__}: {str(error)[:300]}"}
        answer["where"] = traceback.format_exc()[-600:]
    Path(path).write_text(json.dumps(answer))
    if "error" not in answer:
        with contextlib.suppress(Exception):
            dist.barrier()
            dist.destroy_process_group()
    os._exit(0)


class Running:
    """Both ranks of a case, in processes of their own."""

    def __init__(self, number: int) -> None:
        self.number, self.since, port = number, time.time(), 29700 + number
        self.paths = [f"/tmp/split-{os.getpid()}-{number}-{rank}" for rank in (0, 1)]
        child = [sys.executable, __file__, "-", "--child"]
        self.ranks = [
            subprocess.Popen([*child, str(number), str(rank), str(port), path]) for rank, path in enumerate(self.paths)
        ]

    def over(self, end: float) -> bool:
        """Tell whether both are done, or too late."""
        late = time.time() - self.since > 100 or time.time() > end
        return late or all(rank.poll() is not None for rank in self.ranks)

    def answers(self) -> Iterator[Case]:
        """End them, and say what they answered."""
        for rank, (process, path) in enumerate(zip(self.ranks, self.paths, strict=True)):
            process.kill()
            if Path(path).exists():
                yield json.loads(Path(path).read_text())
            else:
                yield {**CASES[self.number], "rank": rank, "error": "no answer"}


def measure(out: str, seconds: float, width: int = 6) -> None:
    """Measure all cases, so many at a time."""
    todo, live, done = list(range(len(CASES))), list[Running](), list[Case]()
    end = time.time() + seconds
    while todo or live:
        while todo and len(live) < width and time.time() < end - 15:
            live.append(Running(todo.pop(0)))
        if time.time() >= end - 15:
            for number in todo:
                print("left out:", name_of(CASES[number]))
            todo = []
        time.sleep(0.2)
        for running in [r for r in live if r.over(end)]:
            done += running.answers()
            live.remove(running)
        kind = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
        Path(out).write_text(json.dumps({**kind, "cases": done}, indent=1))
    bad = [answer for answer in done if "error" in answer]
    print("measured", len(done) - len(bad), "failed", len(bad))
    for answer in bad:
        print({k: v for k, v in answer.items() if k != "where"}, answer.get("where", "")[-300:])


def record(folder: str, only: str | None) -> None:
    """Record rank 0 of the cases that run in one process."""
    import memestimate

    for case in CASES:
        name = name_of(case)
        if case["par"] == PP or only and not re.search(only, name):
            continue
        with memestimate.record(Path(folder) / f"{name}.mrec", gpu="h200", world_size=2):
            torch.cuda.set_device(0)
            dist.init_process_group("nccl")
            model = prepared(case)
            x = ZOO[case["model"]].inputs(case["batch"]).to("cuda")
            if x.is_floating_point():
                x = x.to(TYPES[case.get("dtype", "fp32")])
            training(model, x)
        dist.destroy_process_group()
        print(name, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--record", action="store_true", help="write recordings instead, without a GPU")
    parser.add_argument("--only", help="of those that are recorded, the ones whose name this matches")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        number, rank, port, path = given.child
        child(int(number), int(rank), int(port), path)
    elif given.record:
        record(given.out, given.only)
    else:
        measure(given.out, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

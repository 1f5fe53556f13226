"""Memory snapshots of real programs, with what PyTorch itself reports: snapshot/testdata, estimate/testdata/profiler.

    python3 snapshots.py OUT [CASE ...]

runs each case in a process of its own on a GPU, and writes OUT/NAME.pickle.gz and OUT/NAME.json. The two timelines are
the peak of a steady step by the categories of torch.profiler. simulate/caching/testdata has the events and segments of
the same snapshots: OUT/NAME.events.json.gz.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
import allocator

ENTRIES = 100_000
CAP = 0.01  # of the GPU's memory


def record(**settings: Any) -> None:
    """Record every event from now on, with stacks."""
    torch.cuda.memory._record_memory_history(max_entries=ENTRIES, **settings)


def save(out: Path, name: str, **more: Any) -> None:
    """Write a snapshot, what PyTorch reports at this moment, and the events with the segments at the end."""
    snapshot = torch.cuda.memory._snapshot()
    segments = snapshot["segments"]
    stats = torch.cuda.memory_stats()
    path = out / f"{name}.pickle"
    torch.cuda.memory._dump_snapshot(str(path))
    figures = {
        "memory_allocated": torch.cuda.memory_allocated(),
        "max_memory_allocated": torch.cuda.max_memory_allocated(),
        "memory_reserved": torch.cuda.memory_reserved(),
        "max_memory_reserved": torch.cuda.max_memory_reserved(),
        "segments": len(segments),
        **{f"segments_{key}": sum(s[key] for s in segments) for key in ("total_size", "allocated_size", "active_size")},
        "blocks": sum(len(s["blocks"]) for s in segments),
        "actions": Counter(event["action"] for events in snapshot["device_traces"] for event in events),
        "memory_stats": {k: v for k, v in stats.items() if ".all." in k or k.startswith("num_")},
        **more,
    }
    (out / f"{name}.json").write_text(json.dumps(figures, indent=1) + "\n")
    (out / f"{name}.pickle.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    path.unlink()
    what = "segments [address, size, small, blocks [address, size, requested, active]] at the end, and trace"
    events = {"provenance": allocator.provenance(what), "segments": [_segment(s) for s in segments]}
    allocator.write(out / f"{name}.events.json.gz", {**events, "trace": allocator.trace(), "stats": stats, **more})


def _segment(s: dict[str, Any]) -> list[Any]:
    at, blocks = s["address"], []
    for b in s["blocks"]:
        blocks.append([at, b["size"], b["requested_size"], b["state"] != "inactive"])
        at += b["size"]
    return [s["address"], s["total_size"], s["segment_type"] == "small", blocks]


def resnet50(steps: int) -> None:
    """Train a resnet50 after a first forward pass."""
    from torchvision import models

    model, x = models.resnet50().cuda(), torch.randn(1, 3, 224, 224, device="cuda")
    y = torch.rand_like(model(x))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    record(stacks="python")
    for _ in range(steps):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def resnet50_seed(out: Path) -> None:
    """Five steps."""
    resnet50(5)
    save(out, "resnet50_seed")


def expandable(out: Path) -> None:
    """Two steps with expandable segments."""
    resnet50(2)
    save(out, "expandable")


def mlp_allstacks(out: Path) -> None:
    """Two steps of a small MLP, with C++ frames."""
    record()
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        x, labels = torch.randn(256, 1024, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
        F.cross_entropy(model(x), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    save(out, "mlp_allstacks")


def oom(out: Path) -> None:
    """Tensors until an allocation fails."""
    torch.cuda.set_per_process_memory_fraction(CAP)
    record(stacks="python")
    kept, message = [], ""
    try:
        while True:
            kept += [torch.empty(n << 20, dtype=torch.uint8, device="cuda") for n in (100, 3)]
    except torch.OutOfMemoryError as error:
        message = str(error)
    save(out, "oom", message=message)


def mem_track(out: Path) -> None:
    """Save the five points of the example of Pytorch-Memory-Utils."""
    from torchvision import models

    record(stacks="python")
    save(out, "mem_track_0")
    model = models.vgg19(weights=None).features.to("cuda").eval()
    save(out, "mem_track_1_model")
    tensors = {n: torch.randn(n, 3, 512, 512).to("cuda") for n in (30, 40, 60)}
    save(out, "mem_track_2_tensors")
    tensors |= {n: torch.randn(n, 3, 512, 512).to("cuda") for n in (120, 80)}
    save(out, "mem_track_3_more")
    for n in (120, 40):
        tensors[n] = tensors[n].cpu()
    torch.cuda.empty_cache()
    save(out, "mem_track_4_freed")
    del model, tensors


def timeline(out: Path, name: str, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], Any]) -> None:
    """Profile the third step, and write what its peak consists of."""
    from torch.profiler import ProfilerActivity, profile
    from torch.profiler._memory_profiler import Category

    def step() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    step()
    torch.cuda.reset_peak_memory_stats()
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=both, record_shapes=True, profile_memory=True, with_stack=True) as profiled:
        step()
    path = out / f"{name}.json"
    profiled.export_memory_timeline(str(path), device="cuda:0")
    _, sizes = json.loads(path.read_text())
    peak = max(sizes, key=sum)
    figures = {
        "max_memory_allocated": torch.cuda.max_memory_allocated(),
        "categories": ["null/unknown", *(c.name for c in Category)],
        "sizes_at_peak": peak,
        "sum_at_peak": sum(peak),
        "events": len(sizes),
    }
    path.write_text(json.dumps(figures, indent=1) + "\n")


def timeline_resnet50(out: Path) -> None:
    """Profile a resnet50 at batch 32."""
    from torchvision import models

    model = models.resnet50().cuda()
    x, labels = torch.randn(32, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (32,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    timeline(out, "timeline_resnet50", model, optimizer, lambda: F.cross_entropy(model(x), labels))


def timeline_gpt2(out: Path) -> None:
    """Profile GPT-2 at batch 4 and 512 tokens."""
    from zoo import ZOO

    model = ZOO["gpt2"].build().cuda()
    x, labels = (torch.randint(0, 50257, (4, 512), device="cuda") for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters())

    def loss() -> torch.Tensor:
        words = model(x)
        return F.cross_entropy(words.reshape(-1, words.shape[-1]), labels.reshape(-1))

    timeline(out, "timeline_gpt2", model, optimizer, loss)


CASES = {
    case.__name__: case
    for case in (resnet50_seed, mlp_allstacks, oom, expandable, mem_track, timeline_resnet50, timeline_gpt2)
}
SETTINGS = {"expandable": "expandable_segments:True"}


def main(arguments: list[str] | None = None) -> int:
    """Run cases, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if unknown := [case for case in args.cases if case not in CASES]:
        parser.error(f"no case {unknown[0]!r}: want some of {', '.join(CASES)}")
    args.out.mkdir(parents=True, exist_ok=True)
    if args.here:
        for case in args.cases:
            CASES[case](args.out)
        return 0
    failed = 0
    for case in args.cases or CASES:
        environment = {**os.environ, "PYTORCH_ALLOC_CONF": SETTINGS.get(case, "")}
        command = [sys.executable, __file__, str(args.out), case, "--here"]
        failed += subprocess.run(command, env=environment, check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What PyTorch's allocator did while something ran: the measurements of this folder begin here."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

T = TypeVar("T")
ENTRIES = 400_000  # events that are kept: a training step of a large model has a tenth of them


def begin() -> None:
    """Record every event from now on, without stacks."""
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.memory._record_memory_history(max_entries=ENTRIES, context=None, clear_history=True)


def trace() -> list[list[Any]]:
    """Return the events so far, each as its action, address and size."""
    events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    return [[event["action"], event.get("addr", 0), event["size"]] for event in events]


def sizes_of(run: Callable[[], T]) -> tuple[T, list[int]]:
    """Run something, and return its result with the sizes that it allocated, and less than 0 those that it freed."""
    begin()
    result = run()
    signs = {"alloc": 1, "free_requested": -1}
    sizes = [signs[action] * size for action, _, size in trace() if action in signs]
    torch.cuda.memory._record_memory_history(enabled=None)
    return result, sizes


def versions() -> dict[str, Any]:
    """Return what a measurement depends on."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpu": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "total_memory": properties.total_memory,
    }


def provenance(what: str) -> str:
    """Return a sentence that says on which versions and GPU something was measured."""
    v = versions()
    return f"PyTorch {v['torch']}, cuDNN {v['cudnn']}, {v['gpu']}: {what}"


def write(path: Path, data: object) -> None:
    """Write JSON, compressed, the same bytes for the same data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, 9, mtime=0))


def read(path: Path) -> Any:
    """Read JSON, compressed or not."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)

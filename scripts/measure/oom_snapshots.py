"""Five programs that run out of GPU memory, each for another reason, and the snapshots they leave.

    python3 oom_snapshots.py OUT

writes OUT/CASE.pickle.gz and OUT/truth.json. Each program runs in a process of its own under a cap of 1 GiB, with
stacks recorded. truth.json has for each the line that holds the memory (it is marked ``holds:`` below), PyTorch's own
counters, and whether the program gets through under other allocator settings or with a part of its batch: what a
reader of the snapshot may promise.
"""

import contextlib
import gc
import gzip
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CAP = 1 << 30
MIB = 1 << 20


def mebibytes(n: int) -> Tensor:
    """Make a tensor of n MiB on the GPU."""
    return torch.empty(n * MIB, dtype=torch.uint8, device="cuda")


def network() -> nn.Sequential:
    """Make a perceptron whose activations outweigh its parameters at batches of some hundreds."""
    layers: list[nn.Module] = []
    for _ in range(6):
        layers += [nn.Linear(1024, 1024), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(1024, 10)).cuda()


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Mark a part of the program in the snapshot: as an annotation, and as metadata of its events."""
    set_metadata = getattr(torch._C, "_cuda_setMemoryMetadata", None)
    if set_metadata is not None:
        set_metadata(name)
    with torch.autograd.profiler.record_function(name):
        yield
    if set_metadata is not None:
        set_metadata("")


def leak(_share: float) -> None:
    """Keep the outputs of every validation step, and with them all activations of their graphs."""
    model = network()
    outputs = []
    for _ in range(60):
        batch = torch.randn(1024, 1024, device="cuda")
        outputs.append(model(batch))  # holds: leak


def batch(share: float) -> None:
    """Train with a small batch, then with one that is too large."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in (256, 256, int(24576 * share)):
        with phase("load"):
            images = torch.randn(size, 1024, device="cuda")
        with phase("forward"):
            logits = model(images)  # holds: batch
        with phase("backward"):
            logits.square().mean().backward()
        with phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()


def fragmentation(_share: float) -> None:
    """Evict every second page of a cache that was cut out of one large buffer, then ask for more than a page."""
    warmup = mebibytes(960)
    del warmup
    pages = [mebibytes(20) for _ in range(48)]  # holds: fragmentation
    del pages[::2]
    scores = mebibytes(100)
    del scores


def stream(_share: float) -> None:
    """Leave free pieces behind on a side stream, which the main stream must not use."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        buffers = [mebibytes(96) for _ in range(8)]
        while buffers:
            buffers.pop()
        ready = [mebibytes(50) for _ in range(8)]  # holds: stream
    torch.cuda.synchronize()
    results = [mebibytes(40) for _ in range(10)]
    del ready, results


def exception(share: float) -> None:
    """Try a batch, and half of it in the handler, where the exception still holds the first try's variables."""
    model = network()

    def step(images: Tensor) -> None:
        model(images).square().mean().backward()  # holds: exception

    images = torch.randn(int(24576 * share), 1024, device="cuda")
    try:
        step(images)
    except torch.OutOfMemoryError:
        step(images[: len(images) // 2])


CASES: dict[str, Callable[[float], None]] = {f.__name__: f for f in (leak, batch, fragmentation, stream, exception)}


def run(case: str, conf: str, share: float, out: Path | None) -> dict[str, Any]:
    """Run one program.

    Parameters
    ----------
    case : str
        Its name.
    conf : str
        Allocator settings, as in ``PYTORCH_CUDA_ALLOC_CONF``.
    share : float
        The part of the batch to take.
    out : Path, optional
        Where to write the snapshot, if it runs out of memory.

    Returns
    -------
    dict
        Whether it got through, and PyTorch's counters at its end in bytes.
    """
    torch.manual_seed(0)
    torch.cuda.init()  # type: ignore[no-untyped-call]
    if conf:
        torch._C._accelerator_setAllocatorSettings(conf)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(CAP / total)
    if out is not None:
        torch.cuda.memory._record_memory_history(max_entries=200_000, stacks="python", global_record_annotations=True)
    result: dict[str, Any] = {"alloc_conf": conf, "share": share, "survives": True, "gpu": torch.cuda.get_device_name()}
    try:
        CASES[case](share)
    except torch.OutOfMemoryError as e:
        result["survives"] = False
        result["message"] = str(e)
        # What PyTorch itself counts, with all that the failed call holds.
        result["memory_allocated"] = torch.cuda.memory_allocated()
        result["memory_reserved"] = torch.cuda.memory_reserved()
        result["max_memory_allocated"] = torch.cuda.max_memory_allocated()
        result["max_memory_reserved"] = torch.cuda.max_memory_reserved()
        result["memory_stats"] = {
            k: v for k, v in torch.cuda.memory_stats().items() if k.split(".")[1:2] == ["all"] or k == "num_ooms"
        }
        if out is not None:
            snapshot = torch.cuda.memory._snapshot()
            with gzip.GzipFile(out, "wb", 9, mtime=0) as f:
                pickle.dump(snapshot, f)
    return result


def in_child(case: str, conf: str, share: float, out: Path | None, result: Path) -> dict[str, Any]:
    """Run one program in a forked process; CUDA is not initialized in this one."""
    result.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            result.write_text(json.dumps(run(case, conf, share, out)))
            code = 0
        except Exception as e:  # noqa: BLE001
            result.write_text(json.dumps({"alloc_conf": conf, "share": share, "error": repr(e)}))
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if not result.exists():
        return {"alloc_conf": conf, "share": share, "error": f"the process ended with status {status}"}
    outcome: dict[str, Any] = json.loads(result.read_text())
    return outcome


def main() -> None:
    """Run all programs: as they are, then under what might have helped."""
    out = Path(sys.argv[1])
    lines = {
        line.rsplit("# holds: ", 1)[1].strip(): number
        for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
        if "# holds: " in line
    }
    scratch = out / "result.tmp"
    truth: dict[str, Any] = {"torch": torch.__version__, "cap": CAP, "cases": {}}
    for case in CASES:
        gc.collect()
        recorded = in_child(case, "", 1.0, out / f"{case}.pickle.gz", scratch)
        tried = [
            in_child(case, conf, 1.0, None, scratch) for conf in ("expandable_segments:True", "max_split_size_mb:128")
        ]
        if case in ("batch", "exception"):
            tried += [in_child(case, "", share, None, scratch) for share in (0.5, 0.25)]
        truth["cases"][case] = {"line": lines[case], "recorded": recorded, "tried": tried}
        outcomes = [(t["alloc_conf"], t["share"], t.get("survives")) for t in tried]
        print(case, recorded.get("message", recorded), outcomes, flush=True)
    scratch.unlink(missing_ok=True)
    (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""``python -m memestimate record`` on a script as people write them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from forks import PYTHON
from recording import Recording

SCRIPT = Path(__file__).parent / "scripts" / "train.py"


def run(folder: Path, *arguments: str, python: str = PYTHON) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [python, "-m", "memestimate", "record", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_script_runs_unchanged(tmp_path: Path) -> None:
    done = run(tmp_path, "--steps", "0", "-o", "step.mrec", str(SCRIPT), "--epochs", "1", python=sys.executable)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert "4 steps recorded in step.mrec" in done.stderr
    assert (tmp_path / "checkpoint.pt").stat().st_size > 0
    recording = Recording(tmp_path / "step.mrec")
    assert sum(1 for _ in recording.of("step")) == 4
    assert sum(1 for _ in recording.of("empty_cache")) == 1
    assert ["label", ""] in [event[1:] for event in recording.of("is")]


def test_another_rank_than_the_first_is_recorded(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(
        "import os, torch\n"
        "import torch.distributed as dist\n"
        "dist.init_process_group('nccl')\n"
        "assert (dist.get_rank(), os.environ['LOCAL_RANK']) == (3, '0')\n"
        "torch.empty(2 ** (20 + dist.get_rank()), device='cuda')\n"
    )
    done = run(tmp_path, "--once", "--world-size", "4", "--rank", "3", "-o", "r.mrec", str(script))
    assert done.returncode == 0, done.stderr
    header = Recording(tmp_path / "r.mrec").header
    assert (header["rank"], header["world_size"]) == (3, 4)
    done = run(tmp_path, "--world-size", "4", "--rank", "4", str(script))
    assert (done.returncode, done.stderr) == (2, "memestimate: rank 4 of a world of 4: ranks are 0 to 3\n")


_STAGES = """
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
dist.init_process_group("nccl")
rank = dist.get_rank()
part = nn.Linear([16, 32][rank], [32, 8][rank], bias=False).cuda()
stage = PipelineStage(part, rank, 2, torch.device("cuda", 0))
schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
x, y = torch.randn(64, 16, device="cuda"), torch.randn(64, 8, device="cuda")
schedule.step(x) if rank == 0 else schedule.step(target=y)
print([tuple(meta.shape) for meta in stage.inputs_meta], part.weight.grad.shape)
"""


def test_a_stage_of_a_pipeline_is_told_what_the_one_before_makes(tmp_path: Path) -> None:
    (tmp_path / "pipe.py").write_text(_STAGES)
    done = run(tmp_path, "--once", "--world-size", "2", "--rank", "1", "-o", "r.mrec", "pipe.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[(16, 32)] torch.Size([8, 32])\n"
    assert Recording(tmp_path / "r.mrec").header["rank"] == 1


def test_it_ends_after_the_steps_asked_for(tmp_path: Path) -> None:
    done = run(tmp_path, "--steps", "2", "--gpu", "t4", str(SCRIPT))
    assert done.returncode == 0, done.stderr
    assert "accuracy" not in done.stdout
    recording = Recording(tmp_path / "train.mrec")
    assert sum(1 for _ in recording.of("step")) == 2
    assert recording.header["gpu"]["name"] == "t4"
    assert "ended: the script was ended after 2 training steps" in done.stderr


def test_a_script_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(4)\n")
    done = run(tmp_path, "bad.py")
    assert done.returncode == 4
    assert [p.name for p in tmp_path.iterdir()] == ["bad.py"]


def test_an_unknown_gpu_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "--gpu", "h9000", str(SCRIPT))
    assert done.returncode == 2
    assert 'unknown GPU "h9000"' in done.stderr


PROCESSES = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, world, queue):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net(torch.randn(8, 64, device=f"cuda:{rank}")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    queue.put(rank)
    if rank:
        sys.exit(3)

def load(numbers, queue):
    queue.put(sum(numbers))

if __name__ == "__main__":
    mp.set_start_method("fork")
    queue = mp.SimpleQueue()
    loader = mp.get_context("fork").Process(target=load, args=([1, 2, 3], queue))
    loader.start()
    assert queue.get() == 6
    loader.join()
    assert loader.pid and loader.exitcode == 0
    ranks = [mp.Process(target=work, args=(rank, 4, queue)) for rank in range(4)]
    for process in ranks:
        assert not process.is_alive() and process.exitcode is None
        process.start()
    for process in ranks:
        process.join()
        process.terminate()
    print("ended with", [process.exitcode for process in ranks], "by", queue.get())
"""


def test_of_the_processes_that_a_program_starts_the_recorded_rank_runs(tmp_path: Path) -> None:
    """And what loads data is a process of its own."""
    (tmp_path / "ranks.py").write_text(PROCESSES)
    done = run(tmp_path, "--steps", "0", "--once", "ranks.py")
    assert done.returncode == 0, done.stderr
    assert "ended with [0, 0, 0, 0] by 0" in done.stdout
    assert "note: distributed: of the processes that the program starts only rank 0 runs" in done.stderr
    recording = Recording(tmp_path / "ranks.mrec")
    assert sum(1 for _ in recording.of("step")) == 2
    assert any("allreduce" in op[0] for op in recording.tables["op"])

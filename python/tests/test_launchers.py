"""Scripts as people start them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from forks import PYTHON
from memestimate.api import launchers
from recording import Recording

SCRIPT = """
import os, sys
import torch
import torch.distributed as dist
assert sys.argv[1:] == ["--lr", "0.1"], sys.argv
model = torch.nn.Linear(64, 64).cuda()
if "RANK" in os.environ:
    dist.init_process_group("nccl")
    assert dist.get_world_size() == int(os.environ["WORLD_SIZE"]), dist.get_world_size()
    print("group", dist.get_world_size())
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("line", "world", "module"),
    [
        ("train.py --lr 0.1", 0, False),
        ("python train.py --lr 0.1", 0, False),
        ("python -u -m train --lr 0.1", 0, True),
        ("torchrun --nproc-per-node 4 --standalone train.py --lr 0.1", 4, False),
        ("python -m torch.distributed.run --nnodes 2 --nproc-per-node 4 -m train --lr 0.1", 8, True),
        ("accelerate launch --num_processes 4 --mixed_precision bf16 train.py --lr 0.1", 4, False),
        ("deepspeed --num_gpus 4 train.py --lr 0.1", 4, False),
        ("fabric run --devices 4 --precision bf16-mixed train.py --lr 0.1", 4, False),
    ],
)
def test_a_launcher_is_read(
    line: str, world: int, module: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = line.split()[0]
    if name in ("accelerate", "deepspeed", "fabric"):
        pytest.importorskip({"fabric": "lightning"}.get(name, name))
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()  # which Fabric's parser looks for
    found = launchers.read(line.split())
    assert found.script == ("train" if module else "train.py")
    own = ["--local_rank=0"] if name == "deepspeed" else []
    assert (found.arguments, found.world_size, found.module) == ([*own, "--lr", "0.1"], world, module)
    assert ("ACCELERATE_MIXED_PRECISION" in found.environment) == (name == "accelerate")
    assert found.environment.get("LT_PRECISION") == ("bf16-mixed" if name == "fabric" else None)


def test_a_program_of_a_package_is_its_script() -> None:
    found = launchers.read(["torchfrtrace", "--help"])
    assert (Path(found.script).name, found.arguments) == ("torchfrtrace", ["--help"])
    assert Path(found.script).read_text().startswith("#!")
    assert launchers.read(["nowhere"]).script == "nowhere"


def test_a_launcher_that_runs_no_script_is_refused() -> None:
    pytest.importorskip("lightning")
    for line in ("accelerate config", "fabric consolidate", "python", "python -c pass"):
        with pytest.raises(ValueError, match=r"script|launch"):
            launchers.read(line.split())


@pytest.mark.parametrize("count", [1, 4])
def test_what_torchrun_starts_is_recorded(count: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    words = ["record", "--once", "torchrun", "--nproc-per-node", str(count), "train.py", "--lr", "0.1"]
    source = str(Path(__file__).parents[1] / "src")
    command = [PYTHON, "-c", f"import sys; sys.path.insert(0, {source!r})\n" + RUN, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"group {count}\n")  # of one process too, which FSDP then shards among
    assert Recording(tmp_path / "train.mrec").header["world_size"] == count


def test_what_deepspeed_starts_runs_on_the_gpu(tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    (tmp_path / "train.py").write_text(
        "import sys, torch\nfrom deepspeed import get_accelerator\n"
        "print(get_accelerator().device_name(), sys.argv[1:])\n"
        "weight = torch.nn.Parameter(torch.ones(1 << 20, device=get_accelerator().device_name(0)))\n"
        "weight.sum().backward()\nfrom deepspeed.ops.adam import FusedAdam\nFusedAdam([weight]).step()\n"
    )
    words = ["record", "--once", "deepspeed", "--num_gpus", "2", "train.py", "--lr", "0.1"]
    source = str(Path(__file__).parents[1] / "src")
    command = [PYTHON, "-c", f"import sys; sys.path.insert(0, {source!r})\n" + RUN, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cuda ['--local_rank=0', '--lr', '0.1']" in done.stdout
    recorded = Recording(tmp_path / "train.mrec")
    assert recorded.peak() == pytest.approx(4 << 22, abs=4096), (
        "weight, gradient and two states, without CUDA's compiler"
    )
    assert [call[0] for call in recorded.calls()].count("deepspeed::multi_tensor_adam") == 1


RUN = "from memestimate.__main__ import main\nsys.exit(main())"

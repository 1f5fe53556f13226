"""A plain training step, recorded without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import memestimate
from recording import Recording

BATCH, WIDTH, CLASSES = 64, 1024, 256


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("step") / "step.mrec"
    with memestimate.record(path, gpu="a100-80gb") as rec:
        net = model().cuda()
        optimizer = torch.optim.AdamW(net.parameters())
        x, labels = torch.randn(BATCH, WIDTH).cuda(), torch.randint(0, CLASSES, (BATCH,)).cuda()
        for _ in range(2):
            loss = F.cross_entropy(net(x), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            rec.step()
    return Recording(path)


def test_header_names_gpu_and_way(step: Recording) -> None:
    assert step.header["format"] == "memestimate-recording/1"
    assert step.header["gpu"]["capability"] == [8, 0]
    assert step.header["way"] == ("fake-cuda" if torch.cuda.is_available() else "fake-cuda-no-driver")


def test_backward_and_optimizer_run(step: Recording) -> None:
    assert [phase for phase, _, _ in step.phases() if phase != "other"] == [
        *("forward", "loss", "backward", "optimizer", "zero_grad") * 2
    ]
    names = [call[0] for call in step.calls()]
    assert names.count("addmm") == 4
    assert names.count("threshold_backward") == 2
    assert names.count("_foreach_addcdiv_") == 2  # foreach, as on CUDA, not one call a parameter


def test_bytes_of_the_optimizer_step(step: Recording) -> None:
    """Parameters, gradients, two states and one foreach temporary, and the batch."""
    weights = sum(-(-p.numel() * 4 // 512) * 512 for p in model().parameters())
    batch = BATCH * WIDTH * 4 + BATCH * 8
    loss = 512
    phases = [p for p in step.phases() if p[0] == "optimizer"]
    assert phases[0][2] == 5 * weights + batch + loss
    assert phases[1][2] == 5 * weights + batch + loss


def test_storages_are_named(step: Recording) -> None:
    named = {(kind, name) for _, kind, name in step.of("is")}
    assert ("parameter", "0.weight") in named
    assert ("gradient", "2.bias") in named
    assert ("state", "exp_avg_sq 2.weight") in named


def test_backward_calls_know_module_and_line(step: Recording) -> None:
    for _, _, _, frame, module in step.calls("threshold_backward"):
        assert step.tables["module"][module][1:] == ["1", "ReLU"]
        files = set()
        while frame >= 0:
            files.add(Path(step.tables["frame"][frame][1]).name)
            frame = step.tables["frame"][frame][0]
        assert Path(__file__).name in files


def test_the_model_is_given_back(tmp_path: Path) -> None:
    net = model()
    before = [(id(p), p.clone()) for p in net.parameters()]
    with memestimate.record(tmp_path / "x.mrec"):
        net.cuda()
        assert next(net.parameters()).is_cuda
        net(torch.randn(2, WIDTH, device="cuda")).sum().backward()
    for (identity, value), parameter in zip(before, net.parameters(), strict=True):
        assert id(parameter) == identity
        assert type(parameter) is nn.Parameter
        assert torch.equal(parameter, value)
        assert parameter.grad is None


def test_a_failed_recording_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), memestimate.record(tmp_path / "x.mrec"):
        raise ValueError("mine")
    assert list(tmp_path.iterdir()) == []


def test_forward_and_backward_in_a_closure(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        net = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.optim.SGD([nn.Parameter(torch.ones(2, device="cuda"))], lr=0.1)
        other = torch.optim.SGD([nn.Parameter(torch.ones(2, device="cuda"))], lr=0.1)  # never steps

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = net(torch.randn(4, 8, device="cuda")).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        del other
    assert rec.steps == 3
    phases = [phase for phase, _, _ in Recording(tmp_path / "x.mrec").phases() if phase != "other"]
    assert phases[-4:] == ["forward", "loss", "backward", "optimizer"]


def test_a_step_counts_whose_optimizer_is_gone(tmp_path: Path) -> None:
    def train() -> None:
        net = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            net(torch.ones(2, 4, device="cuda")).sum().backward()
            optimizer.step()

    with memestimate.record(tmp_path / "x.mrec") as recorder:
        train()
    assert recorder.steps == 2


def test_each_input_belongs_to_its_step(tmp_path: Path) -> None:
    """What the next step is given comes after the end of the one before."""
    with memestimate.record(tmp_path / "x.mrec"):
        net = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            net(torch.ones(2, 4, device="cuda")).sum().backward()
            optimizer.step()
    order = [
        e[0] for e in Recording(tmp_path / "x.mrec").events if e[0] == "step" or (e[0] == "is" and e[2] == "input")
    ]
    assert order[:5] == ["is", "step", "is", "step", "is"]


def test_what_a_checkpoint_computes_again_keeps_its_names(tmp_path: Path) -> None:
    """A part that runs again in the backward pass is no model of its own, and what goes into it no input."""

    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    with memestimate.record(tmp_path / "step.mrec") as rec:
        net = Blocks().cuda()
        net(torch.randn(BATCH, WIDTH).cuda()).sum().backward()
        rec.step()
    named = [(kind, name) for _, kind, name in Recording(tmp_path / "step.mrec").of("is")]
    assert [kind for kind, _ in named].count("input") == 1
    assert {name for kind, name in named if kind == "parameter"} == {
        f"blocks.{i}.{of}" for i in range(3) for of in ("weight", "bias")
    }


def test_a_part_may_run_before_its_module_is_made(tmp_path: Path) -> None:
    """A parametrization runs layers while its list of modules is not there, which says nothing of its parts."""

    class Early(nn.Module):
        def __init__(self, part: nn.Module) -> None:
            part(torch.zeros(1, WIDTH, device="cuda"))
            super().__init__()
            self.part = part

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.part(x)
            return out

    with memestimate.record(tmp_path / "step.mrec") as rec:
        net = Early(nn.Linear(WIDTH, WIDTH, bias=False).cuda())
        net(torch.randn(BATCH, WIDTH).cuda()).sum().backward()
        rec.step()
    named = {name for _, kind, name in Recording(tmp_path / "step.mrec").of("is") if kind == "parameter"}
    assert named == {"weight", "net.part.weight"}


def test_a_number_names_a_gpu(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec"):
        assert torch.device(0) == torch.device("cuda", 0)
        assert nn.Linear(2, 2).to(0).weight.is_cuda
        assert torch.zeros(2, device=0).is_cuda
        assert torch.zeros(2).cuda(0).is_cuda

"""On which answers a recording hangs, and by how much."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import memestimate
from memestimate.values import usage
from memestimate.values.decisions import Change
from memestimate.values.usage import Usage
from recording import Recording
from test_script import run


class Asked:
    """Says how each line that asks uses the answer."""

    def __init__(self) -> None:
        self.seen: list[Usage] = []

    def __bool__(self) -> bool:
        return self._asked()

    def item(self) -> int:
        return int(self._asked())

    def __float__(self) -> float:
        return float(self._asked())

    def _asked(self) -> bool:
        frame = sys._getframe(2)
        self.seen.append(usage.of(frame))
        return False


def _shown(x: Any) -> None:
    losses = []
    print(f"loss {x.item():.2f}")
    losses.append(x.item())
    total = 0
    total += x.item()
    print(total)
    best = 1.0
    if x.item() < best:
        best = x.item()
        print(f"best {best}")


def _checks(x: Any) -> None:
    if x:
        text = "the values are bad"
        raise ValueError(text)
    with contextlib.suppress(AssertionError):
        assert x, "bad"
    if x or x:
        raise ValueError


def _branches(x: Any) -> int:
    if x:
        return 1
    while x:
        pass
    best = float(x)
    y = 1 if x else 2
    if best < y:
        return 3
    return 2


def _sizes(x: Any) -> None:
    length = int(x.item()) + 1
    rows = torch.ones(8)[:length]
    torch.zeros(x.item(), 2)
    for _ in range(x.item()):
        rows += 1


def _elsewhere(x: Any) -> Any:
    return x.item()


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (_shown, [Usage.SHOWN] * 5),
        (_checks, [Usage.CHECK] * 4),
        (_branches, [Usage.BRANCH, Usage.LOOP, Usage.BRANCH, Usage.BRANCH]),
        (_sizes, [Usage.SIZE] * 3),
        (_elsewhere, [Usage.ELSEWHERE]),
    ],
)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="a line has no columns before")
def test_what_becomes_of_an_answer_is_read_from_the_source(function: Any, wanted: list[Usage]) -> None:
    x = Asked()
    function(x)
    assert x.seen == wanted


class Gated(nn.Module):
    """Asks for values in all ways; `decides` says which of them makes tensors."""

    def __init__(self, decides: str) -> None:
        super().__init__()
        self.decides = decides
        self.linear = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        if torch.isnan(y).any() or y.min() < -1e9:
            raise ValueError("diverged")
        assert torch.isfinite(y).all()
        if self.decides == "truth" and (y > 0).any():
            y = y.sigmoid() * y.tanh() * y.relu()
        if self.decides == "size":
            y = y[y > 0] * 2
        if self.decides == "number":
            scale = y.abs().max().item()
            y = y + torch.ones(int(scale * 8), 512, 256, device=y.device).mean()
        if self.decides == "rest":
            mask = y > 0
            y = y + torch.ones(mask.numel() - int(mask.sum()), 16, device=y.device).mean()
        if self.decides == "part":
            chosen = torch.zeros(y.numel(), dtype=torch.bool, device=y.device)
            for condition in (y.flatten() > 0, y.flatten() <= 0):
                chosen[torch.where(condition)[0][: 1 << 18]] = True
            sampled = y.flatten()[torch.where(chosen)[0]]
            y = sampled[sampled > 0][:, None] * torch.ones(16, device=y.device)
        if self.decides == "nothing" and (y > 0).any():
            y = y * 2.0
        return y.sum()


def estimated(decides: str, folder: Path) -> memestimate.Estimate:
    return memestimate.estimate(Gated(decides), (torch.randn(4096, 256),), recording=folder / "x.mrec")


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(("decides", "least"), [("truth", 12 << 20), ("size", 1 << 20), ("number", 4 << 20)])
def test_only_an_answer_that_moves_the_peak_is_told(decides: str, least: int, tmp_path: Path) -> None:
    answer = estimated(decides, tmp_path)
    (place,) = answer.depends_on_data
    assert place.question == decides
    assert place.function == "Gated.forward"
    assert place.file.endswith("test_decisions.py")
    assert place.bytes is not None
    assert place.bytes >= least
    assert answer.is_bound == (decides != "number")  # of numbers there are others than the one that was tried
    assert "depends_on_data=1 places" in repr(answer)
    assert "depends on data: 1 place, about " in str(answer)
    assert "depends on data: 1 place, about " in answer.to_markdown()
    unless = "no bound: only if the values are as taken"
    assert (unless in answer.to_markdown(), " no bound" in repr(answer)) == (decides == "number",) * 2


@pytest.mark.usefixtures("program")
def test_half_of_what_met_a_samplers_first_condition_is_taken_and_all_tried(tmp_path: Path) -> None:
    answer = estimated("part", tmp_path)
    (place,) = (place for place in answer.depends_on_data if place.question == "part")
    assert place.taken == f"{1 << 17} of at most {1 << 18} elements of a mask are set"
    assert place.bytes is not None
    assert place.bytes >= 16 * 4 << 17  # the product of the other half
    assert answer.is_bound
    assert answer.peak.safe > answer.peak.device + place.bytes


@pytest.mark.usefixtures("program")
def test_what_grows_where_less_is_set_has_no_bound(tmp_path: Path) -> None:
    answer = estimated("rest", tmp_path)
    assert [place.question for place in answer.depends_on_data] == ["size"]
    assert not answer.is_bound


@pytest.mark.usefixtures("program")
def test_checks_and_what_decides_nothing_are_not_told(tmp_path: Path) -> None:
    answer = estimated("nothing", tmp_path)
    assert answer.depends_on_data == ()
    assert "depends on data" not in str(answer)


def test_a_loop_of_the_users_own_says_what_it_cannot_weigh(tmp_path: Path) -> None:
    def told(decides: str) -> list[list[Any]]:
        path = tmp_path / f"{decides}.mrec"
        with memestimate.record(path):
            Gated(decides).cuda()(torch.randn(64, 256).cuda()).backward()
        found = [[question, size, more] for question, _, size, _, more in Recording(path).of("depends")]
        taken = [answer for question, answer, *_ in Recording(path).of("depends") if question == "size"]
        assert all(answer.endswith(f", in a tensor of {64 * 256 * 4} bytes") for answer in taken)
        return found

    assert told("truth") == [["truth", -1, -1]]
    assert told("number") == [["number", -1, -1]]
    assert told("size") == [["size", -1, 0]]  # all that the mask selects: no other answer takes more
    assert told("nothing") == [["truth", -1, -1]]  # a branch of which nobody knows what the other side takes


def test_a_script_runs_again_in_silence(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        """
import sys, torch
from torch import nn
net = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
best = 2.0
for step in range(2):
    out = net(torch.randn(4096, 256, device="cuda"))
    if (out > 0).any():
        out = out.sigmoid() * out.tanh()
    loss = out.mean()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best = loss.item()
    print("step", step)
    with open("log.txt", "a") as log:
        log.write("a step\\n")
"""
    )
    done = run(tmp_path, "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "step 0\nstep 1\n"
    ((question, taken, size, _, _),) = Recording(tmp_path / "train.mrec").of("depends")
    assert (question, taken) == ("truth", "True")
    assert size >= 8 << 20
    assert (tmp_path / "log.txt").read_text().count("a step") > 2
    (tmp_path / "log.txt").unlink()
    done = run(tmp_path, "--once", "train.py")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log.txt").read_text().count("a step") == 2
    assert [size for _, _, size, _, _ in Recording(tmp_path / "train.mrec").of("depends")] == [-1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.txt", "train.mrec", "train.py"]


def test_a_loop_that_waits_for_the_other_answer_ends(tmp_path: Path) -> None:
    change = Change(places=frozenset([f"{__file__}:{_WAITS}"]))
    with memestimate.Recorder(tmp_path / "x.mrec", change=change) as recorder:
        assert _wait(torch.randn(8, device="cuda")) == 1000
        assert recorder.decisions.failed(0).refused


def _wait(x: torch.Tensor) -> int:
    turns = 0
    while (x > 1).any():
        turns += 1
    return turns


_WAITS = _wait.__code__.co_firstlineno + 2


def test_single_values_agree_with_each_other(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec"):
        x = torch.randn(40, device="cuda").long()
        last = x.max() + 1
        assert last.item() == 2
        assert max(last, 7) == 7
        assert bool(last > 1)
        assert x.tolist() == [1] * 40
        mask = x > 4
        selected = torch.ones(40, device="cuda")
        if mask.any():
            selected = selected[mask]
        assert selected.shape == (mask.sum().item(),)


def test_a_parameter_is_taken_to_stay_about_what_it_was(tmp_path: Path) -> None:
    span = nn.Parameter(torch.full((4,), 0.25))
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        net = nn.ParameterList([span]).cuda()
        optimizer = torch.optim.Adagrad(net.parameters(), lr=0.1)
        recorder.mark(net[0], "parameter", "span")
        assert net[0].max().item() == 0.25
        assert recorder.notes == []
        net[0].sum().backward()
        optimizer.step()
        assert torch.ones(8, device="cuda")[: int(net[0].max().item() * 8)].shape == (2,)
    assert [code for code, _ in recorder.notes] == ["item"]
    assert [event[0] for event in Recording(tmp_path / "x.mrec").of("depends")] == ["number"]

"""What chance decides in a run, and how that is said."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import memestimate


def lengths(which: str) -> int:
    """How long a step's sequences are."""
    drawn = {"Python's random": lambda: random.randint(40, 80), "NumPy's random": lambda: int(np.random.normal(60, 9))}
    return drawn[which]()


@pytest.mark.parametrize("which", ["Python's random", "NumPy's random"])
@pytest.mark.parametrize("decides", [True, False])
def test_steps_of_drawn_sizes_say_so(tmp_path: Path, which: str, decides: bool) -> None:
    random.seed(0)
    np.random.seed(0)
    with memestimate.record(tmp_path / "x.mrec") as rec:
        net = nn.Linear(512, 512).cuda()
        for _ in range(4):
            drawn = lengths(which)
            net(torch.ones(drawn * 100 if decides else 6000, 512, device="cuda")).sum().backward()
            rec.step()
    said = [text for code, text in rec.notes if code == "draws"]
    assert len(said) == decides
    if decides:
        assert said[0].startswith(f"the program draws numbers of {which}, and its steps peak between ")


def test_steps_of_sizes_that_nobody_draws_say_nothing(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        net = nn.Linear(512, 512).cuda()
        for n in (3000, 4000, 5000):
            net(torch.ones(n, 512, device="cuda")).sum().backward()
            rec.step()
    assert not rec.notes


def test_a_step_of_several_updates_is_one(tmp_path: Path) -> None:
    """Which is known only when the program first says where its step ends."""
    with memestimate.record(tmp_path / "x.mrec") as rec:
        net = nn.Linear(512, 512).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            for n in (9000, 3000, 3000):
                net(torch.full((n, 512), np.random.rand(), device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            with torch.no_grad():
                net(torch.ones(10, 512, device="cuda"))
            rec.step()
    assert not [text for code, text in rec.notes if code == "draws"]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_scaler_says_what_is_missing_while_it_skips(tmp_path: Path, enabled: bool) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        net = nn.Linear(512, 512).cuda()
        optimizer, scaler = torch.optim.Adam(net.parameters()), torch.amp.GradScaler("cuda", enabled=enabled)
        for _ in range(2):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = net(torch.ones(8, 512, device="cuda")).float().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            rec.step()
    said = [text for code, text in rec.notes if code == "scaler"]
    assert len(said) == enabled
    if enabled:
        assert said[0].startswith("2.0 MiB of optimizers' states come with the first update that the gradient scaler")

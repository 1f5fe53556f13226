"""Nothing of PyTorch, or of the process, is changed when a recording is over, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import fingerprint
import memestimate
from memestimate.api.recorder import Recorder
from memestimate.core.recording import Enough


def step() -> None:
    with torch.random.fork_rng(devices=[]):  # what a layer draws when it is made is drawn from the host's generator
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LSTM(16, 4)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        output, _ = net(torch.rand(2, 3, 4, 4, device="cuda"))
    output.sum().backward()
    optimizer.step()


def record(path: Path, run: Callable[[], object]) -> None:
    with memestimate.record(path):
        run()


def ends(path: Path) -> None:
    record(path, step)


def raises(path: Path) -> None:
    def run() -> None:
        step()
        _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        record(path, run)


def raises_in_backward(path: Path) -> None:
    def run() -> None:
        y = torch.ones(3, device="cuda", requires_grad=True) * 2
        y.register_hook(lambda gradient: gradient if 1 / 0 else None)
        y.sum().backward()

    with pytest.raises(ZeroDivisionError):
        record(path, run)


def is_interrupted(path: Path) -> None:
    """While a layer runs."""

    def run() -> None:
        net = nn.ReLU()
        net.register_forward_pre_hook(lambda *_: signal.raise_signal(signal.SIGINT))
        net(torch.ones(2, 3, device="cuda"))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            record(path, run)
    finally:
        signal.signal(signal.SIGINT, before)


class Kills(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(3)


def is_killed_in_a_worker(path: Path) -> None:
    def run() -> None:
        for batch in DataLoader(Kills(), num_workers=1, generator=torch.Generator()):
            batch.cuda()

    with pytest.raises(RuntimeError, match="worker"):
        record(path, run)


def is_enough(path: Path) -> None:
    recorder = Recorder(path, steps=1)
    recorder.start()
    with contextlib.suppress(Enough):
        step()
        step()
    recorder.stop()


def estimates_within(path: Path) -> None:
    with memestimate.record(path):
        step()
        with pytest.raises(RuntimeError, match="a recording is under way: a process cannot begin another within it"):
            memestimate.estimate(nn.Linear(3, 3, device="meta"), torch.ones(2, 3))
        step()


ENDS = (ends, raises, raises_in_backward, is_interrupted, is_killed_in_a_worker, is_enough, estimates_within)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_nothing_is_changed(tmp_path: Path, end: Callable[[Path], None], program: Path) -> None:
    end(tmp_path / "first.mrec")  # which makes PyTorch import what it needs
    before = fingerprint.take()
    end(tmp_path / "a.mrec")
    assert fingerprint.differences(before, fingerprint.take()) == []


def test_nothing_is_changed_by_the_first_recording(tmp_path: Path) -> None:
    before = fingerprint.take()
    ends(tmp_path / "a.mrec")
    assert fingerprint.differences(before, fingerprint.take()) == []


def test_pytorch_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ends(tmp_path / "a.mrec")

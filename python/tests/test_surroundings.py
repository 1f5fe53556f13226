"""What a program did before it was recorded, and what it asks PyTorch beside tensors' values."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

import memestimate
from recording import Recording

BEFORE = """
import sys, threading, torch, memestimate
torch.ones(3, requires_grad=True).sum().backward()  # on the host, so that autograd's engine has started
with memestimate.record(sys.argv[1]):
    def train():
        (torch.ones(3, device="cuda", requires_grad=True) * 2).sum().backward()
    train()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
assert torch._C._is_multithreading_enabled()
"""


def test_a_backward_pass_on_the_host_may_come_first(tmp_path: Path) -> None:
    """Autograd starts threads for devices once a process, when a GPU was not yet pretended."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    command = [sys.executable, "-c", BEFORE, str(tmp_path / "x")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr
    recording = Recording(tmp_path / "x")
    assert len(recording.calls("mul")) == 4  # forward and backward, twice
    assert [number for (number,) in recording.of("thread")] == [1, 0, 1]


def test_storages_have_addresses(tmp_path: Path) -> None:
    """By which programs find weights that share memory: accelerate's save_state leaves out all but one of them."""
    with memestimate.record(tmp_path / "x"):
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).cuda()
        net[1].weight = net[0].weight
        state = net.state_dict()
        at = {name: tensor.untyped_storage().data_ptr() for name, tensor in state.items()}
        assert at["0.weight"] == at["1.weight"]
        assert len(set(at.values())) == 3
        x = torch.ones(2, 3, device="cuda")
        assert x[1].data_ptr() == x.data_ptr() + 12
        assert x.data_ptr() % 512 == 0
        assert x.detach().data_ptr() == x.data_ptr() == x.untyped_storage().data_ptr()
        assert torch.ones(0, device="cuda").data_ptr() == 0
        first = x.data_ptr()
        del x
        assert torch.ones(2, 3, device="cuda").data_ptr() != first
        host = torch.ones(3)
        assert host.data_ptr() == host.untyped_storage().data_ptr()


def test_what_goes_to_the_meta_device_has_no_values(tmp_path: Path) -> None:
    """So do tensors of zeros that forward-mode derivatives add (BinaryOps.cpp, `maybe_add_maybe_sub`)."""
    with memestimate.record(tmp_path / "x"):
        x = torch.ones(5, 4, device="cuda")
        before = x.t().to("meta", torch.bfloat16)
        assert before.device.type == "meta"
        assert before.dtype is torch.bfloat16
        assert before.stride() == (1, 4)
        hessians = torch.func.vmap(torch.func.hessian(lambda z: z.square().sum()))(x)
        assert hessians.shape == (5, 4, 4)
        assert hessians.is_cuda

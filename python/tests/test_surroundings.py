"""What a program did before it was recorded, and what it asks PyTorch beside tensors' values."""

from __future__ import annotations

import contextlib
import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import memestimate
from forks import PYTHON
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
    command = [PYTHON, "-c", BEFORE, str(tmp_path / "x")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr
    recording = Recording(tmp_path / "x")
    assert len(recording.calls("mul")) == 4  # forward and backward, twice
    assert [number for (number,) in recording.of("thread")] == [1, 0, 1]


def test_a_package_is_known_wherever_its_folder_is_said_to_be(tmp_path: Path) -> None:
    """`sys.path.insert(0, "../src")`: files have the names that come of it, and are the recorder's own."""
    source = str(Path(__file__).parent / ".." / "src")
    program = f"import sys; sys.path.insert(0, {source!r})" + BEFORE
    command = [PYTHON, "-c", program, str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    recording = Recording(tmp_path / "x")
    assert not [frame for frame in recording.tables["frame"] if "/memestimate/" in frame[1]]


def test_functions_keep_their_parameters(tmp_path: Path) -> None:
    """Accelerate's optimizer passes set_to_none on where it finds it in the signature."""
    functions = (torch.optim.Optimizer.zero_grad, nn.Module.zero_grad, torch.cuda.set_device, torch.cuda.empty_cache)
    before = [inspect.signature(function).parameters for function in functions]
    with memestimate.record(tmp_path / "x"):
        within = (torch.optim.Optimizer.zero_grad, nn.Module.zero_grad, torch.cuda.set_device, torch.cuda.empty_cache)
        assert [inspect.signature(function).parameters for function in within] == before
        assert all(a is not b for a, b in zip(within[:2], functions[:2], strict=True))


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


def test_zero_tensors_of_derivatives_take_nothing_and_stay_on_the_gpu(tmp_path: Path) -> None:
    """A Hessian in vmap reshapes them; PyTorch's view of one on fake tensors is on the meta device."""
    path = tmp_path / "x.mrec"
    with memestimate.record(path):
        zero = torch._efficientzerotensor((1024, 4), device="cuda")
        for view in (zero.view(4, -1), zero.reshape(-1), zero.as_strided((2, 4), (4, 1))):
            assert view.is_cuda
            assert view._is_zerotensor()
        weight = torch.ones(3, 3, device="cuda", requires_grad=True)
        x = torch.ones(5, 3, device="cuda")
        torch.func.vmap(torch.func.hessian(lambda z: torch.nn.functional.linear(z, weight).tanh().sum()))(
            x
        ).sum().backward()
        assert weight.grad is not None
    recording = Recording(path)
    made = dict(event[:2] for event in recording.of("alloc"))
    zeros = [
        int(result.split(":")[0]) for _, _, results, *_ in recording.calls("_efficientzerotensor") for result in results
    ]
    assert len(zeros) > 4
    assert {made[number] for number in zeros} == {0}


def test_attributes_of_parameters_are_kept(tmp_path: Path) -> None:
    """As where `Module._apply` writes the data of the same object; FSDP1 keeps its shards' sizes so."""
    net = nn.Linear(3, 4)
    weight = net.weight
    weight.group = "slow"  # type: ignore[attr-defined]
    with memestimate.record(tmp_path / "x"):
        net.cuda()
        assert net.weight is weight
        weight.also = 1  # type: ignore[attr-defined]
        assert vars(net.cpu().weight) == {"group": "slow", "also": 1}
        net.cuda()
    assert vars(weight) == {"group": "slow", "also": 1}


def test_data_goes_to_the_gpu(tmp_path: Path) -> None:
    net = nn.Linear(3, 4)
    before = net.weight.detach().clone()
    with memestimate.record(tmp_path / "x") as recorder:
        for parameter in net.parameters():
            parameter.data = parameter.data.cuda()
        assert net.weight.is_cuda
        plain = torch.ones(5)
        plain.data = plain.data.cuda()
        assert plain.is_cuda
        net(torch.ones(2, 3, device="cuda")).sum().backward()
        assert net.weight.grad is not None
        assert net.weight.grad.is_cuda
        with_both = recorder.storages.allocated
        net.weight.data = net.weight.data.cpu()
        assert net.weight.device.type == "cpu"
        assert recorder.storages.allocated < with_both
    assert torch.equal(net.weight, before)


def test_tensors_are_swapped(tmp_path: Path) -> None:
    net = nn.Linear(3, 4)
    before = net.weight.detach().clone()
    with memestimate.record(tmp_path / "x") as recorder:
        weight, other = net.cuda().weight, nn.Parameter(torch.zeros(1024, 3, device="cuda"))
        torch.utils.swap_tensors(weight, other)
        assert net.weight is weight
        assert weight.shape == (1024, 3)
        allocated = recorder.storages.allocated
        del weight
        net.weight = other
        assert recorder.storages.allocated == allocated - 1024 * 3 * 4
    assert torch.equal(net.weight, before)


def test_threads_run_at_the_same_time(tmp_path: Path) -> None:
    """A fake kernel of one is not one of the other."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            x = torch.ones(8, 8, device="cuda")
            for _ in range(100):
                x = torch.tanh(x @ x)
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with memestimate.record(tmp_path / "x"):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed
    assert len(Recording(tmp_path / "x").calls("tanh")) == 400


@pytest.mark.parametrize("reentrant", [False, True])
def test_lists_that_index_are_copied_from_the_host_wherever_they_do(tmp_path: Path, reentrant: bool) -> None:
    """Where a checkpoint is recomputed, and in a thread: what that thread copies itself starts the driver."""
    failed: list[BaseException] = []

    def last(x: torch.Tensor) -> torch.Tensor:
        return x.exp()[..., [-1], :].exp()

    def train() -> None:
        try:
            x = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
            checkpoint(last, x, use_reentrant=reentrant).sum().backward()
        except BaseException as error:
            failed.append(error)

    with memestimate.record(tmp_path / "x"):
        train()
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert not failed
    assert len(Recording(tmp_path / "x").calls("index")) == 4


def test_a_shape_that_does_not_fit_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with memestimate.record(tmp_path / "x"), pytest.raises(RuntimeError, match=r"\[2, 3\] X \[4, 5\]"):
        _ = torch.ones(2, 3, device="cuda") @ torch.ones(4, 5, device="cuda")
    assert not caplog.records


def test_models_have_the_names_of_their_variables(tmp_path: Path) -> None:
    encoder, decoder, blocks = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4)), nn.ModuleList()
    blocks.extend(nn.Linear(4, 4) for _ in range(2))

    class Trainer:
        def __init__(self) -> None:
            self.critic = nn.Linear(4, 1).cuda()

        def value(self, x: torch.Tensor) -> torch.Tensor:
            return self.critic(x)  # type: ignore[no-any-return]

    with memestimate.record(tmp_path / "x"):
        trainer = Trainer()
        for net in (encoder, decoder, blocks):
            net.cuda()
        for _ in range(2):
            x = decoder(encoder(torch.ones(2, 4, device="cuda")))
            for block in blocks:
                x = block(x)
            nn.MSELoss()(trainer.value(x), torch.zeros(2, 1, device="cuda"))
    recording = Recording(tmp_path / "x")
    names = [name for _, name, kind in recording.tables["module"] if kind == "Linear"]
    assert names == ["0", "decoder.0", "blocks.0", "blocks.1", "critic"]
    parameters = {name for _, kind, name in recording.of("is") if kind == "parameter"}
    assert {"0.weight", "decoder.0.weight", "blocks.1.bias", "critic.weight"} <= parameters


def test_parts_of_a_known_model_keep_their_names(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Linear(4, 4))
    with memestimate.record(tmp_path / "x"):
        net.cuda()
        x = net(torch.ones(2, 4, device="cuda"))
        net[0](x)
    names = [name for _, name, kind in Recording(tmp_path / "x").tables["module"] if kind == "Linear"]
    assert names == ["0.0", "1", "0.0"]  # within another module the second time


def test_looking_for_names_keeps_nothing(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 4))
    other = nn.Linear(4, 4)
    with memestimate.record(tmp_path / "x") as recorder:
        net.cuda()
        other.cuda()
        x = torch.ones(1 << 18, 4, device="cuda")
        before = recorder.storages.allocated
        net(x)
        other(x)
        del x
        assert recorder.storages.allocated == before - (1 << 22)
        mine = locals()
        assert mine["other"] is other


def finds(limit: int, backward: bool) -> list[int]:
    """Sizes in MiB that fit, doubled until one does not."""
    fitted, size = [], 1
    while size < limit:
        try:
            x = torch.ones(size << 18, device="cuda", requires_grad=True)
            y = x * 2 if backward else x
            if backward:
                y.sum().backward()
            fitted.append(size)
            size *= 2
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            break
    return fitted


@pytest.mark.parametrize("backward", [False, True])
def test_a_program_that_catches_it_runs_out_of_memory(tmp_path: Path, backward: bool) -> None:
    """At 14.0 GiB of a T4, less than its 14.6 by the context, and at a tenth of them.

    The tensors of the size before live until there are new ones.

    With backward passes these are three of half a size, beside which two are made; else one, beside one.
    """
    with memestimate.record(tmp_path / "x", gpu="t4") as recorder:
        fitted = finds(1 << 20, backward)
        torch.cuda.set_per_process_memory_fraction(0.1)
        assert finds(1 << 20, backward)[-1] == (256 if backward else 512)
        after = recorder.storages.allocated
        assert after < 2 << 30
    assert fitted[-1] == (2048 if backward else 8192)
    assert [code for code, _ in recorder.notes] == ["memory", "memory"]
    recording = Recording(tmp_path / "x")
    assert recording.peak() < 15 << 30


def suppressed() -> torch.Tensor | None:
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        return torch.ones(20 << 28, device="cuda")
    return None


OOM_ERRORS = (torch.cuda.OutOfMemoryError, MemoryError)


def by_a_name() -> torch.Tensor | None:
    try:
        return torch.ones(20 << 28, device="cuda")
    except OOM_ERRORS:
        return None


def of_something_else() -> torch.Tensor | None:
    """Whose file speaks of being out of memory elsewhere."""
    with contextlib.suppress(KeyError):
        return torch.ones(20 << 28, device="cuda")
    return None


def test_suppressing_it_is_catching_it(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x", gpu="t4"):
        assert suppressed() is None
        assert by_a_name() is None
        assert of_something_else() is not None
    recording = Recording(tmp_path / "x")
    assert list(recording.of("out_of_memory")) == [[15_655_829_504], [15_655_829_504]]
    assert recording.peak() == 20 << 30


def test_what_does_not_fit_is_recorded_where_nobody_catches_it(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x", gpu="t4"):
        x = torch.ones(20 << 28, device="cuda")
        assert x.numel() == 20 << 28
    assert Recording(tmp_path / "x").peak() == 20 << 30


def test_words_that_sound_like_it_are_no_sign_of_it(tmp_path: Path) -> None:
    zoom_factor = 0
    with memestimate.record(tmp_path / "x", gpu="t4"):
        try:
            x = torch.ones(20 << 28, device="cuda")
        except RuntimeError:
            zoom_factor = 1
    assert zoom_factor == 0
    assert x.numel() == 20 << 28


def test_a_model_in_the_place_of_another_has_a_name_of_its_own(tmp_path: Path) -> None:
    """Python gives a new object the id of one that is gone."""

    def run(net: nn.Module) -> int:
        net(torch.ones(2, 4, device="cuda"))
        return id(net)

    with memestimate.record(tmp_path / "x"):
        run(nn.Sequential(nn.Linear(4, 4)).cuda())
        ids = [run(nn.Sequential(nn.Linear(4, 4)).cuda()) for _ in range(30)]
    assert len(set(ids)) < 30
    recording = Recording(tmp_path / "x")
    parameters = [name for _, kind, name in recording.of("is") if kind == "parameter" and name.endswith("weight")]
    assert parameters == ["0.weight", "net.0.weight", *(f"net_{n}.0.weight" for n in range(2, 31))]


def rank(number: int, world: int, seen: list[int]) -> None:
    import torch.distributed as dist

    dist.init_process_group("nccl", rank=number, world_size=world)
    seen += [number, dist.get_world_size()]
    dist.destroy_process_group()


def test_of_processes_that_are_started_one_runs(tmp_path: Path) -> None:
    seen: list[int] = []
    with memestimate.record(tmp_path / "x") as recorder:
        torch.multiprocessing.spawn(rank, args=(4, seen), nprocs=4)
    assert seen == [0, 4]
    assert ("distributed", "of 4 processes that the program starts only rank 0 runs") in recorder.notes


def test_models_on_the_gpu_are_shared_among_processes(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        net = nn.Linear(4, 4).cuda().share_memory()
        assert net.weight.is_cuda
        assert net.weight.is_shared()
        host = torch.ones(4)
        assert not host.is_shared()
        assert host.share_memory_().is_shared()


def test_memory_is_pinned_where_it_was_asked_for(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        assert torch.empty(3, pin_memory=True).is_pinned()
        assert torch.tensor([1.0, 2.0], pin_memory=True).is_pinned()
        assert torch.ones(3).pin_memory().is_pinned()
        assert not torch.ones(3).is_pinned()

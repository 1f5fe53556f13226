"""Tensors of libraries' own classes on the pretended GPU, and bitsandbytes' quantized weights among them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import memestimate
from recording import Recording


class Tagged(torch.Tensor):
    """As torchvision's and MONAI's: results are of the class, too."""


class Frozen(nn.Parameter):
    """As bitsandbytes' and accelerate's: a parameter with a setting."""

    def __new__(cls, data: torch.Tensor, requires_grad: bool = False, block: int = 64) -> Frozen:
        self = torch.Tensor._make_subclass(cls, data, requires_grad)
        self.block = block
        return self


def test_a_subclass_is_one_on_the_gpu_too(tmp_path: Path) -> None:
    before = torch.Tensor._make_subclass, torch.Tensor.as_subclass, nn.Parameter.__new__
    with memestimate.record(tmp_path / "a.mrec"):
        x = torch.ones(1000, device="cuda", requires_grad=True)
        tagged = x.as_subclass(Tagged)
        assert isinstance(tagged, Tagged)
        assert type(tagged).__name__ == "Tagged"
        assert isinstance(tagged * 2, Tagged)
        assert not isinstance(tagged.as_subclass(torch.Tensor), Tagged)
        (tagged * 2).sum().backward()
        assert x.grad is not None
        weight = Frozen(torch.ones(500, device="cuda"), block=32)
        assert isinstance(weight, Frozen)
        assert isinstance(weight, nn.Parameter)
        assert (weight.block, weight.requires_grad, weight.is_cuda) == (32, False, True)
        again = type(weight)(weight.data, requires_grad=True)
        assert isinstance(again, Frozen)
        plain = nn.Parameter(torch.ones(500, device="cuda"))
        assert isinstance(type(plain)(plain.data, requires_grad=False), nn.Parameter), "as accelerate makes them"
    assert (torch.Tensor._make_subclass, torch.Tensor.as_subclass, nn.Parameter.__new__) == before


def test_a_parameter_keeps_its_class_when_it_moves(tmp_path: Path) -> None:
    model = nn.Linear(100, 100, bias=False)
    model.weight = Frozen(torch.ones(100, 100), block=16)
    with memestimate.record(tmp_path / "a.mrec"):
        model.cuda()
        assert isinstance(model.weight, Frozen)
        assert model.weight.block == 16
        assert model.weight.is_cuda
        model.weight.data = model.weight.data.half()
        assert isinstance(copy.deepcopy(model).weight, nn.Parameter)
        model.cpu()
        assert type(model.weight) is Frozen
        model.cuda()
    assert type(model.weight) is Frozen
    assert not model.weight.is_cuda


def quantized() -> nn.Module:
    bnb = pytest.importorskip("bitsandbytes")
    return nn.Sequential(
        bnb.nn.Linear4bit(
            1024, 4096, bias=False, compute_dtype=torch.bfloat16, compress_statistics=True, quant_type="nf4"
        ),
        nn.Linear(4096, 8, dtype=torch.bfloat16),
    )


def test_four_bits_hold_what_bitsandbytes_allocates(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec") as recorder:
        model = quantized().cuda()
        weight = model[0].weight
        assert type(weight).__name__ == "Params4bit"
        assert weight.shape == (1024 * 4096 // 2, 1)
        assert weight.quant_state.nested
        small = model[1].weight.numel() * 2 + 512
        # Half a byte an element, a byte for 64, 4 bytes for 64 * 256, the tables of 16 and of 256 values, the offset.
        held = (2 << 20) + (64 << 10) + 1024 + 512 + 1024 + 512 + 1024 + small
        assert torch.cuda.memory_allocated() == held
        torch.cuda.reset_peak_memory_stats()
        x = torch.randn(2048, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        given = torch.cuda.memory_allocated()
        model[0](x)
        # The weight in bfloat16, its scales in float32 before and after the offset, and the result.
        assert recorder.storages.levels[0].peak == given + (8 << 20) + 2048 * 4096 * 2 + (512 << 10)
        model(x).sum().backward()
        assert x.grad is not None
    assert model[0].weight.device.type == "cpu"


def test_states_of_paged_optimizers_are_no_allocations(tmp_path: Path) -> None:
    bnb = pytest.importorskip("bitsandbytes")
    for paged in (False, True):
        with memestimate.record(tmp_path / f"{paged}.mrec") as recorder:
            model = nn.Linear(1024, 1024, bias=False, device="cuda")
            optimizer = bnb.optim.AdamW8bit(model.parameters(), is_paged=paged)
            for _ in range(2):
                model(torch.ones(8, 1024, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            held = recorder.storages.allocated  # without cuBLAS's workspaces
        notes = [event[2] for event in Recording(tmp_path / f"{paged}.mrec").events if event[:2] == ["note", "managed"]]
        assert len(notes) == paged
        maps, scales = 2 * 1024, 2 * 1024 * 1024 // 256 * 4
        assert held == (4 << 20) + maps + scales + (0 if paged else 2 << 20)


class Labelled(torch.Tensor):
    """As fastai's: what is computed of it takes its label over."""

    label = ""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_function__(func, types, args, kwargs)
        if isinstance(out, Labelled):
            out.label = next((x.label for x in args if isinstance(x, Labelled)), "")
        return out


def test_a_class_that_follows_what_is_computed_of_it(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        x = torch.ones(4, 8, device="cuda").as_subclass(Labelled)
        x.label = "image"
        net = nn.Linear(8, 2).cuda()
        y = nn.Sequential(net, nn.ReLU(), nn.Linear(2, 2).cuda())(x)
        assert isinstance(y, Labelled)
        assert (y.label, y.is_cuda) == ("image", True)
        assert isinstance(y.cpu(), Labelled)
        weights = (y.as_subclass(torch.Tensor) + 1).softmax(-1)
        torch.optim.Adam(net.parameters()).zero_grad()
        weights.mean().backward(retain_graph=True)
        y.softmax(-1).mean().backward()


class Guarded(nn.Parameter):
    """As hypll's: of a manifold, it refuses most functions of PyTorch."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("untyped_storage", "data_ptr", "storage"):
            raise TypeError(f"Attempting to apply the torch function {func} on a Guarded")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_class_may_refuse_to_say_where_its_memory_is(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "a.mrec"):
        net = nn.Linear(8, 8, device="cuda")
        net.weight = Guarded(torch.ones(8, 8, device="cuda"))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()
    assert ["parameter", "weight"] in [event[1:] for event in Recording(tmp_path / "a.mrec").of("is")]

"""Settings in PyTorch's users' words mean what they mean to them, or are refused with what they could mean."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import nn

from memestimate import estimate
from memestimate.api import gpus, spelling
from memestimate.core.gpus import DEFAULT, l2_cache


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("4090", "rtx-4090"), ("A100 80G", "a100-80gb"), ("NVIDIA H200", "h200"), ("H200", "h200"), ("24 GiB", "24GiB")],
)
def test_names_of_gpus(typed: str, meant: str) -> None:
    assert gpus.find(typed).id == meant


@pytest.mark.parametrize(
    ("typed", "said"),
    [("a100", "a100-40gb, a100-64gb"), ("mi300", "unknown GPU"), ("--help", "unknown GPU")],
)
def test_names_that_no_gpu_or_several_have(typed: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        gpus.find(typed)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (torch.float32, "fp32"),
        ("float32", "fp32"),
        ("FP32", "fp32"),
        ("32-true", "fp32"),
        (torch.bfloat16, "bf16"),
        ("torch.bfloat16", "bf16"),
        (torch.half, "fp16"),
        ("mixed", "amp-fp16"),
        ("O1", "amp-fp16"),
        ("bf16-mixed", "amp-bf16"),
        ("AMP_BF16", "amp-bf16"),
    ],
)
def test_words_for_precision(typed: str | torch.dtype, meant: str) -> None:
    assert spelling.precision(typed) == meant


@pytest.mark.parametrize(
    ("typed", "said"),
    [(torch.float64, "takes more than fp32"), ("16", "two readings"), ("int8", "upper bound"), ("quick", "amp-bf16")],
)
def test_precisions_that_are_refused(typed: str | torch.dtype, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        spelling.precision(typed)


def test_words_for_modes() -> None:
    words = ("train", "Training", "eval", "inference", "no_grad")
    assert [spelling.mode(w) for w in words] == ["train", "train", "infer", "infer", "infer"]
    with pytest.raises(ValueError, match="mode 'dream' is not known: train, infer"):
        spelling.mode("dream")


@pytest.mark.parametrize(
    ("typed", "kind", "settings"),
    [
        ("AdamW", torch.optim.AdamW, {}),
        ("torch.optim.AdamW(lr=1e-4, fused=True)", torch.optim.AdamW, {"lr": 1e-4, "fused": True}),
        ("adamw_torch_fused", torch.optim.AdamW, {"fused": True}),
        ("sgd", torch.optim.SGD, {"momentum": 0}),
        ("sgdm-nesterov", torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        ("SGD(params, 0.1, momentum=0.9, weight_decay=1e-4)", torch.optim.SGD, {"momentum": 0.9, "weight_decay": 1e-4}),
        ("momentum", torch.optim.SGD, {"momentum": 0.9}),
        ("rmsprop-centered", torch.optim.RMSprop, {"centered": True}),
        (functools.partial(torch.optim.Adam, amsgrad=True), torch.optim.Adam, {"amsgrad": True}),
    ],
)
def test_optimizers(typed: Any, kind: type, settings: dict[str, Any]) -> None:
    made = spelling.optimizer(typed)([nn.Parameter(torch.zeros(1))])
    assert type(made) is kind
    assert {name: made.defaults[name] for name in settings} == settings


@pytest.mark.parametrize("typed", ["lion", "Optimizer", "SGD(momentum", "SGD(momentum=m)", "adamw-quick", "functools"])
def test_optimizers_that_are_refused(typed: str) -> None:
    with pytest.raises(ValueError, match="optimizer"):
        spelling.optimizer(typed)


@pytest.mark.parametrize(
    "typed", ["cross_entropy", "CrossEntropyLoss", "nn.CrossEntropyLoss()", "CE", nn.CrossEntropyLoss]
)
def test_criteria(typed: Any) -> None:
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert torch.equal(spelling.loss(typed)(x, y), nn.functional.cross_entropy(x, y))


def test_criteria_that_are_refused() -> None:
    with pytest.raises(ValueError, match="loss 'focal' is not known: cross-entropy"):
        spelling.loss("focal")
    with pytest.raises(TypeError, match="give a function"):
        spelling.loss(3)


def test_words_and_objects_are_the_same_step() -> None:
    model, x, y = nn.Linear(64, 8), torch.randn(16, 64), torch.randint(0, 8, (16,))
    told = estimate(model, x, labels=y, loss="ce", optimizer="SGD(momentum=0.9)", precision="bf16-mixed", gpu="4090")
    given = estimate(
        model,
        x,
        labels=y,
        loss=nn.functional.cross_entropy,
        optimizer=functools.partial(torch.optim.SGD, momentum=0.9),
        precision="amp-bf16",
        gpu="rtx-4090",
    )
    assert told.peak == given.peak


def test_a_size_is_a_gpu() -> None:
    for typed, size in {"24GiB": 24 << 30, "24G": 24 << 30, "16GB": 16 * 10**9, "1.5 TiB": 3 << 39}.items():
        gpu = gpus.find(typed)
        assert (gpu.memory, gpu.capability, gpu.multiprocessors) == (size, DEFAULT.capability, DEFAULT.multiprocessors)
    assert gpus.find("mi300x").memory < 192 << 30


def test_the_program_knows_the_default() -> None:
    assert gpus.find(DEFAULT.name) == DEFAULT


@pytest.mark.parametrize(
    "of", ["p4", "t4", "v100s", "a30", "a40", "l4", "h100-pcie", "b200", "gb10", "mi300x", "24GiB"]
)
def test_each_generation_has_a_cache(of: str) -> None:
    assert 1 << 20 <= l2_cache(gpus.find(of)) <= 128 << 20

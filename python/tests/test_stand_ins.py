"""Values beside a recording, where the CPU has another operator than a GPU, or none: they are those of the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import memestimate

HALF = torch.bfloat16
FLOAT = torch.float32
INDICES = torch.tensor([3, 1, 2, 0, 3, 3])
OFFSETS = torch.tensor([0, 2, 2])  # the second bag is empty


def vector(x: Tensor) -> Tensor:
    return torch.linspace(0.5, 1.5, x.shape[-1]).to(x)


def bags(mode: str) -> Callable[[Tensor], Tensor]:
    return lambda x: F.embedding_bag(INDICES.to(x.device), x.flatten(1), OFFSETS.to(x.device), mode=mode)


def weighted_bags(x: Tensor) -> Tensor:
    weights = x.flatten()[:6]
    return F.embedding_bag(
        INDICES.to(x.device), x.flatten(1), OFFSETS.to(x.device), mode="sum", per_sample_weights=weights
    )


OPERATIONS: dict[str, tuple[Callable[[Tensor], Tensor], torch.dtype]] = {
    "log_sigmoid": (F.logsigmoid, FLOAT),
    "log_sigmoid in half": (F.logsigmoid, HALF),
    "rms_norm": (lambda x: F.rms_norm(x, x.shape[-1:], vector(x)), FLOAT),
    "rms_norm in half": (lambda x: F.rms_norm(x, x.shape[-1:], vector(x)), HALF),
    "layer_norm in half": (lambda x: F.layer_norm(x, x.shape[-1:], vector(x), vector(x)), HALF),
    "mean of bags": (bags("mean"), FLOAT),
    "maximum of bags": (bags("max"), FLOAT),
    "weighted bags": (weighted_bags, FLOAT),
    "log_softmax of half": (lambda x: F.log_softmax(x, -1, dtype=torch.float32), torch.float16),
    "bicubic in half": (lambda x: F.interpolate(x[None], scale_factor=2, mode="bicubic", antialias=True), HALF),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients_are_those_of_the_cpu(tmp_path: Path, name: str) -> None:
    function, dtype = OPERATIONS[name]
    x = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    wide = x.float().clone().requires_grad_()
    wanted = function(wide)
    wanted.square().sum().backward()
    with memestimate.record(tmp_path / "x", real=True) as recorder:
        given = x.cuda().requires_grad_()
        found = function(given)
        found.float().square().sum().backward()
        assert recorder.values.real is not None
        assert given.grad is not None
        results = [recorder.values.real.of(t).float() for t in (found, given.grad)]
    assert not [text for code, text in recorder.notes if code == "real"]
    assert wide.grad is not None
    for result, want in zip(results, (wanted, wide.grad), strict=True):
        torch.testing.assert_close(
            result, want, atol=1e-5 if dtype is FLOAT else 0.1, rtol=1e-4 if dtype is FLOAT else 0.05
        )


def test_what_a_norm_leaves_empty_in_evaluation_is_no_failure(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x", real=True) as recorder:
        x = torch.randn(2, 6, 5, 5, device="cuda", dtype=HALF)
        out = nn.BatchNorm2d(6).cuda().eval()(x)
        assert recorder.values.real is not None
        torch.testing.assert_close(recorder.values.real.of(out), recorder.values.real.of(x), atol=0.02, rtol=0.02)
    assert not [text for code, text in recorder.notes if code == "real"]


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
@pytest.mark.parametrize("bias", [True, False])
def test_cells_have_values(tmp_path: Path, kind: type[nn.RNNCellBase], bias: bool) -> None:
    torch.manual_seed(0)
    cell = kind(5, 3, bias=bias)
    inputs = torch.randn(2, 4, 5)

    def run(cell: nn.Module, x: Tensor) -> Tensor:
        state = cell(x[1], cell(x[0]))
        return state if isinstance(state, Tensor) else torch.cat(state, 1)

    plain, x = copy.deepcopy(cell), inputs.clone().requires_grad_()
    wanted = run(plain, x)
    wanted.square().sum().backward()
    with memestimate.record(tmp_path / "x", real=True) as recorder:
        given = inputs.cuda().requires_grad_()
        found = run(cell.cuda(), given)
        found.square().sum().backward()
        assert recorder.values.real is not None
        tensors = [found, given.grad, *[p.grad for p in cell.parameters()]]
        results = [recorder.values.real.of(t) for t in tensors if t is not None]
    assert not [text for code, text in recorder.notes if code == "real"]
    for result, want in zip(results, [wanted, x.grad, *[p.grad for p in plain.parameters()]], strict=True):
        torch.testing.assert_close(result, want)


def test_a_kernel_without_half_types_on_the_host_is_tried_in_float32(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x"):
        x = torch.ones(4, 5, device="cuda", dtype=HALF, requires_grad=True)
        F.multi_margin_loss(x, torch.zeros(4, dtype=torch.long, device="cuda")).backward()
        assert x.grad is not None
        assert x.grad.dtype is HALF


def test_ragged_attention_has_values(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    sequences = [torch.randn(n, 2, 8, generator=generator) for n in (3, 1, 4)]
    wanted = [F.scaled_dot_product_attention(*[s.transpose(0, 1)] * 3).transpose(0, 1) for s in sequences]
    with memestimate.record(tmp_path / "x", real=True) as recorder:
        ragged = torch.nested.nested_tensor([s.cuda() for s in sequences], layout=torch.jagged)
        heads = ragged.transpose(1, 2)
        found = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)
        assert recorder.values.real is not None
        torch.testing.assert_close(recorder.values.real.of(found.values()), torch.cat(wanted))
    assert not [text for code, text in recorder.notes if code == "real"]

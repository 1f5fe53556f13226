"""What real tensors do in place, and fake ones do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import memestimate
from recording import Recording

N = 1 << 16


def backward(path: Path, function: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    """The additions in the backward of a function of one tensor."""
    with memestimate.record(path):
        leaf = torch.ones(256, 256, device="cuda", requires_grad=True)
        function(leaf * 2).sum().backward()
    recording = Recording(path)
    names = [op[0].removeprefix("aten::") for op in recording.tables["op"]]
    phase, found = "", []
    for word, *rest in recording.events:
        if word == "phase":
            phase = rest[0]
        elif word == "call" and phase == "backward" and names[rest[0]] in ("add", "add_"):
            found.append(names[rest[0]])
            assert (rest[1][0] == rest[2][0]) == (names[rest[0]] == "add_")
    return found


def test_gradients_that_meet_are_summed_in_place(tmp_path: Path) -> None:
    assert backward(tmp_path / "a", lambda x: x.relu() * x.sigmoid()) == ["add_"]
    assert backward(tmp_path / "b", lambda x: x * x) == ["add_"]
    assert backward(tmp_path / "c", lambda x: x.relu() + x.sigmoid() + x.tanh()) == ["add_", "add_"]


def test_a_gradient_that_others_hold_is_not_written(tmp_path: Path) -> None:
    """y = x + x.t(): both gradients are of one storage."""
    assert backward(tmp_path / "a", lambda x: x + x.t()) == ["add"]


def test_sums_written_in_python_stay_what_they_are(tmp_path: Path) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad + grad.relu()

    assert backward(tmp_path / "a", lambda x: Twice.apply(x)) == ["add"]  # type: ignore[no-any-return]


def test_the_bias_of_a_linear_layer(tmp_path: Path) -> None:
    """An input that is no matrix and not contiguous takes a product and adds the bias into it."""
    with memestimate.record(tmp_path / "x.mrec"):
        x = torch.ones(8, 16, 4, device="cuda").transpose(1, 2)
        F.linear(x, torch.ones(32, 16, device="cuda"), torch.ones(32, device="cuda"))
    names = [call[0] for call in Recording(tmp_path / "x.mrec").calls()]
    assert "add_" in names
    assert "add" not in names


def test_a_gradient_is_kept_without_a_copy(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec"):
        weight = torch.ones(256, 256, device="cuda", requires_grad=True)
        (torch.ones(8, 256, device="cuda") @ weight).sum().backward()
    recording = Recording(tmp_path / "x.mrec")
    assert "clone" not in [call[0] for call in recording.calls()]
    assert [kind for _, kind, _ in recording.of("is") if kind == "gradient"] == ["gradient"]


def calls(path: Path, function: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    """What a function of a matrix and its backward call."""
    with memestimate.record(path):
        leaf = torch.ones(64, 64, device="cuda", requires_grad=True)
        function(leaf * 2).sum().backward()
    return [call[0] for call in Recording(path).calls()]


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (lambda x: x.gather(1, x.detach().long()), "scatter_add_"),
        (lambda x: x.index_select(1, x.detach().long()[0]), "index_add_"),
        (lambda x: x.max(1).values, "scatter_"),
        (lambda x: x.topk(4, 1).values, "scatter_"),
        (lambda x: x.sort(1).values, "scatter_"),
        (lambda x: x.cummax(1).values, "scatter_add_"),
        (lambda x: x.take(x.detach().long()), "put_"),
        (lambda x: x.masked_select(x > 0), "masked_scatter_"),
        (lambda x: x.trace(), "index_fill_"),
    ],
)
def test_gradients_are_put_into_zeros(
    tmp_path: Path, function: Callable[[torch.Tensor], torch.Tensor], written: str
) -> None:
    names = calls(tmp_path / "x", function)
    assert written in names
    assert written[:-1] not in names


def test_the_gradient_of_others_is_not_written(tmp_path: Path) -> None:
    """`scatter` gives its own gradient on, with zeros in it."""
    names = calls(tmp_path / "x", lambda x: x.scatter(1, x.detach().long(), x))
    assert "scatter" in names
    assert "scatter_" not in names


def test_the_gradient_of_a_loss_of_logits(tmp_path: Path) -> None:
    names = calls(tmp_path / "x", lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)))
    assert names[names.index("sigmoid") :][:3] == ["sigmoid", "sub_", "mul_"]


def test_the_gradient_of_an_angle_fills_what_it_has_made(tmp_path: Path) -> None:
    names = calls(tmp_path / "x", lambda x: torch.atan2(x, x + 1))
    assert names[names.index("reciprocal") :][:3] == ["reciprocal", "eq", "masked_fill_"]


def test_one_hot_scatters_into_zeros(tmp_path: Path) -> None:
    names = calls(tmp_path / "x", lambda x: F.one_hot(x.detach().long(), 8).sum() * x)
    assert "scatter_" in names
    assert "eq" not in names


def test_the_gradient_of_cumprod_is_a_sum(tmp_path: Path) -> None:
    names = calls(tmp_path / "x", lambda x: x.cumprod(1))
    assert names[names.index("any") :][:5] == ["any", "flip", "cumsum", "flip", "div"]

"""What programs assert of values that nobody knows: they go on, as they would with sound tensors."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import memestimate

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells columns from 3.11 on")
Check = Callable[[torch.Tensor], object]
_LIMIT = 1e-4


def _largest(x: torch.Tensor) -> float:
    return x.abs().max().item()


def _number(x: torch.Tensor) -> None:
    assert x.abs().max().item() < 1e-4


def _truth(x: torch.Tensor) -> None:
    assert x.abs().max() < 1e-4


def _relative(x: torch.Tensor, eps: float = 1e-10) -> None:
    largest = x.abs().max().item()
    error = x.sum().abs().item()
    relative = error / (largest + eps)
    assert relative < 1e-2, f"relative error {relative}"


def _leaves(x: torch.Tensor) -> None:
    largest = float(x.abs().max())
    if largest > 0.5:
        sys.exit(1)


def _raises_below(x: torch.Tensor) -> float:
    smallest = x.min().item()
    if smallest < 0.5:
        return smallest
    raise ValueError


def _of_a_copy(x: torch.Tensor) -> None:
    assert x.max().cpu() < 1e-4


def _of_an_array(x: torch.Tensor) -> None:
    values = x.detach().cpu().numpy()
    assert np.abs(values).max() < 1e-4


def _different(x: torch.Tensor) -> None:
    assert not torch.equal(x, x + 1)
    assert not torch.allclose(x, 2 * x)


def _none_of_all(x: torch.Tensor) -> None:
    if (x < 0).all():
        raise ValueError


class _Bounded(torch.nn.Module):
    """Its limit is a buffer, of which the source says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("limit", torch.ones(()))

    def forward(self, x: torch.Tensor) -> None:
        largest = x.max().item()
        assert self.limit is not None or largest < 0
        assert largest < 0.5
        torch._assert(condition=largest < 0.5, message="too large")


def _of_a_module(x: torch.Tensor) -> None:
    _Bounded()(x)


def _by_name(x: torch.Tensor) -> None:
    is_bad = x.max() > 0.5
    if is_bad.any():
        raise ValueError
    torch._assert(x.max().item() < 0.5, "too large")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "check",
    [
        _number,
        _truth,
        _relative,
        _leaves,
        _raises_below,
        _of_a_copy,
        _of_an_array,
        _different,
        _none_of_all,
        _by_name,
        _of_a_module,
    ],
)
def test_a_program_goes_on_where_it_asserts_something(tmp_path: Path, check: Check) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        check(torch.randn(200, 400, device="cuda"))
    told = [text for code, text in rec.notes if code == "asserted"]
    assert told
    assert all(text.startswith("test_asserted.py:") for text in told)


def test_what_holds_of_a_plausible_number_changes_nothing(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        loss = torch.randn(200, 400, device="cuda").sum().item()
        assert math.isfinite(loss)
        assert loss > 0.5
        if loss > 1e5:
            raise ValueError
    assert loss == 1.0
    assert "asserted" not in [code for code, _ in rec.notes]


def test_what_cannot_hold_is_raised(tmp_path: Path) -> None:
    """A value that is known is the program's own, and so is what follows from none."""
    for value in (torch.ones(4), torch.randn(200, 400)):
        with pytest.raises(AssertionError), memestimate.record(tmp_path / "x.mrec"):
            assert abs(value.cuda().max().item()) < 0


def test_closeness_takes_what_its_operators_take(tmp_path: Path) -> None:
    from recording import Recording

    with memestimate.record(tmp_path / "x.mrec"):
        x = torch.randn(200, 400, device="cuda")
        assert torch.allclose(x, x * 2)
    assert {"isfinite", "all"} & {name for name, *_ in Recording(tmp_path / "x.mrec").calls()}


def test_a_value_that_much_is_made_of_is_followed_for_a_moment(tmp_path: Path) -> None:
    """There are 2**22 ways from the first name to the last."""
    sums = [f"    v{i} = {' + '.join(f'v{j}' for j in range(i))}" for i in range(1, 24)]
    lines = ["def f(x):", "    v0 = x.max().item()", "    assert v0 < 1e-4", *sums, "    return v23"]
    source = tmp_path / "many.py"
    source.write_text("\n".join(lines))
    names: dict[str, Callable[[torch.Tensor], float]] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    with memestimate.record(tmp_path / "x.mrec"):
        assert names["f"](torch.randn(200, 400, device="cuda")) == 0.0


def _least() -> int:
    return 0


def test_no_list_is_made_as_long_as_a_number_that_is_tried(tmp_path: Path) -> None:
    """Numbers up to 1e9 are tried where nobody knows whether an assertion holds."""
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with memestimate.record(tmp_path / "x.mrec"):
        count = int(torch.randn(200, 400, device="cuda").max().item())
        rows = [None] * count
        assert len(rows) > _least()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 20)


def test_numbers_that_are_none_leave_the_others(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec") as rec:
        x = torch.randn(200, 400, device="cuda").cpu()[0, :3].clone()
        x[0] = float("nan")
        first = x[0].item()
        values = x.tolist()
    assert math.isnan(first)
    assert values[1:] == [1.0, 1.0]
    assert "asserted" not in [code for code, _ in rec.notes]


@pytest.mark.parametrize("terms", [1500, 2500])
def test_what_is_nested_too_deep_is_not_followed(tmp_path: Path, terms: int) -> None:
    deep = "+".join("1" for _ in range(terms))
    source = tmp_path / "deep.py"
    source.write_text(f"def f(x):\n    v = x.max().item()\n    return v > 0 and v + {deep}\n")
    names: dict[str, Callable[[torch.Tensor], float]] = {}
    exec(compile(source.read_text(), str(source), "exec"), names)
    with memestimate.record(tmp_path / "x.mrec"):
        x = torch.randn(200, 400, device="cuda")
        assert _below(100, lambda: names["f"](x)) == terms + 1


def _below(count: int, call: Callable[[], float]) -> float:
    return call() if count == 0 else _below(count - 1, call)

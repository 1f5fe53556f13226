"""``pytest --memestimate``: tests marked ``gpu_memory("8GiB")`` run on a pretended GPU and must keep to it."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_MARK = "gpu_memory(limit, gpu=None, real=False): the GPU memory that the test may take, or the GPU it must fit"
_PROPERTY = "gpu_memory"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that asks for it."""
    parser.getgroup("memestimate").addoption(
        "--memestimate",
        action="store_true",
        help="run tests marked gpu_memory on a pretended GPU, and fail those that take more than their limit",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", _MARK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record the body of a marked test: what fixtures did before it is not in the figures."""
    mark = item.get_closest_marker("gpu_memory")
    if mark is None or not item.config.getoption("memestimate"):
        return (yield)
    limit, gpu, real = _read(mark)
    try:
        from .answer import Estimate
        from .recorder import record
    except ModuleNotFoundError as error:
        pytest.fail(f"gpu_memory needs PyTorch, which records the test: {error}", pytrace=False)
    with tempfile.TemporaryDirectory(prefix="memestimate-") as folder:
        path = Path(folder) / "test.mrec"
        try:
            recorder = record(path, gpu=gpu or limit, real=real)
        except ValueError as error:
            pytest.fail(f"gpu_memory: {error}", pytrace=False)
        with recorder:
            result = yield
        try:
            answer = Estimate(path, flags=("--gpu", limit))
        except (OSError, ValueError, RuntimeError) as error:
            pytest.fail(f"gpu_memory: {error}", pytrace=False)
        if not answer.peak.reserved:
            pytest.fail(f"gpu_memory({limit!r}): the test puts nothing on the GPU", pytrace=False)
        held = answer.data["fits"][0]
        verdict = f"{item.name} takes {held['need_bytes'] / 2**20:,.0f} MiB to be safe"
        verdict += f": {'fits' if held['fits'] else 'more than'} {held['name']}"
        item.user_properties.append((_PROPERTY, verdict))
        if not held["fits"]:
            pytest.fail(f"{verdict}; peak: {answer.peak.phase} {answer.peak.layer}".rstrip(), pytrace=False)
    return result


def _read(mark: pytest.Mark) -> tuple[str, str | None, bool]:
    """Limit, GPU and whether to compute, as a mark has them."""

    def read(limit: str, gpu: str | None = None, real: bool = False) -> tuple[str, str | None, bool]:
        if not isinstance(limit, str):
            raise TypeError(f"limit is {limit!r}, wanted a size such as '8GiB' or a GPU's name")
        return limit, gpu, real

    try:
        return read(*mark.args, **mark.kwargs)
    except TypeError as error:
        pytest.fail(f"gpu_memory: {str(error).replace('_read.<locals>.read()', 'the mark')}", pytrace=False)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what each marked test takes."""
    reports = [r for name in ("passed", "failed") for r in terminalreporter.getreports(name)]
    verdicts = [value for r in reports if r.when == "call" for name, value in r.user_properties if name == _PROPERTY]
    if verdicts:
        terminalreporter.section("GPU memory")
        for verdict in verdicts:
            terminalreporter.line(verdict)

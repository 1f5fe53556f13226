"""The page of the Python API is that of the docstrings, and those say what numpydoc wants to be said."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import memestimate

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
import python_docs

_DESCRIBED = [getattr(memestimate, name) for name in python_docs.public()]


def test_the_page_is_current() -> None:
    page = python_docs.page()
    assert python_docs.PAGE.read_text(encoding="utf-8") == page, "python scripts/python_docs.py writes it"
    assert page.count("\n## ") == len(dir(memestimate)) - 1  # all but the version


@pytest.mark.parametrize("value", _DESCRIBED, ids=lambda value: value.__name__)
def test_docstrings_are_numpydocs(value: object) -> None:
    found = python_docs.sections(inspect.getdoc(value) or "")
    assert found[""].partition("\n")[0].endswith((".", ":", "...``.")), "a first line that is a sentence"
    parameters = set(inspect.signature(value).parameters)
    if inspect.isfunction(value):
        assert python_docs.names(found["Parameters"]) == parameters
        assert "Returns" in found
    elif isinstance(value, type) and "Parameters" in found:
        assert python_docs.names(found["Parameters"]) == parameters
    elif isinstance(value, type) and hasattr(value, "__dataclass_fields__"):
        assert python_docs.names(found["Attributes"]) == parameters


def test_the_package_is_imported_without_pytorch() -> None:
    code = "import sys, memestimate; sys.exit(bool({'torch', 'subprocess', 'dataclasses'} & set(sys.modules)))"
    folder = str(Path(memestimate.__file__).parents[1])
    assert (
        subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {folder!r}); {code}"]).returncode
        == 0
    )

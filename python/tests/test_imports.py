"""Which module of the package imports which as it runs: one direction, whatever they import for their types alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import memestimate

SOURCE = Path(memestimate.__file__).parent
# What asks for recordings, and what asks the program: none of it is of use within a recording.
USERS = {"__init__", "__main__", "answer", "ask", "configs", "live", "program", "script", "search", "tasks"}
STARTS = {"ask", "script"}  # those that make a Recorder


def of(source: str, modules: set[str]) -> set[str]:
    """The modules of the package that a source imports, in functions too, but for those of `if TYPE_CHECKING`."""
    found = set()
    for node in running(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
            found |= {name if name in modules else "__init__" for name in names}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            found |= {(name + ".__init__").split(".")[1] for name in names if name.split(".")[0] == "memestimate"}
    return found


def running(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        for child in node.orelse:
            yield from running(child)
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from running(child)


def graph() -> dict[str, set[str]]:
    sources = {path.stem: path.read_text(encoding="utf-8") for path in SOURCE.glob("*.py")}
    found = {name: of(source, set(sources)) for name, source in sources.items()}
    found["__init__"] |= set(memestimate._WITH_TORCH.values())  # imported by name, when they are asked for
    return found


def reached(imports: Mapping[str, set[str]], start: str) -> set[str]:
    found, left = {start}, [start]
    while left:
        new = imports[left.pop()] - found
        found |= new
        left += new
    return found


def test_no_module_waits_for_itself() -> None:
    imports = graph()
    assert len(imports) > 60
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_what_records_knows_nothing_of_who_asks() -> None:
    imports = graph()
    assert {name for name, known in imports.items() if "recorder" in known} - {"__init__"} == STARTS
    within = reached(imports, "recorder")
    assert len(within) > 45
    assert not within & USERS


def test_every_module_is_of_a_recording_or_of_who_asks() -> None:
    imports = graph()
    assert set(imports) - reached(imports, "recorder") == USERS


def test_the_reader_of_imports_sees_what_runs() -> None:
    source = """
import torch
from typing import TYPE_CHECKING
from . import a, helper
from .b import x
if TYPE_CHECKING:
    from .c import y
else:
    from .d import y
def f():
    from .e import z
    import memestimate.g
    from memestimate import h
"""
    assert of(source, set("abcdefgh")) == {"a", "b", "d", "e", "g", "__init__"}

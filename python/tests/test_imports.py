"""Which module of the package imports which as it runs: in no circle. import-linter holds the layers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import memestimate

SOURCE = Path(memestimate.__file__).parent


def named(path: Path) -> str:
    """The dotted name of a file's module, that of the package left out."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def of(source: str, within: list[str], modules: set[str]) -> set[str]:
    """The modules that a source imports, in functions too, but for those of `if TYPE_CHECKING`."""
    found = set()
    for node in running(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = within[: len(within) - node.level + 1] + (node.module.split(".") if node.module else [])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "memestimate":
            base = (node.module or "").split(".")[1:]
        else:
            continue
        for alias in node.names:
            whole = ".".join([*base, alias.name])
            found.add(whole if whole in modules else ".".join(base) or "__init__")
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
    paths = {named(path): path for path in SOURCE.rglob("*.py")}
    return {
        name: of(path.read_text(encoding="utf-8"), list(path.relative_to(SOURCE).parts[:-1]), set(paths))
        for name, path in paths.items()
    }


def test_no_module_waits_for_itself() -> None:
    imports = graph()
    assert len(imports) > 60
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_the_reader_of_imports_sees_what_runs() -> None:
    source = """
import torch
from typing import TYPE_CHECKING
from . import a, helper
from ..core.b import x
if TYPE_CHECKING:
    from ..core.c import y
else:
    from ..core.d import y
def f():
    from .e import z
    from memestimate import h
"""
    modules = {"ops.a", "core.b", "core.c", "core.d", "ops.e", "ops"}
    assert of(source, ["ops"], modules) == {"ops.a", "ops", "core.b", "core.d", "ops.e", "__init__"}

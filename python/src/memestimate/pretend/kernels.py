"""Which arguments a Triton kernel writes, by its source: what is known of the others stays known."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator
from typing import Any

_WRITES = ("store", "atomic_", "experimental_descriptor_store", "async_copy_local_to_global")


def written(kernel: Any) -> list[str]:
    """Names of the parameters that a kernel may write through, all of them where its source is not understood."""
    names: list[str] = list(kernel.arg_names)
    source = getattr(kernel, "src", None) or getattr(kernel, "_src", "")
    found = _written(source, tuple(names))
    return [name for name in names if name in found]


@functools.lru_cache(maxsize=4096)
def _written(source: str, names: tuple[str, ...]) -> frozenset[str]:
    try:
        function = ast.parse(textwrap.dedent(source)).body[0]
    except (SyntaxError, IndexError):
        return frozenset(names)
    points: dict[str, frozenset[str]] = {name: frozenset([name]) for name in names}
    found: set[str] = set()
    for _ in range(2):  # a loop's later lines may be read by its earlier ones
        for node in _in_order(function):
            if isinstance(node, ast.Call):
                found |= _call(node, points)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
                to = _sources(node.value, points)
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                        points[name] = points.get(name, frozenset()) | to
    return frozenset(found)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
        yield child


def _call(node: ast.Call, points: dict[str, frozenset[str]]) -> frozenset[str]:
    """The parameters that a call may write through."""
    name = _name(node.func)
    given = frozenset[str]().union(*(_sources(arg, points) for arg in _arguments(node)))
    if name.startswith(_WRITES) or "asm" in name:
        at = node.func.value if isinstance(node.func, ast.Attribute) else node.func  # descriptor.store(...)
        return given | _sources(at, points)
    own = isinstance(node.func, ast.Name) and node.func.id not in ("range", "min", "max", "tuple", "len", "print")
    return given if own else frozenset()  # another kernel's function: it may write anything that it is given


def _sources(node: ast.AST, points: dict[str, frozenset[str]]) -> frozenset[str]:
    """The parameters into whose memory an expression may point."""
    if isinstance(node, ast.Name):
        return points.get(node.id, frozenset())
    if isinstance(node, ast.Call) and _name(node.func) == "load":
        return frozenset()
    return frozenset[str]().union(*(_sources(child, points) for child in ast.iter_child_nodes(node)))


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def _name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))

"""What a program does with an answer that it asks a tensor for: read from the source of the line that asks.

A number that is printed decides nothing, and neither does a check whose other side only raises. A branch, the end of a
slice, the bound of a range do.
"""

from __future__ import annotations

import ast
import dis
import os
from collections.abc import Iterator
from enum import IntEnum
from types import CodeType, FrameType
from typing import NamedTuple

from ..core.source import tree


class Usage(IntEnum):
    """What becomes of an answer; the later ones weigh more."""

    SHOWN = 0  # printed, kept in a list, dropped
    CHECK = 1  # the other answer only raises
    ELSEWHERE = 2  # returned or kept in an object: what comes of it is not in this function
    LOOP = 3  # the condition of a `while`
    BRANCH = 4  # the condition of an `if`, or of an expression
    SIZE = 5  # the end of a slice, the bound of a range, the argument of a function that makes tensors


class Where(NamedTuple):
    """Where an answer is asked for: a line, and the columns where Python tells them (3.11), or -1."""

    line: int
    end_line: int
    column: int
    end_column: int


_HANDED_ON = {"int", "float", "bool", "round", "abs", "max", "min", "sum", "str", "ceil", "floor", "sqrt", "item"}
_SIZED = {
    *("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "zeros"),
    *("new_empty", "new_full", "new_ones", "new_zeros", "chunk", "expand", "narrow", "one_hot", "pad", "repeat"),
    *("repeat_interleave", "reshape", "resize_", "roll", "split", "split_with_sizes", "tile", "topk", "unflatten"),
    *("view", "range", "islice", "interpolate", "upsample"),
}
_Binding = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr
_SHOWS = {
    "BytesIO",
    "append",
    "debug",
    "format",
    "info",
    "item",
    "join",
    "log",
    "print",
    "save",
    "state_dict",
    "warn",
    "warning",
}
_EXITS = {"exit", "quit", "_exit", "abort"}
SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module  # in which names are followed
_PRINTS = f"{os.sep}torch{os.sep}_tensor_str.py"
_known: dict[tuple[CodeType, int], Usage] = {}


def of(frame: FrameType | None) -> Usage:
    """What the line that a frame is at does with what it asks for."""
    if frame is None:
        return Usage.ELSEWHERE
    if frame.f_code.co_filename.endswith(_PRINTS):
        return Usage.SHOWN
    key = frame.f_code, frame.f_lasti
    found = _known.get(key)
    if found is None:
        try:
            found = _read(frame)
        except RecursionError:
            found = Usage.ELSEWHERE
        _known[key] = found
    return found


def path(frame: FrameType) -> list[ast.AST] | None:
    """The nodes from the file to the one whose value the line asks for; None where Python does not tell which."""
    found, where = _place(frame)
    return None if where.column < 0 else found


def _read(frame: FrameType) -> Usage:
    found, _ = _place(frame)
    return Usage.ELSEWHERE if found is None else _climb(found, set())


def _place(frame: FrameType) -> tuple[list[ast.AST] | None, Where]:
    """The nodes from the file to the one that a frame is at, and where that is."""
    code, line, of = frame.f_code, frame.f_lineno, tree(frame)
    unknown = Where(line, line, -1, -1)
    if of is None:
        return None, unknown
    if not hasattr(code, "co_positions"):
        return _path(of, unknown), unknown
    places = list(code.co_positions())
    at = frame.f_lasti // 2
    where = _whole(places[at]) or unknown
    found = _path(of, where)
    name = dis.opname[code.co_code[frame.f_lasti]]
    if ("JUMP" in name or name == "TO_BOOL") and (found is None or not _is_tested(found[-1], where)):
        while at > 0 and places[at] == places[frame.f_lasti // 2]:  # what it tests is before it
            at -= 1
        where = _whole(places[at]) or unknown
        found = _path(of, where)
    return found, where


def _whole(place: tuple[int | None, int | None, int | None, int | None]) -> Where | None:
    first, last, column, end_column = place
    if first is None or last is None or column is None or end_column is None:
        return None
    return Where(first, last, column, end_column)


def _is_tested(node: ast.AST, where: Where) -> bool:
    """Whether a jump hangs on the whole of an expression: its place is then that, and not a statement or operands'."""
    if not isinstance(node, ast.expr) or isinstance(node, ast.BoolOp | ast.IfExp):
        return False
    return where == (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)


def _covers(node: ast.AST, where: Where) -> bool:
    line, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    if where.column < 0 or line == 0:
        return line == 0 or line <= where.line <= end
    first, last = (line, node.col_offset), (end, node.end_col_offset)  # type: ignore[attr-defined]
    return first <= (where.line, where.column) and (where.end_line, where.end_column) <= last


def _path(node: ast.AST, where: Where) -> list[ast.AST] | None:
    """The nodes from the root to the innermost one that covers a place; None if there is none."""
    for child in ast.iter_child_nodes(node):
        if _covers(child, where):
            below = _path(child, where)
            if below is not None:
                return [node, *below]
    return [node] if hasattr(node, "lineno") else None


def _climb(path: list[ast.AST], followed: set[str]) -> Usage:
    """What becomes of the value of the last node, seen from the inside to the outside."""
    for at in range(len(path) - 2, -1, -1):
        node, child = path[at], path[at + 1]
        if isinstance(node, ast.Assert | ast.Raise):
            return Usage.CHECK
        if isinstance(node, ast.While) and child is node.test:
            return Usage.LOOP
        if isinstance(node, ast.If) and child is node.test:
            if goes_on(node, path[at - 1]) is not None:
                return Usage.CHECK
            return Usage.SHOWN if all(map(_computes_nothing, node.body + node.orelse)) else Usage.BRANCH
        if isinstance(node, ast.IfExp) and child is node.test:
            return Usage.BRANCH
        if isinstance(node, ast.For | ast.comprehension) and child is node.iter:
            return Usage.SIZE
        if isinstance(node, ast.comprehension) and child in node.ifs:
            return Usage.BRANCH
        if isinstance(node, ast.Slice):
            return Usage.SIZE
        if isinstance(node, ast.JoinedStr | ast.Expr):
            return Usage.SHOWN
        if isinstance(node, ast.Call) and child is not node.func:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in _SIZED:
                return Usage.SIZE
            if name not in _HANDED_ON:
                return Usage.SHOWN if isinstance(path[at - 1], ast.Expr) else Usage.ELSEWHERE
        if isinstance(node, _Binding):
            return _followed(path[:at], node, followed)
        if isinstance(node, ast.stmt):
            break
    return Usage.ELSEWHERE


def _computes_nothing(statement: ast.stmt) -> bool:
    """Whether a statement only keeps, counts or shows what is there, as what follows `if loss < best:` does."""
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.value, ast.Constant)
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Pass):
        return False
    inner = [n for n in ast.walk(statement) if isinstance(n, ast.expr)]
    calls = [n.func for n in inner if isinstance(n, ast.Call)]
    if any(getattr(f, "attr", getattr(f, "id", "")) not in _SHOWS for f in calls):
        return False
    return not any(isinstance(n, ast.BinOp | ast.UnaryOp | ast.Compare | ast.IfExp) for n in inner)


def goes_on(node: ast.If, parent: ast.AST) -> bool | None:
    """What the condition of an `if` is where the program goes on and raises nothing; None where it goes on anyway."""
    if _ends_it(node.body):
        return False
    if _ends_it(node.orelse):
        return True
    if not node.orelse and isinstance(node.body[-1], ast.Return):
        blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
        below = next((b[b.index(node) + 1 :] for b in blocks if isinstance(b, list) and node in b), [])
        return True if below and _ends_it(below[:1]) else None
    return None


def _ends_it(body: list[ast.stmt]) -> bool:
    """Whether statements end the program: by an exception, or at once."""
    last = body[-1] if body else None
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        called = last.value.func
        return getattr(called, "attr", getattr(called, "id", "")) in _EXITS
    return isinstance(last, ast.Raise)


def _followed(path: list[ast.AST], node: _Binding, followed: set[str]) -> Usage:
    """What becomes of the names that a value is given, in the function that gives them."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = {t.id for t in targets if isinstance(t, ast.Name)}
    if len(names) < len(targets):
        return Usage.ELSEWHERE
    scopes = [n for n in path if isinstance(n, SCOPES)]
    new = names - followed
    followed |= names
    uses = (_climb(use, followed) for use in loads(scopes[-1], new, []))
    return max(uses, default=Usage.SHOWN)


def loads(node: ast.AST, names: set[str], above: list[ast.AST]) -> Iterator[list[ast.AST]]:
    """The paths to all places that read one of some names."""
    path = [*above, node]
    if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
        yield path
    for child in ast.iter_child_nodes(node):
        yield from loads(child, names, path)

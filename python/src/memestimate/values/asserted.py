"""What the program itself asserts of a value that it asks for: the answer that is taken is one with which it goes on.

`assert x.abs().max().item() < 1e-4` holds of every tensor that a sound program makes, and fails of most numbers that
could be taken. So the source is followed from the line that asks to what is asserted of it, or raised behind: through
names, arithmetic and the values of functions. Of some numbers the first is taken with which nothing is raised.
"""

from __future__ import annotations

import ast
import dis
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from . import usage
from .expressions import UNFIT, Open, Scope

Given = tuple[tuple[str, ast.expr], ...]  # names on the way, and what they are given
Way = tuple[list[ast.AST], Given, frozenset[str]]  # to a place that reads a value, and the names that were followed
_WAYS = 64  # on which a value is followed through names; there may be as many as 2 to the power of the names
_TRIES = 64  # of answers
_CALLERS = 8  # functions whose values are followed into the line that called them
_ASSERTS = {"_assert", "_check"}  # torch._assert, torch._check
_CONVERT = {
    "float",
    "int",
    "bool",
    "round",
    "isnan",
    "isinf",
    "isfinite",
    "sqrt",
    "log",
    "exp",
    "fabs",
    "ceil",
    "floor",
}
_CHOOSE = {"max", "min", "sorted"}  # which ask how two elements compare, and give one of them
_FAR = (1e-9, 1e9)  # smaller and larger than what is compared with, mostly


class Check(NamedTuple):
    """An expression that is true, or false, where the program goes on; None for one that it returns."""

    test: ast.expr
    passes: bool | None
    given: Given


class Asked(NamedTuple):
    """What becomes of the value of a line that asks for it, in its own function."""

    node: ast.expr
    negated: bool  # the value of the node is the opposite of the answer
    checks: tuple[Check, ...]
    returned: tuple[Check, ...]
    later: frozenset[str]  # names that are given something else below


_known: dict[tuple[CodeType, int], Asked | None] = {}


def going_on(
    frame: FrameType | None, answer: Any, taken: dict[ast.expr, Any], made: Callable[[Any], Any] = lambda value: value
) -> Any:
    """An answer with which what the program asserts of it holds: the given one, if it does.

    Parameters
    ----------
    frame
        The one that asks.
    answer
        What would be taken.
    taken
        What was taken before where something is asserted of it, by the node; this answer is added.
    made
        What the frame gets of an answer: itself, or a list or an array of it.
    """
    asked = None if frame is None else _asked(frame)
    if frame is None or asked is None or isinstance(answer, complex) or not _is_checked(frame):
        return answer
    found, numbers = answer, list[float]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about numbers that are only tried
        before = _held(frame, made(answer), taken, numbers)
        for other in itertools.islice(_others(answer, numbers), _TRIES) if any(before) else ():
            try:
                now = _held(frame, made(other), taken, [])
            except (RuntimeError, OverflowError):  # no number of the tensor's type
                continue
            if now < before:
                found, before = other, now
            if not any(now):
                break
    taken[asked.node] = made(found)
    return found


def _others(answer: Any, numbers: Sequence[float]) -> Iterator[Any]:
    """Answers to try, the likeliest first."""
    if isinstance(answer, bool):
        yield not answer
        return
    limits = sorted(set(numbers))
    between = [(a + b) / 2 for a, b in itertools.pairwise(limits)]
    above, below = [n + 1 for n in limits], [n - 1 for n in limits]
    for number in (0, *limits, *between, *above, *_FAR, *below, -1, *(-n for n in _FAR)):
        if isinstance(answer, float) or float(number).is_integer():
            yield type(answer)(number)


def _is_checked(frame: FrameType) -> bool:
    at: FrameType | None = frame
    for _ in range(_CALLERS):
        asked = None if at is None else _asked(at)
        if at is None or asked is None:
            return False
        if asked.checks:
            return True
        if not asked.returned:
            return False
        at = at.f_back
    return False


def _held(
    frame: FrameType, value: Any, taken: Mapping[ast.expr, Any], numbers: list[float], depth: int = 0
) -> tuple[int, int]:
    """How many assertions do not hold of a value, and of how many nobody knows."""
    asked = _asked(frame)
    if asked is None:
        return 0, 0
    failed = unknown = 0
    nodes = {**taken, asked.node: not value if asked.negated else value}
    for check in asked.checks + asked.returned:
        scope = Scope(frame, nodes, asked.later)
        returns = check.passes is None
        try:
            found = _computed(check, scope)
            failed += not returns and bool(found) is not check.passes
        except ArithmeticError:
            failed += 1
        except (Open, *UNFIT):
            unknown += 1
        else:
            if returns and frame.f_back is not None and depth < _CALLERS:
                more = _held(frame.f_back, found, taken, numbers, depth + 1)
                failed, unknown = failed + more[0], unknown + more[1]
        numbers += scope.numbers
    return failed, unknown


def _computed(check: Check, scope: Scope) -> Any:
    for name, expression in check.given:
        scope.give(name, expression)
    return scope.value(check.test)


def _asked(frame: FrameType) -> Asked | None:
    key = frame.f_code, frame.f_lasti
    if key not in _known:
        try:
            _known[key] = _read(frame)
        except RecursionError:  # expressions a thousand deep
            _known[key] = None
    return _known[key]


def _read(frame: FrameType) -> Asked | None:
    path = usage.path(frame)
    if path is None or not isinstance(path[-1], ast.expr):
        return None
    node: ast.expr = path[-1]
    negated = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
        path = [*path, node]
    elif isinstance(node, ast.Call) and dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL"):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in _CHOOSE:
            return None
        if name in _CONVERT and len(node.args) == 1:
            node = node.args[0]
            path = [*path, node]
    found: list[Check] = []
    returned: list[Check] = []
    ways: list[Way] = [(path, (), frozenset())]  # the shortest first
    for way in ways:
        for more in _climb(*way, found, returned):
            if len(ways) < _WAYS:
                ways.append(more)
    return Asked(node, negated, tuple(found), tuple(returned), _later(path, frame.f_lineno))


def _climb(
    path: list[ast.AST], given: Given, followed: frozenset[str], found: list[Check], returned: list[Check]
) -> Iterator[Way]:
    """Find what is asserted of the last node's value, or returned, from the inside out, and where it goes."""
    for at in range(len(path) - 2, -1, -1):
        node, child = path[at], path[at + 1]
        if isinstance(node, ast.Assert) and child is node.test:
            found.append(Check(node.test, True, given))
        elif isinstance(node, ast.If) and child is node.test:
            passes = usage.goes_on(node, path[at - 1])
            if passes is not None:
                found.append(Check(node.test, passes, given))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _ASSERTS and node.args[:1] == [child]:
            found.append(Check(node.args[0], True, given))
        elif isinstance(node, ast.Return) and node.value is not None:
            returned.append(Check(node.value, None, given))
        elif isinstance(node, ast.stmt | ast.NamedExpr):
            bound = tuple(_bound(node))
            scope = next(n for n in reversed(path[:at]) if isinstance(n, usage.SCOPES))
            for name, _ in bound:
                if name not in followed:
                    for use in usage.loads(scope, {name}, []):
                        yield use, given + bound, followed | {name}
        if isinstance(node, ast.stmt | ast.Lambda):
            return


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names to which a statement gives values, and which."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        before = ast.Name(node.target.id, ast.Load())
        yield node.target.id, ast.BinOp(before, node.op, node.value)
    elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
        yield node.target.id, ast.Subscript(node.iter, ast.Constant(0), ast.Load())
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from _paired(target, node.value)


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, of in zip(target.elts, value.elts, strict=True):
            yield from _paired(part, of)


def _later(path: list[ast.AST], line: int) -> frozenset[str]:
    """Names to which the function that asks gives something below the line."""
    scope = next((n for n in reversed(path) if isinstance(n, usage.SCOPES)), None)
    if scope is None:
        return frozenset()
    names = (n for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return frozenset(n.id for n in names if n.lineno > line)

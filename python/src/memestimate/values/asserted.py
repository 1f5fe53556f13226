"""What the program itself asserts of a value that it asks for: the answer that is taken is one with which it goes on.

`assert x.abs().max().item() < 1e-4` holds of every tensor that a sound program makes, and fails of 1, which is taken
for most values. So the source is read from the line that asks to what is asserted of it, or raised behind: a truth is
the one with which nothing is raised, and a number that is to be small is zero. What else is asserted is not followed.
"""

from __future__ import annotations

import ast
import itertools
from types import FrameType
from typing import Any

from . import usage

_BELOW = (ast.Lt, ast.LtE)
_ABOVE = (ast.Gt, ast.GtE)
_WAYS = 64  # on which a value is followed; there may be as many as 2 to the power of the names
_ASSERTS = {"_assert", "_check"}  # torch._assert, torch._check
_known: dict[tuple[Any, int], tuple[bool | None, bool]] = {}


def going_on(frame: FrameType | None, answer: Any) -> Any:
    """An answer with which what the program asserts of it holds: the given one, where nothing is known of that."""
    if frame is None or not isinstance(answer, bool | float):
        return answer
    key = frame.f_code, frame.f_lasti
    if key not in _known:
        try:
            _known[key] = _wanted(usage.path(frame) or [], frozenset(), [_WAYS])
        except RecursionError:  # expressions a thousand deep
            _known[key] = None, False
    truth, small = _known[key]
    if isinstance(answer, bool):
        return answer if truth is None else truth
    return 0.0 if small else answer


def _wanted(path: list[ast.AST], followed: frozenset[str], left: list[int]) -> tuple[bool | None, bool]:
    """Which truth lets the program go on, None where none is said; and whether a small number does.

    `left` is on how many ways the value may be followed through names.
    """
    left[0] -= 1
    # The line that asks for the truth of x in `y = not x` is that of `not x`.
    negated = bool(path) and isinstance(path[-1], ast.UnaryOp) and isinstance(path[-1].op, ast.Not)
    below: bool | None = None  # whether the test is that the value is below something
    plain = True  # nothing but `not` is between the value and the test
    for at in range(len(path) - 2, -1, -1):
        node, child = path[at], path[at + 1]
        passes: bool | None = None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            negated = not negated
        elif isinstance(node, ast.Compare):
            plain = False
            limit = node.comparators[0] if child is node.left else node.left
            holds = isinstance(limit, ast.Constant) and isinstance(limit.value, int | float) and limit.value > 1
            if len(node.ops) == 1 and isinstance(node.ops[0], _BELOW + _ABOVE) and not holds:
                below = isinstance(node.ops[0], _BELOW) is (child is node.left)
        elif isinstance(node, ast.Assert) and child is node.test:
            passes = True
        elif isinstance(node, ast.If) and child is node.test:
            passes = usage.goes_on(node, path[at - 1])
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _ASSERTS and node.args[:1] == [child]:
            passes = True
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            scope = next(n for n in reversed(path[:at]) if isinstance(n, usage.SCOPES))
            uses = usage.loads(scope, {name}, []) if name not in followed and left[0] > 0 else iter(())
            found = [_wanted(use, followed | {name}, left) for use in itertools.islice(uses, max(left[0], 0))]
            truth = next((t for t, _ in found if t is not None), None)
            return (truth if plain and truth is not None else None), any(small for _, small in found)
        elif not isinstance(node, ast.BoolOp):
            plain = False
        if passes is not None:
            passes = passes is not negated
            return (passes if plain else None), below is passes
        if isinstance(node, ast.stmt | ast.Lambda):
            break
    return None, False

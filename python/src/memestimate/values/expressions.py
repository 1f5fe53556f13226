"""What an expression of the program gives, where it is arithmetic with numbers that are known."""

from __future__ import annotations

import ast
import inspect
import math
import operator
import sys
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any

import torch

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
_BUILTIN = (abs, all, any, bool, float, int, len, max, min, round, sum)
_ARRAY = {
    "abs",
    "absolute",
    "all",
    "allclose",
    "any",
    "isclose",
    "isfinite",
    "isnan",
    "max",
    "mean",
    "min",
    "sqrt",
    "sum",
}
UNFIT = (TypeError, ValueError, LookupError, AttributeError)  # raised where a value is not what an expression needs
_REPEATED = (str, list, tuple)
_SHAPES = {"dim", "ndim", "numel", "shape", "size"}  # of a tensor
_METHODS = {"all", "any", "is_integer", "item", "max", "mean", "min", "sum", "tolist"}


class Open(Exception):
    """What an expression gives is not known."""


class Scope:
    """Where an expression is computed: in a frame, with what some of its nodes and names are taken to give.

    Attributes
    ----------
    numbers
        Those that were met, as the limits are to which a value is compared.
    """

    def __init__(self, frame: FrameType, nodes: Mapping[ast.expr, Any], later: frozenset[str]) -> None:
        self._frame = frame
        self._nodes = nodes
        self._later = later  # names that have other values when the expression is reached
        self.names: dict[str, Any] = {}
        self.numbers: list[float] = []

    def value(self, node: ast.expr) -> Any:
        """What an expression gives.

        Raises
        ------
        Open
            If that is not known without running the program.
        """
        if node in self._nodes:
            return self._nodes[node]
        rule = _RULES.get(type(node))
        if rule is None:
            raise Open
        return rule(self, node)

    def give(self, name: str, node: ast.expr) -> None:
        """Let a name stand for what an expression gives, known or not."""
        try:
            self.names[name] = self.value(node)
        except (Open, *UNFIT):
            self.names[name] = Open

    def _constant(self, node: ast.Constant) -> Any:
        return self._met(node.value)

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            if self.names[node.id] is Open:
                raise Open
            return self.names[node.id]
        found = self._found(node.id)
        if node.id in self._later or not _is_plain(found):
            raise Open
        return self._met(found)

    def _found(self, name: str) -> Any:
        for names in (self._frame.f_locals, self._frame.f_globals, self._frame.f_builtins):
            if name in names:
                return names[name]
        raise Open

    def _met(self, value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            self.numbers.append(float(value))
        return value

    def _attribute(self, node: ast.Attribute) -> Any:
        found = self._object(node)
        if node.attr in _SHAPES and isinstance(of := self._object(node.value), torch.Tensor):
            found = getattr(of, node.attr)
        elif not _is_plain(found):
            raise Open
        return self._met(found)

    def _object(self, node: ast.expr) -> Any:
        """What a name or an attribute is, without asking a property for it."""
        if isinstance(node, ast.Name) and node.id not in self._later and node.id not in self.names:
            return self._found(node.id)
        if isinstance(node, ast.Attribute):
            found = inspect.getattr_static(self._object(node.value), node.attr, Open)
            if found is not Open:
                return found
        raise Open

    def _maybe(self, node: ast.expr) -> Any:
        try:
            return self._object(node)
        except Open:
            return None

    def _sized(self, node: ast.expr) -> Any:
        """What has a length that asks for nothing."""
        found = self.names.get(node.id) if isinstance(node, ast.Name) else None
        found = self._object(node) if found is None else found
        if not isinstance(found, str | list | tuple | dict | set | torch.Tensor):
            raise Open
        return found

    def _binary(self, node: ast.BinOp) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Pow) and isinstance(a, int | float) and isinstance(b, int | float):
            return float(a) ** b
        if type(node.op) not in _BINARY:
            raise Open
        if isinstance(node.op, ast.Mult) and (isinstance(a, _REPEATED) or isinstance(b, _REPEATED)):
            raise Open  # as long as the number that is tried is large
        return _BINARY[type(node.op)](a, b)

    def _unary(self, node: ast.UnaryOp) -> Any:
        if type(node.op) not in _UNARY:
            raise Open
        return _UNARY[type(node.op)](self.value(node.operand))

    def _joined(self, node: ast.BoolOp) -> bool:
        """One operand that is false decides about `and`, one that is true about `or`, wherever it stands."""
        decides, is_open = isinstance(node.op, ast.Or), False
        for operand in node.values:
            try:
                if bool(self.value(operand)) is decides:
                    return decides
            except Open:
                is_open = True
        if is_open:
            raise Open
        return not decides

    def _compared(self, node: ast.Compare) -> Any:
        left, *others = [self.value(operand) for operand in (node.left, *node.comparators)]
        for op, right in zip(node.ops, others, strict=True):
            found = _COMPARED[type(op)](left, right)
            if len(node.ops) == 1 or not found:
                return found
            left = right
        return True

    def _either(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise Open
        function = self._function(node.func)
        if function is len and isinstance(node.args[0], ast.Name | ast.Attribute):
            return self._met(len(self._sized(node.args[0])))
        return self._met(function(*map(self.value, node.args)))

    def _function(self, node: ast.expr) -> Callable[..., Any]:
        """A function that only computes."""
        name, found = getattr(node, "attr", ""), self._maybe(node)
        if any(found is one for one in _BUILTIN):
            return found  # type: ignore[no-any-return]
        if isinstance(node, ast.Attribute):
            module = self._maybe(node.value)
            if isinstance(module, ModuleType) and callable(found):
                if module is math or (module is sys.modules.get("numpy") and name in _ARRAY):
                    return found  # type: ignore[no-any-return]
            elif name in _SHAPES:
                return self._attribute(node)  # type: ignore[no-any-return]
            elif name in _METHODS:
                method: Callable[..., Any] = getattr(self.value(node.value), name)
                return method
        elif isinstance(node, ast.Name):
            function: Callable[..., Any] | None = getattr(math, node.id, None)
            if function is not None and function is found:
                return function
        raise Open

    def _element(self, node: ast.Subscript) -> Any:
        return self.value(node.value)[self.value(node.slice)]

    def _sequence(self, node: ast.List | ast.Tuple) -> Any:
        return [self.value(item) for item in node.elts]


_RULES: dict[type[ast.expr], Callable[[Scope, Any], Any]] = {
    ast.Attribute: Scope._attribute,
    ast.BinOp: Scope._binary,
    ast.BoolOp: Scope._joined,
    ast.Call: Scope._call,
    ast.Compare: Scope._compared,
    ast.Constant: Scope._constant,
    ast.IfExp: Scope._either,
    ast.List: Scope._sequence,
    ast.Name: Scope._name,
    ast.Subscript: Scope._element,
    ast.Tuple: Scope._sequence,
    ast.UnaryOp: Scope._unary,
}


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text or nothing, which compute without side effects."""
    return value is None or type(value) in (bool, int, float, str)

"""Tables of what answers operators: a row each, beside the function that answers.

A handler of an operator gives its result, or NotImplemented where the call is none of its kind. Where two answer for
one operator, the row of the one that comes first names the other's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from torch._ops import OpOverload

if TYPE_CHECKING:
    from .session import Session

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]
Handler = Callable[["Session", OpOverload, Arguments, Keywords], Any]
Composite = Callable[..., Any]  # given the session, then the operator's own arguments
F = TypeVar("F", bound=Callable[..., Any])


class Row(NamedTuple, Generic[F]):
    """Who answers for an operator, and before which table's row."""

    op: OpOverload
    answers: F
    table: str
    before: str  # the name of another table, "" for none


class Table(Generic[F]):
    """The rows of a family of operators; called with operators, it is the decorator of what answers them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row[F]] = []

    def __call__(self, *ops: OpOverload, before: str = "") -> Callable[[F], F]:
        def add(answers: F) -> F:
            self.rows += [Row(op, answers, self.name, before) for op in ops]
            return answers

        return add


def merged(tables: Iterable[Table[Handler]]) -> dict[OpOverload, Handler]:
    """One handler an operator.

    Raises
    ------
    ValueError
        Two rows are of one operator, and neither says that it comes before the other.
    """
    rows: dict[OpOverload, list[Row[Handler]]] = {}
    for table in tables:
        for row in table.rows:
            rows.setdefault(row.op, []).append(row)
    return {op: _chain(op, found) for op, found in rows.items()}


def _chain(op: OpOverload, rows: list[Row[Handler]]) -> Handler:
    tables = {row.table for row in rows}
    found: Handler | None = None
    last = ""
    for _ in rows:
        following = [row for row in rows if (row.before if row.before in tables else "") == last]
        if len(following) != 1:
            raise ValueError(
                f"{op}: which of the tables {', '.join(row.table for row in rows)} comes first is not said"
            )
        last = following[0].table
        found = following[0].answers if found is None else _either(following[0].answers, found)
    assert found is not None
    return found


def _either(first: Handler, second: Handler) -> Handler:
    def handler(session: Session, func: OpOverload, args: Arguments, kwargs: Keywords) -> Any:
        out = first(session, func, args, kwargs)
        return second(session, func, args, kwargs) if out is NotImplemented else out

    return handler

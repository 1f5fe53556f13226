"""Replacing attributes of PyTorch for the time of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FunctionType
from typing import Any

_ABSENT = object()


class Patches:
    """What was replaced, and how to put it back; the last replaced is put back first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._set: list[tuple[Any, str, Any, Any]] = []  # owner, name, what was there, what is there now

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute and return the one before."""
        before = getattr(owner, name, None)
        own = vars(owner).get(name, _ABSENT) if hasattr(owner, "__dict__") else before

        if isinstance(value, FunctionType) and isinstance(before, FunctionType) and value is not before:
            vars(value).setdefault("__wrapped__", before)  # libraries look for parameters in inspect.signature
        setattr(owner, name, value)
        self._set.append((owner, name, own, value))
        self._undo.append(lambda: _put(owner, name, own))
        return before

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Have what was there before for a while: the attributes, not what else was done."""
        for owner, name, own, _ in reversed(self._set):
            _put(owner, name, own)
        try:
            yield
        finally:
            for owner, name, _, value in self._set:
                setattr(owner, name, value)

    def extend(self, items: list[Any], value: Any) -> None:
        """Add to a list that PyTorch keeps."""
        if value not in items:
            items.append(value)
            self._undo.append(lambda: items.remove(value) if value in items else None)

    def enter(self, context: AbstractContextManager[Any]) -> None:
        """Be within a context until the rest is put back."""
        stack = ExitStack()
        stack.enter_context(context)
        self._undo.append(stack.close)

    def later(self, undo: Callable[[], None]) -> None:
        """Call this when the rest is put back."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Put everything back, whatever a signal's handler raises in the middle of it, as that of a loader's does."""
        failed: BaseException | None = None
        while self._undo:
            for _ in range(2):
                try:
                    self._undo[-1]()
                    break
                except BaseException as error:
                    failed = failed or error
            self._undo.pop()
        self._set.clear()
        if failed is not None:
            raise failed


def _put(owner: Any, name: str, value: Any) -> None:
    if value is _ABSENT:
        delattr(owner, name)
    else:
        setattr(owner, name, value)

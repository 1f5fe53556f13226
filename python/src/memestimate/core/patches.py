"""Replacing attributes of PyTorch for the time of a recording."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

_ABSENT = object()


class Patches:
    """What was replaced, and how to put it back; the last replaced is put back first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace an attribute and return the one before."""
        before = getattr(owner, name, None)
        own = vars(owner).get(name, _ABSENT) if hasattr(owner, "__dict__") else before

        def back() -> None:
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

        setattr(owner, name, value)
        self._undo.append(back)
        return before

    def extend(self, items: list[Any], value: Any) -> None:
        """Add to a list that PyTorch keeps."""
        if value not in items:
            items.append(value)
            self._undo.append(lambda: items.remove(value))

    def enter(self, context: AbstractContextManager[Any]) -> None:
        """Be within a context until the rest is put back."""
        stack = ExitStack()
        stack.enter_context(context)
        self._undo.append(stack.close)

    def later(self, undo: Callable[[], None]) -> None:
        """Call this when the rest is put back."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Put everything back."""
        while self._undo:
            self._undo.pop()()

"""Whether a recording that was put together uses only storages that live."""

from __future__ import annotations

import re

__all__ = ["Unlike", "check"]


class Unlike(ValueError):
    """Recordings of few layers that do not tell what more layers add."""


_EVENT = re.compile(r'^\["(alloc|free|call)",(\d+)(.*)', re.MULTILINE)
_STORAGE = re.compile(r'"(\d+):')


def check(text: str) -> None:
    """Raise where a storage is used that does not live, or is numbered out of its turn."""
    living: set[int] = set()
    following: set[int] = set()
    born = 0
    for kind, number, rest in _EVENT.findall(text):
        if kind == "alloc":
            if int(number) != born:
                raise Unlike(f"storage {number} comes as number {born}")
            born += 1
            living.add(int(number))
            following.discard(int(number))
        elif kind == "free":
            if int(number) not in living:
                raise Unlike(f"storage {number} is freed and does not live")
            living.discard(int(number))
        else:
            if following:
                raise Unlike(f"storage {min(following)} is used and does not live")
            following = {int(s) for s in _STORAGE.findall(rest)} - living
    if following:
        raise Unlike(f"storage {min(following)} is used and does not live")

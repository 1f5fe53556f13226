"""Writing a recording: format ``memestimate-recording/1`` (docs/recording-format.md).

A recording is a gzip stream of lines. The first is a header object; the others are JSON
arrays whose first element says what they are: definitions of operators, tensor layouts,
frames and modules, and events in the order in which they happened.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

FORMAT = "memestimate-recording/1"
_FLUSH = 8192  # lines kept before they are compressed
_MARKED = 1 << 19  # lines kept so that they can be taken back
_TABLES = ("op", "meta", "frame", "module", "nccl", "communicator", "connect")
_DEFINITIONS = (*(f'["{table}"' for table in _TABLES), '["note"')  # which later lines take for known


class Writer:
    """One recording being written; nothing is at `path` until `close` has succeeded."""

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path = Path(path)
        place, part = tempfile.mkstemp(prefix=self.path.name + ".", suffix=".part", dir=self.path.parent)
        self._part = Path(part)
        self._raw = os.fdopen(place, "wb")
        self._process = os.getpid()
        _OPEN.add(self)
        self._file = self._member()
        self._lines: list[str] = [json.dumps({"format": FORMAT} | header)]
        self._tables: dict[str, dict[Hashable, int]] = {table: {} for table in _TABLES}
        self._lock = threading.RLock()  # a finalizer may write while a flush is under way
        self._written = 0
        self._freed: list[int] = []  # since the last other event
        self._marked: int | None = None  # how many of the lines cannot be taken back
        self.watch: Callable[[tuple[Any, ...]], None] = lambda event: None  # is told of each event

    def event(self, *items: Any) -> None:
        """Append one event."""
        self.order()
        self.watch(items)
        self._lines.append(_json(items))
        if len(self._lines) > _FLUSH:
            self._flush_early()

    def events(self, *events: tuple[Any, ...]) -> None:
        """Append several events between which nothing else may come."""
        self.order()
        for event in events:
            self.watch(event)
        self._lines.extend([_json(event) for event in events])

    def freed(self, storage: int) -> None:
        """
        Append that a storage is gone.

        What goes together, as autocast's cache does at its end, goes in the order of addresses. It is written in that
        of the storages' numbers, so that the same program makes the same bytes; to an allocator it is all one.
        """
        self._freed.append(storage)

    def order(self) -> None:
        """Write down what is gone."""
        freed, self._freed = self._freed, []
        for storage in sorted(freed):
            self.watch(("free", storage))
            self._lines.append(_json(("free", storage)))

    def mark(self) -> None:
        """Keep the lines that follow until the next mark, so that they can be taken back."""
        self.order()
        self._marked = len(self._lines)

    def take_back(self) -> bool:
        """Take back the lines since the mark, but for definitions and notes; False where they are written already."""
        self.order()
        if self._marked is None:
            return False
        self._lines[self._marked :] = [line for line in self._lines[self._marked :] if line.startswith(_DEFINITIONS)]
        return True

    def define(self, table: str, key: Hashable, *items: Any) -> int:
        """Return the id of `key` in a table, defining it as `items` at its first use."""
        ids = self._tables[table]
        known = ids.get(key)
        if known is None:
            line = _json((table, *items))  # first: the program may be as deep in calls as Python lets it
            known = ids[key] = len(ids)
            self._lines.append(line)
        return known

    def close(self) -> None:
        """Write the last line and put the file in its place.

        Raises
        ------
        OSError
            The file could not be written: what was at `path` is there as it was, and nothing beside it.
        """
        try:
            self.order()
            self._lines.append(_json(("end", self._written + len(self._lines) - 1)))  # without the header
            self._flush()
            self._file.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())  # before it has its name, or a crash may leave an empty file
            self._raw.close()
            os.chmod(self._part, 0o666 & ~_umask())  # as a file that is opened for writing
            os.replace(self._part, self.path)
            _OPEN.discard(self)
        except BaseException:
            self.discard()
            raise

    def copy(self, path: Path, *events: tuple[Any, ...]) -> None:
        """Write what there is so far to another file, complete and with more events, and go on with this one."""
        with self._lock:
            self.order()
            self._flush()
            self._file.close()  # gzip files may follow each other in one file
            self._raw.flush()
            self._file = self._member()
            shutil.copyfile(self._part, path)
            more = [*events, ("end", self._written + len(events) - 1)]
            with path.open("ab") as file:
                file.write(gzip.compress("".join(_json(event) + "\n" for event in more).encode(), mtime=0))

    def discard(self) -> None:
        """Give up: leave no file."""
        for file in (self._file, self._raw):
            with contextlib.suppress(OSError):  # a full disk refuses the rest once more
                file.close()
        _OPEN.discard(self)
        if self.is_own():
            self._part.unlink(missing_ok=True)

    def is_own(self) -> bool:
        """Whether this is the process that writes it, not one that was forked from it."""
        return os.getpid() == self._process

    def leave(self) -> None:
        """Write nothing more of what is another process' recording: this one was forked from it."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._raw.fileno())
        os.close(nowhere)

    def _member(self) -> gzip.GzipFile:
        return gzip.GzipFile(filename="", mode="wb", compresslevel=5, fileobj=self._raw, mtime=0)

    def _flush_early(self) -> None:
        if self._marked is None or len(self._lines) - self._marked > _MARKED:
            self._flush()
        elif self._marked > _FLUSH:
            self._flush(self._marked)

    def _flush(self, count: int | None = None) -> None:
        with self._lock:
            if not self._lines:
                return
            lines, self._lines = self._lines[:count], [] if count is None else self._lines[count:]
            self._marked = None if count is None else 0
            self._written += len(lines)
            self._file.write(("\n".join(lines) + "\n").encode())


_OPEN: weakref.WeakSet[Writer] = weakref.WeakSet()


def _forked() -> None:
    for writer in list(_OPEN):
        writer.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def _json(items: tuple[Any, ...]) -> str:
    return json.dumps(items, separators=(",", ":"))

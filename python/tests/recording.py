"""Reading a recording in tests: what the Go program reads, in a few lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Recording:
    """All lines of a recording, with the tables taken apart."""

    def __init__(self, path: Path) -> None:
        with gzip.open(path, "rt") as file:
            lines = [json.loads(line) for line in file]
        self.header: dict[str, Any] = lines[0]
        assert lines[-1] == ["end", len(lines) - 2], "the last line counts the others"
        self.tables: dict[str, list[list[Any]]] = {"op": [], "meta": [], "frame": [], "module": []}
        self.events: list[list[Any]] = []
        for word, *rest in lines[1:-1]:
            if word in self.tables:
                self.tables[word].append(rest)
            else:
                self.events.append([word, *rest])

    def of(self, word: str) -> Iterator[list[Any]]:
        return (event[1:] for event in self.events if event[0] == word)

    def calls(self, name: str = "") -> list[list[Any]]:
        """Calls as [operator, arguments, results, frame, module], of one operator or all."""
        ops = [op[0].removeprefix("aten::") for op in self.tables["op"]]
        return [[ops[op], *rest] for op, *rest in self.of("call") if name in ("", ops[op])]

    def phases(self) -> list[tuple[str, int, int]]:
        """Each phase with the live bytes at its end and its peak, storages rounded to 512."""
        sizes: dict[int, int] = {}
        live = peak = 0
        name = "other"
        found: list[tuple[str, int, int]] = []
        for word, *rest in self.events:
            if word == "alloc":
                sizes[rest[0]] = -(-rest[1] // 512) * 512
                live += sizes[rest[0]]
                peak = max(peak, live)
            elif word == "free":
                live -= sizes.pop(rest[0])
            elif word == "phase":
                found.append((name, live, peak))
                name, peak = rest[0], live
        return [*found, (name, live, peak)]

    def peak(self) -> int:
        return max(peak for _, _, peak in self.phases())

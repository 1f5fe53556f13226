"""The README as an index of packages shows it, where a link cannot lead to another file of the repository."""

from __future__ import annotations

import re
from pathlib import Path

_BLOB = "https://github.com/memestimate/memestimate/blob/main/"


def description(folder: Path) -> str:
    """Return the README of a folder, with links that lead to the repository."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?:|#|mailto:)([^)\s]+)\)", rf"]({_BLOB}\1)", text)

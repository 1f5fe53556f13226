"""Write docs/python.md, the page of the Python API, from the package's docstrings.

usage: python_docs.py [--check]

With --check nothing is written, and the exit status says whether the page is current.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "python.md"
sys.path.insert(0, str(ROOT / "python" / "src"))
import memestimate

_HEAD = """# The Python API

`pip install memestimate[torch]`, then `import memestimate`. PyTorch is imported with the first name that needs it. This
page is made from the docstrings: `python scripts/python_docs.py` writes it. Sizes are bytes.

"""
_FIRST = ("estimate", "fit", "from_config", "record")


def sections(doc: str) -> dict[str, str]:
    """The sections of a docstring as numpydoc has them, what comes before the first under the name ""."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", doc, flags=re.MULTILINE)
    return {"": parts[0].strip()} | {
        name: text.strip("\n") for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def fields(text: str) -> list[tuple[str, str, str]]:
    """Name, type and description of each field of a section; several names may share one."""
    found = []
    for block in re.split(r"\n(?=\S)", text):
        head, _, rest = block.partition("\n")
        name, _, kind = head.partition(" : ")
        found.append((name, kind, inspect.cleandoc(rest)))
    return found


def names(text: str) -> set[str]:
    """The names that a section describes."""
    return {name.strip(" *") for head, _, _ in fields(text) for name in head.split(",")}


def public() -> list[str]:
    """The names that the page describes, in its order."""
    rest = sorted(name for name in dir(memestimate) if name not in _FIRST and name != "__version__")
    return [*_FIRST, *rest]


def page() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_entry(name, getattr(memestimate, name)) for name in public())


def methods(kind: type) -> dict[str, Any]:
    """The public methods and properties of a class that have a docstring of their own."""
    found = {}
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        own = (value.fget if isinstance(value, property) else value) if not name.startswith("_") else None
        if inspect.isfunction(own) and own.__module__.startswith("memestimate") and own.__doc__:
            found[name] = value
    return found


def _entry(name: str, value: Any) -> str:
    lines = [f"## {name}", "", f"```python\n{_call(name, value)}\n```", "", *_body(value)]
    if isinstance(value, type) and not issubclass(value, BaseException):
        for method, own in methods(value).items():
            function = own.fget if isinstance(own, property) else own
            title = (
                method
                if isinstance(own, property)
                else _call(method, function).replace("(self, ", "(").replace("(self)", "()")
            )
            summary = sections(inspect.getdoc(function) or "")[""].partition("\n\n")[0]
            lines += [f"- `{' '.join(title.split())}`: {_plain(summary)}"]
        lines.append("")
    return "\n".join(lines)


def _call(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return name
    bare = signature.replace(
        parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
        return_annotation=signature.empty,
    )
    text = re.sub(r"<class '([\w.]+)'>", lambda m: m[1].replace("torch.optim.adamw", "torch.optim"), f"{name}{bare}")
    return text if len(text) < 100 else text.replace("(", "(\n    ", 1).replace(", ", ",\n    ")[:-1] + ",\n)"


def _body(value: Any) -> list[str]:
    found = sections(inspect.getdoc(value) or "")
    lines = [_plain(paragraph) + "\n" for paragraph in found.pop("").split("\n\n")]
    for section, text in found.items():
        lines += [f"**{section}**", ""]
        if section == "Examples":
            lines += [f"```python\n{text}\n```", ""]
            continue
        for name, kind, description in fields(text):
            of = f" ({_plain(kind)})" if kind else ""
            lines.append(f"- `{name}`{of}" + (f": {_plain(description)}" if description else ""))
        lines.append("")
    return lines


def _plain(text: str) -> str:
    """A paragraph of a docstring as one of Markdown."""
    return " ".join(re.sub(r"``(.+?)``", r"`\1`", text, flags=re.DOTALL).split())


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")

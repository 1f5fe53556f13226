"""Record the programs of python/tests/programs at the batches that were measured, without a GPU.

usage: record_programs.py estimate/testdata/programs68/steps.json.gz OUT

What is in OUT already is not recorded again.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_PYTHON = Path(__file__).parents[2] / "python"
sys.path[:0] = [str(_PYTHON / "src"), str(_PYTHON / "tests")]
import memestimate

Program = Callable[..., Iterator[None]]


def programs() -> dict[str, Program]:
    """Every program by name."""
    found: dict[str, Program] = {}
    for file in sorted((_PYTHON / "tests" / "programs").glob("[a-z]*.py")):
        module = importlib.import_module(f"programs.{file.stem}")
        found |= {k: v for k, v in vars(module).items() if inspect.isgeneratorfunction(v)}
    return found


def main() -> None:
    cases = json.loads(gzip.decompress(Path(sys.argv[1]).read_bytes()))["cases"]
    out, known = Path(sys.argv[2]), programs()
    out.mkdir(parents=True, exist_ok=True)
    for case in cases:
        path = out / f"{case['model']}.mrec"
        if path.exists():
            continue
        with memestimate.record(path):
            steps = known[case["model"]](case["batch"])
            next(steps)
            for _ in case["after"]:
                next(steps)
            steps.close()


if __name__ == "__main__":
    main()

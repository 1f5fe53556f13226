"""``python -m memestimate config``: what the program asks of a configuration, as JSON.

The question is one object on standard input::

    {"model": "org/name", "gpu": "h200", "steps": 2, "runs": [{"file": "a.mrec", "qlora": "16", "seq": 2048, ...}, ...]}

Its runs are recorded one after the other. A line on standard output tells each that is done, or why it is not:
``{"run": 0}``, ``{"run": 1, "error": "..."}``. The first line has the folders that Python's packages are in: answers
hold as long as nothing is installed there.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from ..core.recording import Enough
from . import hub, spelling, tuning
from .tuned import Recordings

_TRUE = ("true", "yes", "1")


def answer(question: Mapping[str, Any]) -> int:
    """Record what is asked; 3 where the first run cannot be recorded, which is said on standard error."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of what it misses on some processors
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    folders = sorted({os.path.abspath(f) for f in sys.path if f and os.path.isdir(f)} - {os.getcwd()})
    _tell(lines, {"folders": folders})
    recordings: Recordings | None = None
    for i, run in enumerate(question["runs"]):
        try:
            if recordings is None:
                recordings = Recordings(hub.read(question["model"]), question.get("gpu") or "h200", question["steps"])
            recordings.make(_way(run), Path(run["file"]))
            _tell(lines, {"run": i})
        except (Exception, Enough) as error:  # of any kind: what a configuration makes of a model is its own
            said = hub.line(error)
            if not isinstance(error, (ValueError, ImportError, OSError, Enough)):  # in PyTorch's words
                said = f"{question['model']}: the model of this configuration does not run: {said}"
            if i == 0:
                print(f"memestimate: {said}", file=sys.stderr)
                return 3
            _tell(lines, {"run": i, "error": said})
    return 0


def _way(run: Mapping[str, Any]) -> tuning.Way:
    return tuning.Way(
        batch=run.get("batch") or 1,
        seq=run.get("seq") or None,
        precision=spelling.precision(run.get("precision") or "bf16"),
        mode=spelling.mode(run.get("mode") or "train"),
        optimizer=run.get("optimizer") or "adamw",
        lora=_adapters(run.get("lora") or ""),
        qlora=_adapters(run.get("qlora") or ""),
        checkpoint=bool(run.get("checkpoint")),
        compile=bool(run.get("compile")),
        attention=run.get("attention") or None,
        gpus=run.get("gpus") or 1,
        parallel=run.get("parallel") or "",
    )


def _adapters(words: str) -> int | dict[str, Any] | None:
    """Read ``16`` or ``r=16,targets=all-linear``, whose targets are the ends of modules' names, joined by ``|``."""
    if not words:
        return None
    if words.isdigit():
        return int(words)
    settings: dict[str, Any] = {}
    for part in words.split(","):
        name, _, value = part.partition("=")
        if name.isdigit() and not value:
            name, value = "r", name
        if name == "targets":
            settings["target_modules"] = value if value == "all-linear" else value.split("|")
        elif name == "r" and value.isdigit():
            settings["r"] = int(value)
        elif name == "alpha" and value.isdigit():
            settings["lora_alpha"] = int(value)
        elif name == "dropout":
            settings["lora_dropout"] = float(value)
        elif name in ("dora", "rslora"):
            settings[f"use_{name}"] = value.lower() in _TRUE
        else:
            raise ValueError(f"adapters {words!r}: want a rank, as in 16 or r=16,targets=all-linear")
    return settings


def _tell(lines: TextIO, what: Mapping[str, Any]) -> None:
    lines.write(json.dumps(what) + "\n")
    lines.flush()

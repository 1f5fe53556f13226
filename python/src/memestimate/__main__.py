"""``python -m memestimate record [flags] train.py ...``: record an unchanged script.

``python -m memestimate config`` is for the program, see api/configured.py. Everything else is handed to the program
that comes with this package.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_SAID = 120  # the exit status that tells the program, which started this, that its user was told what is wrong
_OLDEST = (3, 10)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, 2 for wrong usage, 3 where PyTorch is missing."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["config"]:
        return _SAID if _configured() else 0
    if words[:1] != ["record"]:
        from .api.program import find

        return subprocess.call([find(), *words])
    asked = _parser().parse_args(words[1:])
    status = _missing("torch")
    if status == 0:
        from .api.script import record  # with PyTorch, which the program does without

        status = record(asked)
    return _SAID if status and asked.quiet else status


def _configured() -> int:
    """Answer a question of the program about a configuration."""
    question = json.load(sys.stdin)
    needed = ["torch", "transformers"]
    if any(run.get("lora") or run.get("qlora") for run in question["runs"][:1]):
        needed.append("peft")
    if any(run.get("qlora") for run in question["runs"][:1]):
        needed.append("bitsandbytes")
    status = _missing(*needed)
    if status == 0:
        from .api.configured import answer

        status = answer(question)
    return status


def _missing(*modules: str) -> int:
    """Say in one line what must be installed before anything can be recorded; 3 where something must."""
    if sys.version_info < _OLDEST:
        print(
            f"memestimate: {sys.executable} is Python {sys.version.split()[0]}, wanted 3.10 or newer", file=sys.stderr
        )
        return 3
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = " ".join(missing)
        what = "PyTorch" if "torch" in missing else " and ".join(missing)
        print(f"memestimate: {sys.executable} has no {what}", file=sys.stderr)
        print(f"memestimate: hint: {sys.executable} -m pip install {names}", file=sys.stderr)
        return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m memestimate record", description="Record a training script.")
    parser.add_argument("--gpu", default="h200", help="the GPU to pretend (memestimate gpus lists them; default h200)")
    parser.add_argument(
        "--steps",
        type=int,
        help="end after so many training steps, and record each; 0: never (by default until the script ends, without "
        "steps that are like others)",
    )
    parser.add_argument(
        "--seconds", type=float, default=120, help="end after so long, where no --steps are given; 0: never"
    )
    parser.add_argument("--world-size", type=int, default=1, help="processes of the job (default 1)")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that the one process sees and may use (default 1)")
    parser.add_argument("--rank", type=int, default=0, help="which of them is recorded (default 0)")
    parser.add_argument(
        "--real", action="store_true", help="compute on the CPU, too, for steps that depend on values; takes its time"
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="do not run the script again to see what the answers to its questions decide",
    )
    parser.add_argument("--no-compile", action="store_true", help="run eagerly what the script compiles")
    parser.add_argument("--quiet", action="store_true", help=argparse.SUPPRESS)  # the program that asks tells the notes
    parser.add_argument("--change", help=argparse.SUPPRESS)  # see script.py
    parser.add_argument("--sends", help=argparse.SUPPRESS)  # see others.py
    parser.add_argument("--messages", help=argparse.SUPPRESS)
    parser.add_argument("--looked", type=int, default=0, help=argparse.SUPPRESS)  # see batches.py
    parser.add_argument("-o", "--output", type=Path, help="the file to write (default: the script's name, .mrec)")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is a module, as with python -m")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""``python -m memestimate record [flags] train.py ...``: record an unchanged script.

Everything else is handed to the program that comes with this package.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .program import find


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, 2 for wrong usage, 3 where the script fails."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] != ["record"]:
        return subprocess.call([find(), *words])
    return _record(_parser().parse_args(words[1:]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m memestimate record", description="Record a training script.")
    parser.add_argument("--gpu", default="h200", help="the GPU to pretend (memestimate gpus lists them; default h200)")
    parser.add_argument("--steps", type=int, default=3, help="end after so many training steps; 0: never (default 3)")
    parser.add_argument(
        "--world-size", type=int, default=1, help="processes of the job; this one is rank 0 (default 1)"
    )
    parser.add_argument(
        "--real", action="store_true", help="compute on the CPU, too, for steps that depend on values; takes its time"
    )
    parser.add_argument("-o", "--output", type=Path, help="the file to write (default: the script's name, .mrec)")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is a module, as with python -m")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def _record(asked: argparse.Namespace) -> int:
    from .recorder import Enough, Recorder, Way

    output = asked.output or Path(Path(asked.script).stem + ".mrec")
    way: Way | None = "real-cpu" if asked.real else None
    try:
        recorder = Recorder(output, gpu=asked.gpu, world_size=asked.world_size, steps=asked.steps, way=way)
    except (ValueError, OSError) as error:
        print(f"memestimate: {error}", file=sys.stderr)
        return 2
    if asked.world_size > 1:
        os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(asked.world_size)}
        os.environ |= {"LOCAL_WORLD_SIZE": str(asked.world_size), "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    sys.argv = [asked.script, *asked.arguments]
    sys.path.insert(0, "" if asked.module else str(Path(asked.script).resolve().parent))
    recorder.start()
    keep = False
    try:
        if asked.module:
            runpy.run_module(asked.script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(asked.script, run_name="__main__")
        keep = True
    except Enough:
        keep = True
    except SystemExit as error:
        keep = error.code in (None, 0)
        if not keep:
            raise
    finally:
        recorder.stop(keep=keep)
    print(f"memestimate: {recorder.steps} steps recorded in {output}", file=sys.stderr)
    for code, text in recorder.notes:
        print(f"memestimate: note: {code}: {text}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Recording a script as it is: ``python -m memestimate record``."""

from __future__ import annotations

import argparse
import atexit
import functools
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from ..core.recorder import FEW
from ..core.recording import Enough
from ..core.session import Way
from ..pretend.messages import Message, Messages
from ..values.decisions import Change, Outcome
from . import ends, launchers
from .others import Others
from .recorder import Recorder


def record(asked: argparse.Namespace) -> int:
    """Run a script and record it; returns the exit status.

    With ``asked.change`` its answers are changed, and instead of a recording the `Outcome` is written, as JSON.
    """
    try:
        if not asked.module:
            _start_as(launchers.read([asked.script, *asked.arguments]), asked)
    except ValueError as error:
        print(f"memestimate: {error}", file=sys.stderr)
        return 2
    output = asked.output or Path(Path(asked.script).stem + ".mrec")
    way: Way | None = "real-cpu" if asked.real else None
    change = Change.from_json(asked.change) if asked.change else None
    try:
        recorder = Recorder(
            output,
            gpu=asked.gpu,
            world_size=asked.world_size,
            rank=asked.rank,
            gpus=asked.gpus,
            steps=asked.steps,
            seconds=asked.seconds if asked.steps is None else 0,
            way=way,
            change=change,
            looked=asked.looked,
            compile=not asked.no_compile,
        )
    except (ValueError, OSError) as error:
        print(f"memestimate: {error}", file=sys.stderr)
        return 2
    if asked.world_size > 1 or getattr(asked, "grouped", False):
        local = getattr(asked, "local_world_size", asked.world_size)
        os.environ |= launchers.ranked(asked.rank, asked.world_size, local)
    if not asked.once:
        recorder.decisions.again = functools.partial(_again, asked, os.getcwd(), recorder)
    others = Others(asked)

    def find(message: Message) -> Any:
        began = time.monotonic()
        found = others.find(message)
        recorder.end += time.monotonic() - began  # which this script had no part in
        return found

    recorder.keep(Messages(recorder, find, others.wanted, others.folder if others.wanted else None))
    sys.argv = [asked.script, *asked.arguments]
    sys.path.insert(0, "" if asked.module else str(Path(asked.script).resolve().parent))
    if change is None and others.wanted is None:
        recorder.tell = _say
    recorder.start()
    if change is not None:
        _changed(recorder, asked, output)
    if others.wanted is not None:
        _sending(recorder, asked)
    own = os.getpid()

    def finish(status: int) -> None:
        recorder.stop(keep=status == 0)
        if status == 0 and not asked.quiet:
            _tell(recorder, output)

    ends.install(recorder.patches, finish)
    status = 1
    try:
        status = _run(asked)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if os.getpid() != own:  # it was forked from the recorded one
            raise
        recorder.explain(error)
        if not recorder.goes_on or recorder.steps < FEW:
            raise
        _behind(recorder, error)
        status = 0
    except ends.Terminated:
        print("memestimate: terminated before the script had ended; nothing was written", file=sys.stderr)
        status = _TERMINATED
    finally:
        if os.getpid() == own:
            finish(status)
        else:
            recorder.stop(keep=False)
    return status


_TERMINATED = 143  # as shells have it of SIGTERM


def _say(text: str) -> None:
    print(f"memestimate: {text}", file=sys.stderr, flush=True)


def _behind(recorder: Recorder, error: BaseException) -> None:
    """Keep what was recorded before the script failed, and say that it did."""
    traceback.print_exception(error)
    told = str(error).partition("\n")[0]
    why = f"{type(error).__name__}: {told}" if told else type(error).__name__
    recorder.note(
        "ended", f"the script failed ({why}), after {recorder.reached()}: what comes behind is not in these figures"
    )


def _tell(recorder: Recorder, output: Path) -> None:
    """Say what was recorded."""
    steps = "1 step" if recorder.steps == 1 else f"{recorder.steps} steps"
    left = recorder.alike.left_out
    some = f", of which {left} were like others and are left out" if left else ""
    print(f"memestimate: {steps} recorded in {output}{some}", file=sys.stderr)
    for code, text in recorder.notes:
        print(f"memestimate: note: {code}: {text}", file=sys.stderr)


def _start_as(launch: launchers.Launch, asked: argparse.Namespace) -> None:
    """Take what a launcher says for what was asked; a flag of this command comes before it."""
    asked.script, asked.arguments, asked.module = launch.script, launch.arguments, launch.module
    if asked.world_size == 1 and launch.world_size:
        asked.world_size = launch.world_size
    os.environ.update(launch.environment)
    asked.grouped = "RANK" in launch.environment  # libraries make a group of one process too where a launcher says so
    asked.local_world_size = int(launch.environment.get("LOCAL_WORLD_SIZE", asked.world_size))


def _run(asked: argparse.Namespace) -> int:
    """Run the script until it ends or enough is recorded; returns 0."""
    try:
        if asked.module:
            runpy.run_module(asked.script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(asked.script, run_name="__main__")
    except Enough:
        pass
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    return 0


def _changed(recorder: Recorder, asked: argparse.Namespace, output: Path) -> NoReturn:
    """Run the script with other answers, and write what came of it."""
    outcome = None
    try:
        _run(asked)
    except (Exception, SystemExit):
        outcome = recorder.decisions.failed(recorder.storages.highest)
    finally:
        recorder.stop(keep=False)
    output.write_text(json.dumps(asdict(outcome or Outcome(recorder.storages.highest))))
    _leave()


def _sending(recorder: Recorder, asked: argparse.Namespace) -> NoReturn:
    """Run the script until it has sent what another process of the job waits for."""
    try:
        _run(asked)
    finally:
        recorder.stop(keep=False)
    _leave()


def _leave() -> NoReturn:
    # Not by the interpreter's own end, in which one such run in ten is aborted ("terminate called without an active
    # exception"), as happens where a thread of C++ asks for an interpreter that is gone.
    atexit._run_exitfuncs()
    os._exit(0)


def _again(asked: argparse.Namespace, folder: str, recorder: Recorder, change: Change, seconds: float) -> Outcome:
    """Run the script once more, in a process of its own that says nothing."""
    with tempfile.TemporaryDirectory(prefix="memestimate-") as own:
        output = Path(own) / "outcome.json"
        words = ["--gpu", asked.gpu, "--steps", str(FEW if asked.steps is None else asked.steps), "--once"]
        words += ["--world-size", str(asked.world_size), "--rank", str(asked.rank), "--gpus", str(asked.gpus)]
        words += ["--change", change.to_json(), "--output", str(output), *(["-m"] if asked.module else [])]
        words += ["--looked", str(recorder.batches.looked)]
        words += ["--no-compile"] if asked.no_compile else []
        command = [sys.executable, "-m", "memestimate", "record", *words, asked.script, *asked.arguments]
        quiet = subprocess.DEVNULL
        try:
            subprocess.run(
                command, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, timeout=seconds + _START, check=True
            )
            return Outcome(**json.loads(output.read_text()))
        except (OSError, subprocess.SubprocessError, ValueError):
            return Outcome(0, failed=True)


_START = 10  # seconds that Python and PyTorch may need beside the script

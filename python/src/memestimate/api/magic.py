"""``%%memestimate`` in notebooks: what the cell below it would take on a GPU.

``%load_ext memestimate`` defines it. The cell runs as it is, on the pretended GPU, with all that the notebook has; the
names that it gives to things are its own, so that nothing pretended stays in the notebook.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import shlex
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ..core.recording import Enough, TooLong
from ..values.decisions import Change, Outcome
from .answer import Estimate
from .recorder import Recorder


def load_ipython_extension(shell: Any) -> None:
    """Define the magic; IPython calls this."""
    shell.register_magic_function(functools.partial(_memestimate, shell), magic_kind="cell", magic_name="memestimate")


def _memestimate(shell: Any, line: str, cell: str) -> Estimate:
    """Record a cell and return what it takes, which the notebook shows."""
    asked = _parser().parse_args(shlex.split(line))
    folder = tempfile.TemporaryDirectory(prefix="memestimate-")
    path = asked.output or Path(folder.name) / "cell.mrec"
    source = shell.transform_cell(cell)
    code = compile(source, shell.compile.cache(source), "exec")  # under a name that source lines are found by

    def run() -> None:
        with contextlib.suppress(Enough):
            exec(code, dict(shell.user_ns))

    make = functools.partial(Recorder, gpu=asked.gpu, gpus=asked.gpus, steps=asked.steps)
    try:
        recorder = make(path, way="real-cpu" if asked.real else None)
    except (ValueError, OSError) as error:
        _refuse(str(error))
    recorder.decisions.again = functools.partial(_again, run, make)
    with recorder:
        run()
    answer = Estimate(path, flags=("--gpu", asked.gpu))
    answer._folder = folder
    return answer


def _again(run: Callable[[], None], make: Callable[..., Recorder], change: Change, seconds: float) -> Outcome:
    """Run a cell once more with other answers, and keep nothing but its peak; what it prints was seen."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="memestimate-"))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        recorder = make(Path(folder) / "again.mrec", change=change, seconds=seconds)
        recorder.start()
        try:
            run()
        except (Exception, TooLong):
            return recorder.decisions.failed(recorder.storages.highest)
        finally:
            recorder.stop(keep=False)
        return Outcome(recorder.storages.highest)


class _Parser(argparse.ArgumentParser):
    """Raises what IPython shows in one line."""

    def error(self, message: str) -> NoReturn:
        _refuse(message)


def _refuse(message: str) -> NoReturn:
    from IPython.core.error import UsageError

    raise UsageError(f"%%memestimate: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%memestimate", add_help=False, description="Record the cell without a GPU.")
    parser.add_argument("--gpu", default="h200", help="a name that memestimate gpus lists, or a size")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that the notebook's process sees")
    parser.add_argument("--steps", type=int, help="end after so many training steps")
    parser.add_argument("--real", action="store_true", help="compute on the CPU, too")
    parser.add_argument("-o", "--output", type=Path, help="keep the recording there")
    return parser

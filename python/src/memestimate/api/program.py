"""Finding and calling the ``memestimate`` program, which the wheels ship beside this package."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["ProgramError", "ask", "find", "run"]

_VARIABLE = "MEMESTIMATE"
_BAD_ANSWER = (0, 1)  # yes and no: every other exit code is an error


class ProgramError(RuntimeError):
    """The program could not answer.

    Attributes
    ----------
    returncode : int
        Its exit code: 2 usage, 3 bad or unsupported input, 4 device, 5 output, 70 a bug of memestimate.
    """

    def __init__(self, message: str, returncode: int) -> None:
        super().__init__(message)
        self.returncode = returncode


def find() -> Path:
    """Find the program.

    Returns
    -------
    Path
        What the environment variable ``MEMESTIMATE`` names, else the program that was installed with this
        package, else the first ``memestimate`` on the path that is no Python script.

    Raises
    ------
    FileNotFoundError
        There is none: this package was installed without it.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        path = Path(named)
        if not path.is_file():
            raise FileNotFoundError(f"{_VARIABLE}={named}: no such file")
        return path
    name = "memestimate" + (sysconfig.get_config_var("EXE") or "")
    places = [sysconfig.get_path("scripts")]
    if hasattr(sysconfig, "get_preferred_scheme"):
        places.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    places.append(str(Path(__file__).parents[2] / "bin"))  # pip install --target
    for place in places:
        path = Path(place) / name
        if path.is_file():
            return path
    found = shutil.which("memestimate")
    if found is None:
        raise FileNotFoundError(
            "the memestimate program is not installed: pip install memestimate for a wheel that has it,"
            f" or set {_VARIABLE} to its path"
        )
    return Path(found)


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the program and keep what it prints.

    Raises
    ------
    ProgramError
        It exited with neither 0 (yes) nor 1 (no); the message is its own.
    """
    done = subprocess.run(
        [str(find()), *arguments], capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode not in _BAD_ANSWER:
        message = done.stderr.strip() or f"memestimate exited with {done.returncode}"
        raise ProgramError(message, done.returncode)
    return done


def ask(arguments: Sequence[str]) -> dict[str, Any]:
    """Run the program with ``--format json`` and return what it answers, sizes in bytes.

    Raises
    ------
    ProgramError
        It has no answer, or none that can be read; the message is its own, one line.
    """
    try:
        done = run([*arguments, "--format", "json"])
    except ProgramError as error:
        raise ProgramError(_sentence(str(error)), error.returncode) from None
    try:
        answer = json.loads(done.stdout)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ProgramError(_sentence(done.stderr) or "memestimate gave no answer", done.returncode)
    return answer


def _sentence(text: str) -> str:
    """What an error says: with ``--format json`` it is the field of an object."""
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("error"), str):
            text = found["error"]
    return " ".join(text.split())

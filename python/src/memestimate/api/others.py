"""Other processes of the job that is recorded: the script run once more as one of them, as far as it is asked for."""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..pretend.messages import Message

_SECONDS = 600.0  # that a process may take until it has sent something


class Others:
    """What other processes send this one; each message is asked for once, by whichever process needs it."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked, self._cwd = asked, os.getcwd()
        self._own: tempfile.TemporaryDirectory[str] | None = None

    @property
    def wanted(self) -> Message | None:
        """The message for which this process runs."""
        if self._asked.sends is None:
            return None
        target, number = self._asked.sends.split(":")
        return Message(self._asked.rank, int(target), int(number))

    @property
    def folder(self) -> Path:
        """Where messages are kept, for all processes that run for one recording."""
        if self._asked.messages is not None:
            return Path(self._asked.messages)
        if self._own is None:
            self._own = tempfile.TemporaryDirectory(prefix="memestimate-")
        return Path(self._own.name)

    def find(self, message: Message) -> Any:
        """What a message is; None where the script as the other process does not come so far."""
        path = message.path(self.folder)
        if not path.exists():
            asked = self._asked
            words = ["--gpu", asked.gpu, "--world-size", str(asked.world_size), "--rank", str(message.source)]
            words += ["--once", "--no-compile", "--steps", "0", "--sends", f"{message.target}:{message.number}"]
            words += ["--messages", str(self.folder), "--output", str(path.with_suffix(".mrec"))]
            words += ["-m"] if asked.module else []
            command = [sys.executable, "-m", "memestimate", "record", *words, asked.script, *asked.arguments]
            quiet = subprocess.DEVNULL
            try:
                subprocess.run(command, cwd=self._cwd, stdin=quiet, stdout=quiet, stderr=quiet, timeout=_SECONDS)
            except (OSError, subprocess.SubprocessError):
                return None
        return pickle.loads(path.read_bytes()) if path.exists() else None

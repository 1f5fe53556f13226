"""What a running script will take, asked before its first step: what callbacks of Trainer and Lightning have in common.

The script is recorded in a process of its own, up to its third training step: nothing of this process is changed, no
random number is drawn here, and the other process sees no GPU.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from ..core.recorder import FEW, Recorder
from . import program
from .answer import Estimate
from .gpus import find

_WITH_VALUE = "WX"  # flags of Python that the next word belongs to
_OF_JOB = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


class NoAnswer(Exception):
    """Why nothing can be said, in one line."""


class Asks:
    """Says what the script that runs will take.

    Parameters
    ----------
    gpu : str, optional
        The GPU to ask about, by default the one that PyTorch uses here.
    seconds : float
        How long the answer may take; the training goes on without one after that.
    must_fit : bool
        End the training before its first step where it does not fit.

    Attributes
    ----------
    estimate : Estimate or None
        The answer.
    """

    def __init__(self, gpu: str | None = None, *, seconds: float = 120, must_fit: bool = False) -> None:
        super().__init__()
        self.gpu, self.seconds, self.must_fit = gpu, seconds, must_fit
        self.estimate: Estimate | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def _ask(self) -> None:
        """Record the script and print the answer, or one line that says why there is none.

        Raises
        ------
        MemoryError
            It does not fit, and `must_fit` is set.
        """
        if Recorder._under_way is not None or self.estimate is not None:  # this is the recording; or it was said
            return
        gpu = self.gpu or _used()
        try:
            self.estimate = self._record(gpu)
            print(self.estimate, file=sys.stderr, flush=True)
            fits = gpu is None or self.estimate.fits(gpu)
        except (NoAnswer, OSError, ValueError, program.ProgramError) as error:
            print(f"memestimate: no answer before the first step: {error}", file=sys.stderr, flush=True)
            return
        if self.must_fit and not fits:
            raise MemoryError(str(self.estimate).partition("\n")[0])

    def _record(self, gpu: str | None) -> Estimate:
        script = _script(sys.orig_argv)
        self._folder = tempfile.TemporaryDirectory(prefix="memestimate-")
        name = script[1].rpartition(".")[2] if script[0] == "-m" else Path(script[0]).stem
        file = Path(self._folder.name) / f"{name}.mrec"
        words = ["--quiet", "--steps", str(FEW), "--output", str(file), *(["--gpu", gpu] if gpu else [])]
        world, rank = os.environ.get("WORLD_SIZE", "1"), os.environ.get("RANK", "0")
        if int(world) > 1:
            words += ["--world-size", world, "--rank", rank]
        print(
            f"memestimate: recording {name} on a pretended GPU, for at most {self.seconds:.0f} s ...", file=sys.stderr
        )
        _run([sys.executable, "-m", "memestimate", "record", *words, *script], self.seconds)
        return Estimate(file, flags=("--gpu", gpu) if gpu else ())


def _run(command: list[str], seconds: float) -> None:
    """Run a command that says nothing, with all that it starts."""
    kept = {k: v for k, v in os.environ.items() if k not in _OF_JOB and not k.startswith("TORCHELASTIC_")}
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "WANDB_MODE": "disabled", "COMET_MODE": "DISABLED"}
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            command,
            env=kept | quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"the script had not come to its third step after {seconds:.0f} s") from None
        finally:
            if child.poll() is None:
                _end(child)
        if status:
            said.seek(0)
            lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
            raise NoAnswer(f"recording the script failed: {lines[-1] if lines else f'exit status {status}'}")


def _end(child: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # its loaders' workers too
    child.kill()
    child.wait()


def _script(words: Sequence[str]) -> list[str]:
    """The script of this process and its arguments, as ``record`` takes them, from the words that started Python.

    Raises
    ------
    NoAnswer
        The process was not started to run a script.
    """
    main = sys.modules["__main__"]
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        short = word[1:] if word.startswith("-") and not word.startswith("--") else ""
        if short.endswith("m") and rest and spec is not None:
            if spec.name.startswith("ipykernel"):
                break
            return ["-m", *rest]
        if not word.startswith("-") and file is not None:
            return [os.path.abspath(file), *rest]
        if "c" in short or word == "-":
            break
        if short[-1:] in tuple(_WITH_VALUE) or word == "--check-hash-based-pycs":
            rest = rest[1:]
    raise NoAnswer("there is no script to record: in a notebook, memestimate.estimate takes the model and a batch")


def _used() -> str | None:
    """The GPU that PyTorch uses here, by its name or its size; None where it uses none."""
    if not torch.cuda.is_initialized():
        return None
    name = torch.cuda.get_device_name()
    try:
        return find(name).id
    except ValueError:
        return f"{torch.cuda.get_device_properties().total_memory / 2**30:.3f}GiB"

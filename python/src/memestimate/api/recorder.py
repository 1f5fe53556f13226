"""The recorder that programs use: the core's, with all that the layers above it know."""

from __future__ import annotations

import math
import os
import platform
import time
from typing import Any

import torch

from ..compiled import compiler
from ..core.gpus import GPU
from ..core.recorder import Recorder as CoreRecorder
from ..core.session import Way
from ..core.shape_cache import Shared
from ..core.writer import Writer
from ..pretend import (
    batches,
    engine,
)
from ..pretend import host as build
from ..pretend.replay import Replay
from ..values.decisions import NOTHING, Change, Decisions
from ..values.values import Values
from ..version import VERSION
from . import program
from .gpus import find
from .rules import RULES

__all__ = ["Recorder", "record"]


class Recorder(CoreRecorder):
    """Records what happens on the pretended GPU between `start` and `stop`.

    Parameters
    ----------
    path : path
        File to write, by custom ``*.mrec``. It appears when the recording is complete.
    gpu : str or GPU
        The GPU to pretend: a name that ``memestimate gpus`` lists, or a `GPU`.
    world_size, rank : int
        Of the process group that a distributed script shall see.
    gpus : int
        How many GPUs the process sees.
    steps : int, optional
        Raise `Enough` when another step begins after so many; 0 for never. With None steps that are like others are
        left out, and so are batches of loaders that would take long, so that what comes behind them is recorded.
    way : {"fake-cuda", "fake-cuda-no-driver", "fake-cpu", "real-cpu"}, optional
        How to record: see docs/recording.md. By default as well as this build of PyTorch can.
    change : Change, optional
        Which answers to change, of those that are taken for unknown values.
    looked : int
        At how many batches of a loader to look for the largest; 0 for as many as it gives in a second.
    seconds : float
        Raise `TooLong` when a call begins after so long, or `Enough` where `steps` is None; 0 for never.
    compile : bool
        Whether what the program compiles (`torch.compile`) is compiled; otherwise it runs eagerly.
    shared : Shared, optional
        What this recording has in common with others of the same GPU, under the same settings of PyTorch.

    Attributes
    ----------
    steps : int
        How many training steps have ended.
    notes : list of (str, str)
        Assumptions that were made, as pairs of a short code and a sentence.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        gpu: str | GPU = "h200",
        world_size: int = 1,
        rank: int = 0,
        gpus: int = 1,
        steps: int | None = 0,
        way: Way | None = None,
        change: Change | None = None,
        seconds: float = 0,
        looked: int = 0,
        compile: bool = True,
        shared: Shared | None = None,
    ) -> None:
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of a world of {world_size}: ranks are 0 to {world_size - 1}")
        if gpus < 1 or (gpus > 1 and world_size > 1):
            raise ValueError(f"{gpus} GPUs in each of {world_size} processes: of several processes each has one")
        found = find(gpu)
        taken, why = _choose(way)
        if gpus > 1 and (why or taken == "fake-cpu"):
            raise ValueError(f"{gpus} GPUs in a process need a build of PyTorch with CUDA: {why}")
        header = _header(found, taken, world_size, rank) | ({"gpus": gpus} if gpus > 1 else {})
        super().__init__(
            Writer(path, header),
            RULES,
            found,
            world_size,
            rank,
            taken,
            by_host=taken == "fake-cpu" or bool(why),
            why=why,
            gpus=gpus,
            end=time.monotonic() + seconds if seconds else math.inf,
            shared=shared or Shared(),
        )
        self.wanted, self.goes_on = steps or 0, steps is None
        self.alike.leaves_out = self.goes_on and taken != "real-cpu"
        self.seconds = seconds or math.inf
        self.decisions = self.keep(Decisions(self, change or NOTHING))
        self.keep(compiler.Compiler(self, compile))
        self.keep(Replay(self, program.ask))
        self.batches = self.keep(batches.Batches(self, looked))

    @property
    def values(self) -> Values:
        """What is known of values."""
        return self.part(Values)


def record(
    path: str | os.PathLike[str],
    *,
    gpu: str | GPU = "h200",
    world_size: int = 1,
    rank: int = 0,
    gpus: int = 1,
    real: bool = False,
    compile: bool = True,
) -> Recorder:
    """Record a training loop: ``with record("step.mrec", gpu="a100-80gb") as rec: ...``.

    Parameters
    ----------
    path : path
        File to write, by custom ``*.mrec``. It appears when the recording is complete.
    gpu : str or GPU
        The GPU to pretend: a name that ``memestimate gpus`` lists, or a `GPU`.
    world_size, rank : int
        Of the process group that a distributed script shall see.
    gpus : int
        How many GPUs the process sees, as ``device_map="auto"`` and pipelines in one process use them.
    real : bool
        Compute everything on the CPU as well: what depends on values is then what they say.
    compile : bool
        Whether what the program compiles (`torch.compile`) is compiled; otherwise it runs eagerly.

    Returns
    -------
    Recorder
        A context manager. Its `Recorder.step` says where a step ends that no optimizer ends.
    """
    way: Way | None = "real-cpu" if real else None
    return Recorder(path, gpu=gpu, world_size=world_size, rank=rank, gpus=gpus, way=way, compile=compile)


def _choose(asked: Way | None) -> tuple[Way, str]:
    """The way of a recording, and why it is not the best one."""
    if asked == "fake-cpu":
        return asked, ""
    try:
        engine.prepare()
    except engine.EngineError as error:
        return ("real-cpu" if asked == "real-cpu" else "fake-cpu"), str(error)
    return asked or ("fake-cuda" if torch.cuda.is_available() else "fake-cuda-no-driver"), ""


def _header(gpu: GPU, way: Way, world_size: int, rank: int) -> dict[str, Any]:
    return {
        "producer": f"memestimate {VERSION}",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cudnn": build.cudnn_version(),
        "cuda": torch.version.cuda or "",
        "way": way,
        "gpu": {
            "name": gpu.id,
            "capability": gpu.capability,
            "multiprocessors": gpu.multiprocessors,
            "memory": gpu.memory,
        },
        "world_size": world_size,
        "rank": rank,
        "alloc_conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF") or "",
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "allow_tf32": torch.backends.cudnn.allow_tf32,
    }

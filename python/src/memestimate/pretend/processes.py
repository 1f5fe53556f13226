"""Processes that a program starts, one a GPU: of these the recorded one runs, within the process that is recorded.

Another process sees neither the pretended GPU nor the recording. What loads data, steps environments or serves an
object runs as it would: only where the source of what runs there says that it is a rank of several, or on a GPU, is
it taken in.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from ..core.session import Session

# What a function says that runs on a GPU of its own, and the names by which it is told which one.
_RANKED = re.compile(r"\binit_process_group\b|\bcuda\b|\b(?:local_|global_)?rank\b|\bgpu(?:_id)?\b|\bdevice_id\b")
_NAMES = ("rank", "local_rank", "global_rank", "gpu", "gpu_id", "device_id", "device", "index", "i")
_GPU = re.compile(r"\binit_process_group\b|\bcuda\b|\baccelerator\b")
_LIBRARIES = ("torch", "multiprocessing", "concurrent", "asyncio")  # their workers load data and serve objects


class _Started:
    """What `torch.multiprocessing.spawn(..., join=False)` returns, of processes that have ended."""

    def join(self, *_: Any, **__: Any) -> bool:
        return True


class Processes:
    """Which of the processes that a program starts were taken in, and how they ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended: dict[BaseProcess, int] = {}
        self._run: set[Any] = set()  # what ran in one that was told no number

    def _spawn(
        self, fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, *_: Any, **__: Any
    ) -> _Started | None:
        rank = self._session.rank
        self._session.note("distributed", f"of {nprocs} processes that the program starts only rank {rank} runs")
        fn(rank, *args)
        return None if join else _Started()

    def _take_in(self, process: BaseProcess) -> bool:
        """Run a process here if it is the recorded rank, or let it have ended if it is another."""
        own: Any = process
        target = own._target or type(process).run
        if not _is_rank(target):
            return False
        rank = _number(own._args, own._kwargs)
        self._ended[process] = 0
        if (rank is None and target in self._run) or rank not in (None, self._session.rank):
            return True
        self._run.add(target)
        self._session.note(
            "distributed", f"of the processes that the program starts only rank {self._session.rank} runs"
        )
        try:
            process.run()
        except SystemExit as error:
            self._ended[process] = error.code if isinstance(error.code, int) else int(error.code is not None)
        return True


def install(session: Session) -> None:
    """Take in what a program starts."""
    processes = session.part(Processes)
    for name in ("spawn", "start_processes"):
        session.patches.set(torch.multiprocessing, name, processes._spawn)
    start, join, alive = BaseProcess.start, BaseProcess.join, BaseProcess.is_alive
    code: Any = BaseProcess.exitcode

    def started(process: BaseProcess) -> None:
        if not processes._take_in(process):
            start(process)

    def joined(process: BaseProcess, timeout: float | None = None) -> None:
        if process not in processes._ended:
            join(process, timeout)

    def ending(end: Callable[[BaseProcess], None]) -> Callable[[BaseProcess], None]:
        return lambda process: None if process in processes._ended else end(process)

    session.patches.set(BaseProcess, "start", started)
    session.patches.set(BaseProcess, "join", joined)
    for name in ("terminate", "kill"):
        session.patches.set(BaseProcess, name, ending(getattr(BaseProcess, name)))
    session.patches.set(BaseProcess, "is_alive", lambda process: process not in processes._ended and alive(process))
    session.patches.set(
        BaseProcess,
        "exitcode",
        property(lambda process: processes._ended[process] if process in processes._ended else code.fget(process)),
    )


def _is_rank(target: Callable[..., Any]) -> bool:
    """Whether the source of a function says that it runs on a GPU, as one of several processes or the only one."""
    function = inspect.unwrap(getattr(target, "func", target))
    module = inspect.getmodule(function)
    if module is None or module.__name__.partition(".")[0] in _LIBRARIES:
        return False
    try:
        return bool(_RANKED.search(inspect.getsource(function)) and _GPU.search(inspect.getsource(module)))
    except (OSError, TypeError):
        return False


def _number(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """The rank that a process is told: the first whole number, or by its name."""
    told = [kwargs[name] for name in _NAMES if name in kwargs] + list(args)
    return next((n for n in told if isinstance(n, int) and not isinstance(n, bool)), None)

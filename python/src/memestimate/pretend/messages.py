"""Objects that another process of the job sends, as stages of a pipeline tell the next one what they make.

Only one process is recorded. What it receives the script says itself: it is run once more as the process that sends,
until it has sent it.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.recording import Enough
from ..core.session import Session
from .communicators import Communicators


@dataclass(frozen=True)
class Message:
    """One message between two processes: `number` counts those of the same two from 0."""

    source: int
    target: int
    number: int

    def path(self, folder: Path) -> Path:
        """The file that holds it."""
        return folder / f"{self.source}-{self.target}-{self.number}.pickle"


class Messages:
    """What this process sends and receives.

    Parameters
    ----------
    session
        The recording.
    find
        Returns what a message is, or None where nobody can say.
    wanted, folder
        The message for which this process runs, and where to keep it.
    """

    def __init__(
        self,
        session: Session,
        find: Callable[[Message], Any] | None = None,
        wanted: Message | None = None,
        folder: Path | None = None,
    ) -> None:
        self._session, self._find = session, find
        self._wanted, self._folder = wanted, folder
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()

    def send(self, objects: list[Any], target: int) -> None:
        """Take note of a message; raise `Enough` when it is the one that is wanted."""
        message = Message(self._session.rank, target, self._sent[target])
        self._sent[target] += 1
        if message == self._wanted and self._folder is not None:
            message.path(self._folder).write_bytes(pickle.dumps(objects))
            raise Enough

    def receive(self, objects: list[Any], source: int) -> None:
        """Put into a list what another process sends.

        Raises
        ------
        RuntimeError
            Nobody can say what that is.
        """
        message = Message(source, self._session.rank, self._received[source])
        self._received[source] += 1
        found = self._find(message) if self._find is not None else None
        if found is None:
            raise RuntimeError(
                f"what rank {source} sends rank {message.target} is not known: record the script by "
                "python -m memestimate record, which runs it as that rank, too; or, where it is the shapes of a "
                "pipeline's stage, give PipelineStage its input_args and output_args"
            )
        objects[:] = found


def install(session: Session) -> None:
    """Answer `send_object_list` and `recv_object_list`."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    messages, communicators = session.part(Messages), session.part(Communicators)

    def rank_of(rank: int | None, group: Any, within: int | None) -> int:
        if within is not None:
            return dist.get_global_rank(group or dist.distributed_c10d._get_default_group(), within)
        if rank is None:
            raise RuntimeError("recv_object_list from any rank cannot be recorded: name the rank that sends")
        return rank

    def send_object_list(
        object_list: list[Any],
        dst: int | None = None,
        group: Any = None,
        device: Any = None,
        group_dst: int | None = None,
        use_batch: bool = False,
    ) -> None:
        target = rank_of(dst, group, group_dst)
        communicators.objects("send", group, target, use_batch)
        messages.send(object_list, target)

    def recv_object_list(
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
        use_batch: bool = False,
    ) -> int:
        source = rank_of(src, group, group_src)
        communicators.objects("recv_", group, source, use_batch)
        messages.receive(object_list, source)
        return source

    for function in (send_object_list, recv_object_list):
        for module in (dist, dist.distributed_c10d):
            session.patches.set(module, function.__name__, function)

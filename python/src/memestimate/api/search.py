"""The largest batch that fits where no rule foretells what a batch takes: each size is recorded by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .answer import Batch, Estimate, Fit

_SECONDS = 120.0  # after which no other size is recorded
_LARGEST = 1 << 16
_CLOSE = 16  # a size is known well enough within this part of it


def largest(at: Callable[[int], Path], gpu: str, reason: str) -> Fit:
    """Search by doubling, then by halving the interval.

    Parameters
    ----------
    at
        Records a step of a batch and returns the recording.
    gpu
        A name that ``memestimate gpus`` lists.
    reason
        Why nothing foretells the sizes: a note of the answer.
    """
    end = time.monotonic() + _SECONDS
    tried: dict[int, Batch] = {}
    memory, share = 0, 0.0
    below, above = 0, _LARGEST + 1
    while above - below > max(1, below // _CLOSE) and (not tried or time.monotonic() < end):
        batch = max(1, 2 * below) if above > _LARGEST else (below + above) // 2
        if batch > _LARGEST:
            break
        tried[batch], memory, share = _one(Estimate(at(batch), flags=("--gpu", gpu)), batch)
        below, above = (batch, above) if tried[batch].fits else (below, batch)
    notes = [f"each batch of the curve was recorded by itself: {reason}"]
    if above > _LARGEST:
        notes.append(f"no batch up to {below} was too large; larger ones were not recorded")
    elif above - below > 1:
        notes.append(f"the largest batch is at least {below} and less than {above}")
    curve = tuple(tried[batch] for batch in sorted(tried))
    return Fit(
        batch=below,
        likely_batch=max((b.batch for b in curve if b.likely <= memory), default=0),
        safe_batch=max((b.batch for b in curve if b.safe), default=0),
        safe_share=share,
        memory=memory,
        curve=curve,
        notes=tuple(notes),
    )


def _one(answer: Estimate, batch: int) -> tuple[Batch, int, float]:
    """One row of the curve, the memory of the GPU in bytes, and of how many runs the safe figure holds."""
    peak, memory = answer.peak, int(answer.data["fits"][0]["limit_bytes"])
    row = Batch(
        batch=batch,
        allocated=peak.allocated,
        reserved=peak.reserved,
        device=peak.device,
        likely=peak.likely,
        safe_bytes=peak.safe,
        at_most=peak.at_most,
        fits=peak.device <= memory,
        safe=peak.safe <= memory,
    )
    return row, memory, float(answer.data["peak"]["safe_share"])

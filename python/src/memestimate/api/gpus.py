"""GPUs by the names that people have for them, which the program knows."""

from __future__ import annotations

import functools

from ..core.gpus import DEFAULT, GPU
from . import program


@functools.cache
def find(name: str | GPU) -> GPU:
    """Return the GPU of this id or name, in any case, or of as many of their words as tell it from others: "4090".

    A size such as "24GiB" is the default GPU with that memory, and so is one of which no more is known.

    Raises
    ------
    ValueError
        If no such GPU is known, or several are meant; the message lists them.
    FileNotFoundError
        The program is not installed.
    """
    if isinstance(name, GPU):
        return name
    if name == DEFAULT.id:
        return DEFAULT
    try:
        (row,) = program.ask(["gpus", name.lstrip("-")])["gpus"]
    except program.ProgramError as error:
        raise ValueError(f"gpu: {error}") from None
    known = DEFAULT.capability, DEFAULT.multiprocessors
    if row["multiprocessors"]:
        major, _, minor = row["compute_capability"].partition(".")
        known = (int(major), int(minor)), row["multiprocessors"]
    return GPU(row["id"], row["name"], *known, row["memory_bytes"])

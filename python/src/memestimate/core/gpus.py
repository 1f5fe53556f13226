"""GPUs that a recording can pretend to run on.

The names are those of ``memestimate gpus``. Memory is what CUDA reports as the total,
capability and multiprocessors are NVIDIA's (CUDA programming guide, compute capabilities).
The table is the program's own: ``go test ./simulate/gpu -update`` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .words import FORM_FACTORS, GPU_NOISE


@dataclass(frozen=True)
class GPU:
    """A device as PyTorch sees it; memory in bytes."""

    id: str
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int


GPUS = (
    GPU("h200", "NVIDIA H200", (9, 0), 132, 150_109_880_320),
    GPU("h100-80gb", "NVIDIA H100 80GB HBM3", (9, 0), 132, 84_929_347_584),
    GPU("h100-pcie", "NVIDIA H100 PCIe", (9, 0), 114, 84_929_347_584),
    GPU("h100-nvl", "NVIDIA H100 NVL", (9, 0), 132, 99_857_989_632),
    GPU("b200", "NVIDIA B200", (10, 0), 148, 191_504_056_320),
    GPU("a100-40gb", "NVIDIA A100-SXM4-40GB", (8, 0), 108, 42_285_268_992),
    GPU("a100-80gb", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 84_974_239_744),
    GPU("a30", "NVIDIA A30", (8, 0), 56, 25_216_745_472),
    GPU("a10g", "NVIDIA A10G", (8, 6), 80, 23_609_475_072),
    GPU("a40", "NVIDIA A40", (8, 6), 84, 47_608_692_736),
    GPU("rtx-a6000", "NVIDIA RTX A6000", (8, 6), 84, 50_925_535_232),
    GPU("l4", "NVIDIA L4", (8, 9), 58, 23_580_639_232),
    GPU("l40s", "NVIDIA L40S", (8, 9), 142, 47_696_445_440),
    GPU("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", (8, 9), 142, 50_925_535_232),
    GPU("rtx-3090", "NVIDIA GeForce RTX 3090", (8, 6), 82, 25_438_126_080),
    GPU("rtx-3060", "NVIDIA GeForce RTX 3060", (8, 6), 28, 12_622_168_064),
    GPU("rtx-4060", "NVIDIA GeForce RTX 4060", (8, 9), 24, 8_318_222_336),
    GPU("rtx-4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 25_393_692_672),
    GPU("rtx-5090", "NVIDIA GeForce RTX 5090", (12, 0), 170, 33_669_578_752),
    GPU("t4", "Tesla T4", (7, 5), 40, 15_655_829_504),
    GPU("v100-16gb", "Tesla V100-SXM2-16GB", (7, 0), 80, 16_935_682_048),
    GPU("v100-32gb", "Tesla V100-SXM2-32GB", (7, 0), 80, 34_079_899_648),
)

# What a process takes of a GPU before it has a tensor, in bytes: that of gpu.go, as measured on an H200. Handles of
# cuBLAS and cuDNN are not in it.
CONTEXT = 614 << 20


def find(name: str | GPU) -> GPU:
    """Return the GPU of this id or name, in any case, or of as many of their words as tell it from others: "4090".

    Raises
    ------
    ValueError
        If no such GPU is known, or several are meant; the message lists them.
    """
    if isinstance(name, GPU):
        return name
    meant = meant_by(name, ((g.id, g.name) for g in GPUS))
    if len(meant) > 1:
        raise ValueError(f"gpu {name!r} could be {', '.join(meant)}")
    for gpu in GPUS:
        if gpu.id in meant:
            return gpu
    raise ValueError(f"no GPU named {name!r}; known are {', '.join(g.id for g in GPUS)}")


def meant_by(typed: str, names: Iterable[tuple[str, str]]) -> list[str]:
    """Return the GPUs that a name could mean, of pairs of an id and the name that nvidia-smi shows.

    One, where it is an id or a full name, or has words enough of them to tell it from the others.
    """
    pairs = list(names)
    for known, full in pairs:
        if typed.lower() in (known, full.lower()):
            return [known]
    asked = _device_words(typed)
    found = []
    for known, full in pairs:
        words = [*_device_words(known), *_device_words(full), *FORM_FACTORS.get(known, ())]
        if asked and all(any(_stands(word, of) for of in words) for word in asked):
            found.append(known)
    return found


def _device_words(name: str) -> list[str]:
    """Take a GPU's name apart: "RTX4090" is rtx and 4090, "80 GB" is 80gb."""
    words: list[str] = []
    for word in re.findall(r"[^\W_]+", name.lower()):
        if series := re.fullmatch(r"(rtx|gtx)(.+)", word):
            words.append(series[1])
            word = series[2]
        if re.fullmatch(r"[0-9]+[gib]+", word):
            word = word.rstrip("gib") + "gb"
        if word in ("gb", "g", "gib"):  # of "80 GB"
            if words and words[-1].isdecimal():
                words[-1] += "gb"
            continue
        if word not in GPU_NOISE:
            words.append(word)
    return words


def _stands(typed: str, of: str) -> bool:
    """Whether a word stands for one of a device's: "sxm" for sxm4, "80" for 80gb, "6000" for a6000."""
    if typed == of:
        return True
    if typed.isdecimal():
        return of == typed + "gb" or of.lstrip("abhlrtv") == typed
    return typed == of.rstrip("0123456789") and len(typed) > 2

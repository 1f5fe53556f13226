"""What a recording knows of the GPU that it pretends to run on; the program has the table of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GPU:
    """A device as PyTorch sees it; memory in bytes."""

    id: str
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int


# As the program has it: what is recorded without asking the program is recorded for this one.
DEFAULT = GPU("h200", "NVIDIA H200", (9, 0), 132, 150109880320)

# What a process takes of a GPU before it has a tensor, in bytes: that of gpu.go, as measured on an H200. Handles of
# cuBLAS and cuDNN are not in it.
CONTEXT = 614 << 20

# The L2 cache in MiB, by id: NVIDIA's data sheets and architecture papers; the H200's was read off the device. What
# Inductor and Triton time is timed with a cold cache, so that they allocate a buffer of this size.
L2 = {
    "h200": 60, "h100-80gb": 50, "h100-pcie": 50, "h100-nvl": 50, "b200": 126, "a100-40gb": 40, "a100-80gb": 40,
    "a30": 24, "a10g": 6, "a40": 6, "rtx-a6000": 6, "l4": 48, "l40s": 96, "rtx-6000-ada": 96, "rtx-3090": 6,
    "rtx-3060": 3, "rtx-4060": 24, "rtx-4090": 72, "rtx-5090": 96, "t4": 4, "v100-16gb": 6, "v100-32gb": 6,
}  # fmt: skip

# Of other devices the usual size of their generation, by capability.
_L2_OF: dict[int | tuple[int, int], int] = {
    6: 3,
    7: 4,
    (8, 0): 40,
    (8, 6): 6,
    (8, 7): 4,
    8: 48,
    9: 50,
    10: 126,
    11: 32,
    12: 48,
}


def l2_cache(gpu: GPU) -> int:
    """Return the bytes of a device's L2 cache."""
    return L2.get(gpu.id, _L2_OF.get(gpu.capability, _L2_OF[gpu.capability[0]])) << 20

"""Ask cuFFT for the work areas of plans: simulate/kernels/testdata/fft_plans.csv.gz.

    python3 fft_plans.py OUT.csv.gz      on a GPU, about 20 minutes; several GPUs or processes share the work by
    python3 fft_plans.py OUT.csv.gz --part 0 --parts 6

Plans are made as PyTorch makes them (aten/src/ATen/native/cuda/CuFFTPlanCache.h) and never run. Each line has the
precision (h, s, d for float16, float32, float64), which side is real, the lengths, the batch, the stride of a dimension
whose numbers lie apart, and the bytes. Without a GPU cuFFT answers nothing: cufftEstimateMany and cufftXtGetSizeMany
fail with CUFFT_INTERNAL_ERROR and CUFFT_INVALID_PLAN.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import random
from pathlib import Path
from typing import NamedTuple

import torch

REAL = {"h": 2, "s": 0, "d": 1}  # cudaDataType_t
COMPLEX = {"h": 6, "s": 4, "d": 5}
KINDS = ("r2c", "c2r", "c2c")
Number = ctypes.c_longlong


class Plan(NamedTuple):
    """What cufftXtMakePlanMany is asked for; a stride is that of the input's numbers, which makes them lie apart."""

    precision: str
    kind: str
    lengths: tuple[int, ...]
    batch: int
    stride: int | None = None


def cufft() -> ctypes.CDLL:
    """Return the library that PyTorch has loaded."""
    torch.fft.fft(torch.zeros(4, device="cuda"))
    lines = Path("/proc/self/maps").read_text().splitlines()
    return ctypes.CDLL(next(line.split()[-1] for line in lines if "libcufft.so" in line))


def work_area(library: ctypes.CDLL, plan: Plan) -> int:
    """Return the bytes that a plan asks for."""
    real, complex_ = REAL[plan.precision], COMPLEX[plan.precision]
    kinds = {"r2c": (real, complex_), "c2r": (complex_, real), "c2c": (complex_, complex_)}[plan.kind]
    handle, size = ctypes.c_int(), ctypes.c_size_t()
    assert library.cufftCreate(ctypes.byref(handle)) == 0
    library.cufftSetAutoAllocation(handle, 0)
    rank, lengths = len(plan.lengths), (Number * len(plan.lengths))(*plan.lengths)
    layouts: list[tuple[object, Number, Number]] = [(None, Number(1), Number(1))] * 2
    if plan.stride is not None:
        distance = plan.lengths[0] // 2 + 1 if plan.kind == "r2c" else plan.lengths[0]
        layouts = [(lengths, Number(plan.stride), Number(1)), (lengths, Number(1), Number(distance))]
    (before, after), batch = layouts, Number(plan.batch)
    error = library.cufftXtMakePlanMany(
        handle, rank, lengths, *before, kinds[0], *after, kinds[1], batch, ctypes.byref(size), complex_
    )
    library.cufftDestroy(handle)
    assert error == 0, (plan, error)
    return size.value


def factors_to_seven(least: int, most: int) -> list[int]:
    """Return the numbers that 2, 3, 5 and 7 make."""
    numbers = {2**a * 3**b * 5**c * 7**d for a in range(21) for b in range(7) for c in range(5) for d in range(4)}
    return sorted(n for n in numbers if least < n <= most)


def plans() -> list[Plan]:
    """Return what is asked, in an order that spreads the long ones."""
    rnd, rows = random.Random(1), []
    rows += [Plan("s", kind, (n,), 64) for n in range(2, 2049) for kind in KINDS]
    primes = [n for n in range(2049, 200000) if all(n % q for q in range(2, int(n**0.5) + 1))]
    long = rnd.sample(factors_to_seven(2048, 2**20), 500) + [2**a for a in range(11, 24)]
    long += rnd.sample(primes, 200) + rnd.sample(range(2049, 500000), 500)
    rows += [Plan("s", kind, (n,), 4) for n in long for kind in KINDS]
    lengths = list(range(2, 300)) + rnd.sample(range(300, 5000), 250) + [2**a for a in range(2, 21)]
    for n in lengths:
        kind = rnd.choice(KINDS)
        rows += [Plan("s", kind, (n,), b) for b in (1, 2, 3, 16, 100, 1000, 4096, 20000) if n * b <= 2**26]
    rows += [Plan("d", kind, (n,), 16) for n in lengths for kind in KINDS]
    rows += [Plan("h", kind, (2**a,), b) for a in range(1, 18) for b in (1, 8, 64) for kind in KINDS]
    images = [(a, b) for a in range(4, 140, 3) for b in (7, 8, 13, 16, 17, 31, 32, 48, 64, 94, 96, 97, 128)]
    images += [(n, n) for n in range(2, 300)] + [(rnd.randint(2, 1500), rnd.randint(2, 1500)) for _ in range(400)]
    images += [(n, n // 2 + 1) for n in range(8, 200, 6)]
    for image in images:
        kind = rnd.choice(KINDS)
        rows.append(Plan("s", kind, image, 16))
        if rnd.random() < 0.3:
            rows += [Plan("s", kind, image, b) for b in (1, 3, 200)]
        if rnd.random() < 0.1:
            rows.append(Plan("d", kind, image, 16))
    for _ in range(500):
        volume = tuple(
            rnd.choice((rnd.randint(2, 130), 2 ** rnd.randint(1, 7), rnd.choice((14, 28, 56, 96, 112)))) for _ in "dhw"
        )
        rows.append(Plan("s", rnd.choice(KINDS), volume, rnd.choice((1, 4, 32))))
    # Over the first of two dimensions: its numbers lie apart, and those of the result do not.
    rows += [Plan("s", rnd.choice(KINDS), (n,), c, c) for n in lengths[:450] for c in (3, 64, 321)]
    rnd.shuffle(rows)
    return rows


def main() -> None:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    args = parser.parse_args()
    torch.zeros(1, device="cuda")
    library = cufft()
    lines = ["precision,kind,lengths,batch,stride,bytes"]
    for plan in sorted(set(plans()), key=str)[args.part :: args.parts]:
        lengths = "x".join(map(str, plan.lengths))
        stride = "" if plan.stride is None else plan.stride
        lines.append(f"{plan.precision},{plan.kind},{lengths},{plan.batch},{stride},{work_area(library, plan)}")
    args.out.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))


if __name__ == "__main__":
    main()

"""
Convolutions of a recording, of which cuDNN is asked what they take.

Which of cuDNN's engines runs is its own heuristic. Where its library is installed it is asked (`cudnn_answers`), at the
end of a recording and in a process of its own, but not about what was measured on a GPU, which the program knows
better. Products of matrices in channels-last order are not asked about either: cuDNN leaves most to cuBLAS, and how
likely that is the program knows for row-major ones alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from ..core.gpus import GPU
from ..core.session import Call, Session
from . import cudnn_answers
from .cudnn_answers import Convolution, Question

_TYPES = {torch.float32: 0, torch.bfloat16: 9, torch.float16: 2}  # cudnnDataType_t
_PASSES = ("forward", "input", "weight")
_NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_OLDEST = 90800  # cuDNN, that can be asked about a device that is not there
_LARGEST = 1 << 31  # numbers of a tensor that cuDNN works on at once
_SECONDS = 120.0
_MEASURED = "measured_convolutions.bin"
_BITS = 5  # that each convolution sets there
_BESIDE = ("libcublas", "libnvrtc")  # that cuDNN looks for where it lies, which they may not
# What cuDNN 9.19 writes down about an H200; other chips of its kind differ in what is replaced below.
_HOPPER = {
    "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536,
    "multiProcessorCount": 132,
    "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "pciDeviceId": 0,
    "isTccDriver": 0,
    "supportCoopLaunch": 1,
    "totalGlobalMem": 150109880320,
    "smClockRateKHz": 1980000,
    "memClockRateKHz": 3201000,
    "l2CacheSize": 62914560,
    "cudaDeviceId": 0,
    "deviceVer": 900,
    "driverVer": 13000,
    "deviceName": "NVIDIA H200",
}


class Asked(NamedTuple):
    """One pass of a convolution, as the program tells them apart: docs/recording-format.md."""

    operation: str
    dtype: str
    channels_last: bool
    transposed: bool
    groups: int
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    def question(self) -> Convolution:
        """The pass as cuDNN has it: a transposed convolution is one from y to x, with its passes exchanged."""
        x, y, operation = self.x, self.y, self.operation
        if self.transposed:
            x, y = y, x
            operation = {"forward": "input", "input": "forward"}.get(operation, operation)
        types = {name: _TYPES[dtype] for dtype, name in _NAMES.items()}
        return Convolution(
            operation=operation,
            type=types[self.dtype],
            channels_last=self.channels_last,
            x=list(x),
            w=list(self.w),
            y=list(y),
            padding=list(self.padding),
            stride=list(self.stride),
            dilation=list(self.dilation),
        )

    def left_to_cublas(self) -> bool:
        """Whether it is a product of matrices in channels-last order."""
        ones = (*self.w[2:], *self.stride, self.groups)
        return self.channels_last and set(ones) == {1} and set(self.padding) == {0}

    def native(self) -> bool:
        """Whether PyTorch's own kernels may run: depthwise, in row-major order."""
        return self.groups > 1 and self.groups == self.x[1] and not self.transposed and not self.channels_last

    def key(self) -> str:
        """What tells a convolution from others in the list of the measured ones."""
        return repr(self[1:-1])


# What this process asked before: a search records the same model again and again.
_answered: dict[tuple[GPU, bool, bool], dict[Asked, int]] = {}


class NoAnswerError(RuntimeError):
    """cuDNN cannot be asked here; says what is the matter."""


class Convolutions:
    """The convolutions that a recorder saw."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen: dict[Asked, None] = {}
        self._searched: dict[Asked, None] = {}

    def saw(self, func: OpOverload, args: Sequence[Any], out: Any) -> None:
        """Take note of a call, if it is a convolution."""
        name = func._schema.name
        if name == "aten::convolution":
            x, w, _, stride, padding, dilation, transposed, _, groups = args[:9]
            self._see((0,), x, w, out, stride, padding, dilation, transposed, groups)
        elif name == "aten::convolution_backward":
            y, x, w, _, stride, padding, dilation, transposed, _, groups, mask = args[:11]
            passes = tuple(i for i in (1, 2) if mask[i - 1])
            self._see(passes, x, w, y, stride, padding, dilation, transposed, groups)

    def _see(
        self,
        passes: Sequence[int],
        x: torch.Tensor,
        w: torch.Tensor,
        y: torch.Tensor,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        groups: int,
    ) -> None:
        if x.dtype not in _TYPES or x.dtype != w.dtype or max(x.numel(), y.numel()) >= _LARGEST or not y.numel():
            return
        shapes = [tuple(t.shape) for t in (x, w, y)]
        spread = [tuple(n) * (x.dim() - 2 if len(n) == 1 else 1) for n in (stride, dilation, padding)]
        raised = x.dim() == 3  # runs as 2-D over a height of 1, in row-major order
        if raised:
            shapes = [(*shape[:2], 1, *shape[2:]) for shape in shapes]
            spread = [(n, *values) for n, values in zip((1, 1, 0), spread, strict=True)]
        # As cudnn_conv_suggest_memory_format has it (aten/src/ATen/native/ConvUtils.h).
        last = not raised and any(
            t.is_contiguous(memory_format=_LAST[t.dim()]) and not t.is_contiguous() for t in (x, w)
        )
        for operation in (_PASSES[i] for i in passes):
            for channels_last in (False,) if raised else (False, True):
                head = (operation, _NAMES[x.dtype], channels_last, bool(transposed), int(groups))
                asked = Asked(*head, *shapes, *spread)
                self._seen[asked] = None
                if torch.backends.cudnn.benchmark and channels_last == last:
                    self._searched[asked] = None

    def write(self) -> None:
        """Ask about what was seen, and write the answers down; without any, a note says why."""
        searched = [asked for asked in self._searched if not asked.native()]
        sizes = [(0, 0)] * len(searched)
        answers: list[tuple[Any, ...]] = []
        try:
            if searched and self._session.gpu.capability == (9, 0):
                sizes = self._sizes(searched)
            answers = self.answers()
        except NoAnswerError as error:
            text = f"cuDNN could not be asked what convolutions take, which is less exact without: {error}"
            self._session.note("cudnn", text)
        for asked, found in zip(searched, sizes, strict=True):
            self._session.writer.event("search", *asked[:-1], *(max(size, 0) for size in found))
        for answer in answers:
            self._session.writer.event(*answer)

    def answers(self) -> list[tuple[Any, ...]]:
        """
        Ask about what was seen so far, each pass once; the events that say what cuDNN answered.

        Raises
        ------
        NoAnswerError
            Where cuDNN cannot be asked.
        """
        wanted = [a for a in self._seen if not (a.left_to_cublas() or a.native() or a.key() in measured())]
        if not wanted or self._session.gpu.capability != (9, 0):
            return []
        found = self._answers(wanted)
        return [("cudnn", *asked[:-1], size) for asked, size in found.items() if size >= 0]

    def _sizes(self, searched: Sequence[Asked]) -> list[tuple[int, int]]:
        """Of each pass that is searched for the largest workspace of all engines, and of those that are tried."""
        limits = 0, torch.backends.cudnn.benchmark_limit or 0
        offered, tried = (ask(library(), self._session.gpu, searched, engines) for engines in limits)
        return list(zip(offered, tried, strict=True))

    def _answers(self, wanted: Sequence[Asked]) -> dict[Asked, int]:
        """What the engine takes that is named for each pass, -1 where none is."""
        settings = torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic
        known = _answered.setdefault((self._session.gpu, *settings), {})
        unknown = [asked for asked in wanted if asked not in known]
        known.update(zip(unknown, ask(library(), self._session.gpu, unknown), strict=True))
        return {asked: known[asked] for asked in wanted}


def logged(session: Session, call: Call) -> None:
    """Take note of a call, if it is a convolution."""
    session.part(Convolutions).saw(call.func, call.args, call.out)


def finish(session: Session) -> None:
    """Ask about the convolutions of a recording."""
    session.part(Convolutions).write()


def ask(path: Path, gpu: GPU, wanted: Sequence[Asked], engines: int = 1) -> list[int]:
    """
    Ask cuDNN's library about passes: what the engine takes that its heuristic names, or the most of so many, 0 for all.

    Returns
    -------
    list of int
        Bytes of each workspace; -1 where there is no answer.

    Raises
    ------
    NoAnswerError
        Where the library cannot be loaded or fails.
    """
    if not wanted:
        return []
    described = _HOPPER | {
        "multiProcessorCount": gpu.multiprocessors,
        "totalGlobalMem": gpu.memory,
        "deviceName": gpu.name,
    }
    question = Question(
        library=str(path),
        loaded=[str(path) for path in _loaded() if path.name.startswith(_BESIDE)],
        device=json.dumps(described, separators=(",", ":")),
        allow_tf32=torch.backends.cudnn.allow_tf32,
        deterministic=torch.backends.cudnn.deterministic,
        engines=engines,
        convolutions=[asked.question() for asked in wanted],
    )
    command = [sys.executable, "-S", cudnn_answers.__file__]
    try:
        # Without a GPU also where there is one, which may be another: the answers are those of every machine.
        done = subprocess.run(
            command,
            input=json.dumps(question),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NoAnswerError(str(error)) from error
    try:
        sizes = [int(size) for size in json.loads(done.stdout)]
    except ValueError:
        sizes = []
    if done.returncode or len(sizes) != len(wanted):
        said = done.stderr.strip().splitlines() or [f"its process ended with {done.returncode}"]
        raise NoAnswerError(said[-1])
    return sizes


@cache
def _loaded() -> list[Path]:
    """The shared libraries that this process has loaded."""
    if not sys.platform.startswith("linux"):
        return []
    with open("/proc/self/maps") as file:
        fields = (line.rstrip("\n").split(maxsplit=5) for line in file)
        paths = dict.fromkeys(field[5] for field in fields if len(field) > 5 and field[5].startswith("/"))
    return [Path(path) for path in paths if ".so" in path]


def library() -> Path:
    """
    The cuDNN of this PyTorch.

    Raises
    ------
    NoAnswerError
        Where there is none, or one that is too old to be asked without a GPU.
    """
    found = [path for path in _loaded() if path.name.startswith("libcudnn.so.9")]
    if not found:
        raise NoAnswerError("this process has no library of version 9")
    if (version := torch.backends.cudnn.version() or 0) < _OLDEST:
        raise NoAnswerError(f"version {version} does not answer without a GPU, as versions from {_OLDEST} on do")
    return found[0]


class Measured:
    """A Bloom filter of the convolutions that the program has measured: one in 40 others is taken for one of them."""

    def __init__(self, bits: bytes) -> None:
        self.bits = bits

    @classmethod
    def of(cls, keys: Sequence[str]) -> Measured:
        """Make the filter of these convolutions, with a byte for each."""
        bits = bytearray(max(len(keys), 1))
        for key in keys:
            for place in _places(key, 8 * len(bits)):
                bits[place // 8] |= 1 << place % 8
        return cls(bytes(bits))

    def __contains__(self, key: str) -> bool:
        return all(self.bits[place // 8] >> place % 8 & 1 for place in _places(key, 8 * len(self.bits)))


def _places(key: str, bits: int) -> Iterator[int]:
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") | 1
    return ((first + i * step) % bits for i in range(_BITS))


@cache
def measured() -> Measured:
    """The filter that comes with the package."""
    return Measured(resources.files(__package__).joinpath(_MEASURED).read_bytes())

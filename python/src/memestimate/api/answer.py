"""What the program answers, as Python objects. All sizes are bytes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import program

__all__ = ["Asked", "Batch", "Estimate", "Fit", "Peak"]


@dataclass(frozen=True)
class Peak:
    """The moment at which the most is allocated.

    Attributes
    ----------
    allocated : int
        ``torch.cuda.max_memory_allocated()``, in bytes.
    reserved : int
        ``torch.cuda.max_memory_reserved()``, in bytes.
    device : int
        What nvidia-smi shows for the process: ``reserved`` and the CUDA context.
    likely : int
        What one run in twenty exceeds on the device.
    safe : int
        What fewer than two runs in a hundred exceed on the device; of trainings from default exports three.
    at_most : int
        What ``device`` comes to where workspaces, addresses or lifetimes differ; ``safe`` has the margin that
        measured runs needed beyond that, or is less where they needed none. Both have what other answers to questions
        of values were seen to add. Where ``Estimate.is_bound`` says no, none of the three is a bound.
    phase, layer : str
        When and where in the model it is.
    by_category : mapping of str to int
        What holds ``allocated``.
    """

    allocated: int
    reserved: int
    device: int
    likely: int
    safe: int
    at_most: int
    phase: str
    layer: str
    by_category: Mapping[str, int]

    @classmethod
    def _read(cls, peak: Mapping[str, Any]) -> Peak:
        return cls(
            allocated=peak["allocated_bytes"],
            reserved=peak["reserved_bytes"],
            device=peak["device_bytes"],
            likely=peak["likely_bytes"],
            safe=peak["safe_bytes"],
            at_most=peak["upper_bound_bytes"],
            phase=peak.get("phase", ""),
            layer=peak.get("layer", ""),
            by_category=dict(peak.get("by_category", {})),
        )


@dataclass(frozen=True)
class Asked:
    """A line of the program that asked for a value which no recording has, and whose answer moves the peak.

    Attributes
    ----------
    file, line, function
        Where it is.
    question : str
        ``truth``, ``number``, ``size``: how many elements are set, or different,
        or ``part``: the same, and the most was tried.
    taken : str
        The answer that was taken.
    bytes : int or None
        By how much the peak of the live tensors was another with another answer; None where that is not known.
    """

    file: str
    line: int
    function: str
    question: str
    taken: str
    bytes: int | None = None


class Estimate:
    """The answer for one recorded run.

    Attributes
    ----------
    peak : Peak
    data : dict
        The program's JSON, schema ``memestimate/1``, sizes in bytes.
    recording : Path
        The recording that it was made of.
    """

    def __init__(self, recording: str | os.PathLike[str], *, flags: tuple[str, ...] = ()) -> None:
        self.recording = Path(recording)
        self._flags = flags
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.data = program.ask([str(self.recording), *flags])
        if "peak" not in self.data:
            raise program.ProgramError(f"{self.recording}: how it runs is not known, so no peak either", 3)
        self.peak = Peak._read(self.data["peak"])

    @property
    def notes(self) -> list[str]:
        """What was assumed, in sentences."""
        return [note["text"] for note in self.data.get("notes", [])]

    @property
    def depends_on_data(self) -> tuple[Asked, ...]:
        """What the run hangs on and the recording does not have, the heaviest first: ``peak`` is for these answers."""
        found: Mapping[str, Any] = self.data.get("depends_on_data", {})
        return tuple(Asked(**place) for place in found.get("places", []))

    @property
    def is_bound(self) -> bool:
        """Whether ``peak.at_most`` is one for all data and steps, and nothing is missing of what the kernels take."""
        coverage = self.data.get("coverage", {})
        complete = coverage.get("modelled", 0) >= coverage.get("nodes", 0)
        complete = complete and "no_bound" not in self.data.get("settings", {})
        return complete and bool(self.data.get("depends_on_data", {}).get("bound", True))

    @property
    def parameters(self) -> int:
        """Bytes of the parameters."""
        return int(self.data.get("parameters", {}).get("bytes", 0))

    def fits(self, gpu: str) -> bool:
        """Say whether the run fits a GPU, by what is safe; `is_bound` says whether that holds for other data.

        Parameters
        ----------
        gpu : str
            A name that ``memestimate gpus`` lists, such as ``"t4"``, or a size such as ``"24GiB"``.
        """
        return program.run([str(self.recording), *self._flags, "--gpu", gpu]).returncode == 0

    def table(self, format: str = "text") -> str:
        """Return the table of the layers as ``text``, ``markdown`` or ``csv``."""
        return program.run(["table", str(self.recording), *self._flags, "--format", format]).stdout

    def to_markdown(self) -> str:
        """Return the answer for a pull request or an issue."""
        return program.run([str(self.recording), *self._flags, "--format", "markdown"]).stdout

    def to_html(self, path: str | Path) -> None:
        """Write the picture of the run to a page that works offline."""
        program.run([str(self.recording), *self._flags, "--format", "html", "--output", str(path)])

    def snapshot(self, path: str | Path) -> None:
        """Write the run as PyTorch writes memory snapshots, for pytorch.org/memory_viz, with your stack traces."""
        program.run([str(self.recording), *self._flags, "--snapshot", str(path), "--format", "json"])

    def __str__(self) -> str:
        done = program.run([str(self.recording), *self._flags, "--full=false", "--color", "never"])
        return done.stdout.rstrip("\n")

    def __repr__(self) -> str:
        figures = ("allocated", "reserved", "device", "safe")
        text = " ".join(f"{name}={getattr(self.peak, name)}" for name in figures)
        if self.depends_on_data:
            text += f" depends_on_data={len(self.depends_on_data)} places"
        if not self.is_bound:
            text += " no bound"
        return f"<Estimate {text}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # IPython's: what it shows of a result
        printer.text(str(self))

    def _repr_html_(self) -> str:
        page = program.run([str(self.recording), *self._flags, "--format", "html"]).stdout
        escaped = page.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{escaped}" sandbox="allow-scripts" style="width:100%;height:640px;border:0"></iframe>'


@dataclass(frozen=True)
class Batch:
    """One simulated size of the batch.

    Attributes
    ----------
    batch : int
        Its size.
    allocated, reserved, device, likely, at_most : int
        As those of `Peak`, in bytes.
    safe_bytes : int
        `Peak.safe`.
    fits : bool
        Whether ``device`` fits.
    safe : bool
        Whether ``safe_bytes`` fits.
    """

    batch: int
    allocated: int
    reserved: int
    device: int
    likely: int
    safe_bytes: int
    at_most: int
    fits: bool
    safe: bool


@dataclass(frozen=True)
class Fit:
    """The largest batch that fits.

    Attributes
    ----------
    batch : int
        The largest whose prediction fits, 0 where none does.
    likely_batch, safe_batch : int
        The largest whose likely and whose safe figure fit.
    safe_share : float
        Of how many runs a safe figure holds.
    memory : int
        What it must fit, in bytes.
    curve : tuple of Batch
        Every size that was simulated.
    notes : tuple of str
        What was assumed, in sentences.
    """

    batch: int
    likely_batch: int
    safe_batch: int
    safe_share: float
    memory: int
    curve: tuple[Batch, ...]
    notes: tuple[str, ...]

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Fit:
        return cls(
            batch=data["batch"],
            likely_batch=data["likely_batch"],
            safe_batch=data["safe_batch"],
            safe_share=data["safe_share"],
            memory=data["memory_bytes"],
            curve=tuple(
                Batch(
                    batch=row["batch"],
                    allocated=row["allocated_bytes"],
                    reserved=row["reserved_bytes"],
                    device=row["device_bytes"],
                    likely=row["likely_bytes"],
                    safe_bytes=row["safe_bytes"],
                    at_most=row["upper_bound_bytes"],
                    fits=row["fits"],
                    safe=row["safe"],
                )
                for row in data["curve"]
            ),
            notes=tuple(note["text"] for note in data.get("notes", [])),
        )

    def __str__(self) -> str:
        of = {row.batch: row for row in self.curve}
        lines = []
        if self.safe_batch:
            size = _gib(of[self.safe_batch].safe_bytes)
            runs = "two" if self.safe_share >= 0.98 else "three"
            lines.append(f"batch {self.safe_batch} is safe: fewer than {runs} runs in a hundred take more than {size}")
        if self.likely_batch:
            size = _gib(of[self.likely_batch].likely)
            lines.append(f"batch {self.likely_batch} likely fits: one run in twenty takes more than {size}")
        if self.batch:
            size = _gib(of[self.batch].device)
            lines.append(f"batch {self.batch} is the largest that fits {_gib(self.memory)}: it takes {size}")
        else:
            lines.append(f"no batch fits {_gib(self.memory)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        sizes = f"batch={self.batch} likely_batch={self.likely_batch} safe_batch={self.safe_batch}"
        return f"<Fit {sizes} memory={self.memory} curve={len(self.curve)} sizes>"


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"

"""``estimate`` and ``fit``: a model and one batch in, the memory that its step takes out."""

from __future__ import annotations

import functools
import inspect
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from ..core.recording import TooLong
from ..values.decisions import Change, Outcome
from . import program, search, spelling
from .answer import Estimate, Fit
from .recorder import Recorder, record
from .spelling import Loss, MakeOptimizer

__all__ = ["Mode", "Precision", "estimate", "fit"]

Precision = Literal["fp32", "amp-bf16", "amp-fp16", "bf16", "fp16"] | str | torch.dtype
Mode = Literal["train", "infer"] | str

_AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
_UNLIKE = 3  # exit code of the program where recordings cannot be put together
_STORED = {"bf16": torch.bfloat16, "fp16": torch.float16}


def estimate(
    model: nn.Module,
    args: Sequence[Any] | Mapping[str, Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    labels: Any = None,
    loss: Loss | str | None = None,
    optimizer: MakeOptimizer | str = torch.optim.AdamW,
    precision: Precision = "fp32",
    mode: Mode = "train",
    gpu: str | None = None,
    steps: int = 2,
    recording: str | os.PathLike[str] | None = None,
) -> Estimate:
    """Estimate the GPU memory of a training step or an inference, without a GPU.

    PyTorch itself runs the step on tensors that have shapes and no memory; what its kernels and its
    caching allocator would take on `gpu` is added by the ``memestimate`` program. The model, its
    parameters and the batch stay as they are.

    Parameters
    ----------
    model : nn.Module
        On any device, the meta device included; it is moved to the pretended GPU and back.
    args, kwargs
        What the model is called with; tensors on any device. One tensor may stand for itself, and a batch as loaders
        give it, a mapping, for `kwargs`, where `forward` has parameters of these names.
    labels
        Second argument of `loss`.
    loss : callable or str, optional
        Called with the model's output, and with `labels` where they are given; ``"cross_entropy"`` and the like
        name PyTorch's own. By default the output
        itself where it is a number, its ``loss`` where it has one (as Hugging Face's models do), cross
        entropy where there are labels, else the output's mean.
    optimizer : callable or str
        Makes the optimizer from the trained parameters: a class, ``functools.partial`` of one, or a text such as
        ``"SGD(momentum=0.9)"``.
    precision : {"fp32", "amp-bf16", "amp-fp16", "bf16", "fp16"}
        Or another word for one of them: ``torch.bfloat16``, ``"float16"``, ``"16-mixed"``.
        ``amp-*`` runs the step under ``torch.autocast``, ``amp-fp16`` with a ``GradScaler``; ``bf16`` and
        ``fp16`` convert the model and the floating point inputs.
    mode : {"train", "infer"}
    gpu : str, optional
        A name that ``memestimate gpus`` lists, or enough of it: ``"4090"``; or a size: ``"24GiB"``. The answer says
        first whether the run fits it. Without one it is recorded for an H200.
    steps : int
        Training steps to run; the first lacks the optimizer's state and the second does not.
    recording : path, optional
        Where to keep the recording; by default it is deleted with the answer.

    Returns
    -------
    Estimate
        Its ``peak`` has bytes; printed, it is the program's answer. Where the step asks for values of tensors, which
        nobody knows here, it is recorded up to four times more with other answers, to see whether they move the peak:
        `Estimate.depends_on_data` names those that do.

    Raises
    ------
    memestimate.ProgramError
        The program refused the recording.
    """
    folder: tempfile.TemporaryDirectory[str] | None = None
    if recording is None:
        folder = tempfile.TemporaryDirectory(prefix="memestimate-")
        recording = Path(folder.name) / f"{type(model).__name__}.mrec"
    run = _Run(model, *_arguments(model, args, kwargs), labels, loss, optimizer, precision, mode, steps)
    device = gpu or "h200"
    with record(recording, gpu=device) as recorder:
        recorder.decisions.again = functools.partial(_again, run, device)
        run(recorder)
    answer = Estimate(recording, flags=("--gpu", gpu) if gpu else ())
    answer._folder = folder
    return answer


def _again(run: _Run, gpu: str, change: Change, seconds: float) -> Outcome:
    """Record a run once more with other answers, and keep nothing but its peak."""
    with tempfile.TemporaryDirectory(prefix="memestimate-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recorder = Recorder(Path(folder) / "again.mrec", gpu=gpu, change=change, seconds=seconds)
        recorder.start()
        try:
            run(recorder)
        except (Exception, TooLong):
            return recorder.decisions.failed(recorder.storages.highest)
        finally:
            recorder.stop(keep=False)
        return Outcome(recorder.storages.highest)


def fit(
    model: nn.Module,
    args: Sequence[Any] | Mapping[str, Any] | torch.Tensor = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    gpu: str,
    labels: Any = None,
    batches: tuple[int, int, int] = (2, 3, 5),
    **settings: Any,
) -> Fit:
    """Find the largest batch that fits a GPU.

    The step is recorded at three sizes of the batch: two say how every tensor grows with it, the third
    checks that. Where they do not (a loop over samples, sizes padded to powers of two), sizes are recorded
    one by one, each twice the one before, then between the last that fits and the first that does not; for
    two minutes at most. The batch is the first dimension of each tensor in `args`, `kwargs` and `labels`
    that agrees in it with the first one.

    Parameters
    ----------
    model, args, kwargs, labels
        As for `estimate`.
    gpu : str
        A name that ``memestimate gpus`` lists.
    batches : tuple of int
        The three sizes that are recorded.
    **settings
        The other arguments of `estimate`.

    Returns
    -------
    Fit
    """
    given = (*_arguments(model, args, kwargs), labels)
    size = next((t.shape[0] for t in tree_leaves(given) if isinstance(t, torch.Tensor) and t.dim() > 0), None)
    if size is None:
        raise ValueError("fit needs a tensor with a batch dimension among the arguments")
    settings = _settings(settings)
    with tempfile.TemporaryDirectory(prefix="memestimate-") as folder:

        def at(batch: int) -> Path:
            resized = tree_map(functools.partial(_resize, size, batch), given)
            path = Path(folder) / f"{type(model).__name__}-{batch}.mrec"
            run = _Run(model, *resized, **settings)
            with record(path, gpu=gpu) as recorder:  # what decides little in a small batch may decide a large one
                run(recorder)
            return path

        files = [str(at(batch)) for batch in batches]
        try:
            return Fit._read(program.ask(["fit", *files, "--gpu", gpu]))
        except program.ProgramError as error:
            if error.returncode != _UNLIKE:
                raise
            return search.largest(at, gpu, str(error).rpartition(".mrec: ")[2])


def _arguments(model: nn.Module, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the model is called with: a mapping is a batch of keyword arguments where `forward` has their names."""
    named = dict(kwargs or {})
    if isinstance(args, torch.Tensor):
        return (args,), named
    if not isinstance(args, Mapping):
        return tuple(args), named
    parameters = inspect.signature(model.forward).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if args and (takes_all or set(args) <= set(parameters)):
        return (), {**args, **named}
    if len(parameters) == 1:  # a model that takes the whole batch
        return (args,), named
    strange = sorted(map(str, set(args) - set(parameters)))
    raise TypeError(f"args is a mapping, and forward() has no {', '.join(strange)}: give args= and kwargs= apart")


def _resize(size: int, batch: int, value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dim() == 0 or value.shape[0] != size:
        return value
    return torch.zeros((1,), dtype=value.dtype, device="cpu").expand(batch, *value.shape[1:]).clone()


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "loss": None,
        "optimizer": torch.optim.AdamW,
        "precision": "fp32",
        "mode": "train",
        "steps": 2,
    }
    unknown = set(given) - set(defaults)
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {min(unknown)!r}")
    return {**defaults, **given}


class _Run:
    """The loop that people write, over one batch."""

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        labels: Any,
        loss: Loss | str | None,
        optimizer: MakeOptimizer | str,
        precision: Precision,
        mode: Mode,
        steps: int,
    ) -> None:
        precision, mode = spelling.precision(precision), spelling.mode(mode)
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is a {type(model).__name__}, not an nn.Module")
        if steps < 1:
            raise ValueError(f"steps is {steps}: at least one is recorded")
        if isinstance(loss, str) and labels is None:
            raise ValueError(f"loss {loss!r} compares with labels: give labels=")
        if mode == "train" and not any(p.requires_grad for p in model.parameters()):
            raise ValueError("no parameter of the model requires a gradient: give mode='infer'")
        self.model, self.args, self.kwargs, self.labels = model, args, kwargs, labels
        self.loss = None if loss is None else spelling.loss(loss)
        self.optimizer = spelling.optimizer(optimizer)
        self.precision, self.mode, self.steps = precision, mode, steps

    def __call__(self, recorder: Recorder) -> None:
        was_training = self.model.training
        try:
            model = self.model.to("cuda", _STORED.get(self.precision))
            args, kwargs, labels = tree_map(self._place, (self.args, self.kwargs, self.labels))
            model.train(self.mode == "train")
            if self.mode == "train":
                self._train(recorder, model, args, kwargs, labels)
            else:
                for _ in range(self.steps):
                    with torch.no_grad(), self._autocast():
                        model(*args, **kwargs)
                    recorder.step()
        finally:
            self.model.train(was_training)

    def _train(self, recorder: Recorder, model: nn.Module, args: Any, kwargs: Any, labels: Any) -> None:
        # As in most training loops, `output` and `loss` keep what they name until the next step has its own.
        optimizer = self.optimizer(p for p in model.parameters() if p.requires_grad)
        scaler = torch.amp.grad_scaler.GradScaler("cuda", enabled=self.precision == "amp-fp16")
        for _ in range(self.steps):
            with self._autocast():
                output = model(*args, **kwargs)
                loss = self._loss(output, labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            recorder.step()

    def _place(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        stored = _STORED.get(self.precision)
        return value.to("cuda", stored if stored and value.is_floating_point() else value.dtype)

    def _autocast(self) -> AbstractContextManager[None]:
        dtype = _AUTOCAST.get(self.precision)
        return nullcontext() if dtype is None else torch.autocast("cuda", dtype=dtype)

    def _loss(self, output: Any, labels: Any) -> torch.Tensor:
        if self.loss is not None:
            return self.loss(output) if labels is None else self.loss(output, labels)
        found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
        if isinstance(found, torch.Tensor):
            return found
        first = next((t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.is_floating_point()), None)
        if first is None:
            raise ValueError("the model's output has no floating point tensor: give loss=")
        if labels is not None:
            if labels.is_floating_point():
                raise ValueError("labels are numbers, not classes, which cross entropy is for: give loss=")
            return nn.functional.cross_entropy(first.flatten(0, -2) if first.dim() == 3 else first, labels.flatten())
        return first if first.dim() == 0 else first.mean()

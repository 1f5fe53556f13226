"""Fine-tuning a Hugging Face model that is known by its configuration alone: no weights, no GPU."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from . import hub, spelling, tuned, tuning
from .answer import Estimate
from .ask import Mode, Precision

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["from_config"]


def from_config(
    config: str | os.PathLike[str] | PretrainedConfig,
    *,
    batch: int = 1,
    seq: int | None = None,
    gpu: str | None = None,
    precision: Precision = "bf16",
    mode: Mode = "train",
    optimizer: spelling.MakeOptimizer | str = torch.optim.AdamW,
    lora: int | Mapping[str, Any] | None = None,
    qlora: int | Mapping[str, Any] | None = None,
    gradient_checkpointing: bool | None = None,
    compile: bool = False,
    attention: str | None = None,
    gpus: int = 1,
    parallel: str | None = None,
    steps: int = 2,
    recording: str | os.PathLike[str] | None = None,
) -> Estimate:
    """Estimate what training a model of transformers takes, from its configuration.

    The step is that of the Trainer of transformers, with PEFT's adapters where they are asked for. The model is built
    on the meta device, so that 8 billion parameters take no memory here. It is a causal
    language model; a masked one (BERT), a translator (T5), a recognizer of speech (Whisper) or a classifier of
    images (ViT) where the configuration is of such a model.

    Parameters
    ----------
    config : str, path or PretrainedConfig
        A ``config.json``, a folder that has one, a configuration of transformers, or the name of a model on the
        Hugging Face Hub: its configuration comes from the Hub's cache on this machine, from a table of well-known
        ones, or from the Hub.
    batch : int
        Sequences or images in a batch.
    seq : int, optional
        Tokens in a sequence; of labels, where speech comes in. By default 2048, or as many as the model takes.
    gpu, precision, mode, steps, recording
        As for `estimate`. With ``bf16`` the weights are stored so, as ``dtype=torch.bfloat16`` loads them; PEFT makes
        its adapters ``fp32``.
    optimizer : callable or str
        As for `estimate`, or one of bitsandbytes by its name or the Trainer's: ``"adamw8bit"``,
        ``"paged_adamw_8bit"``.
    lora : int or mapping, optional
        Rank of the adapters that PEFT puts beside the linear layers it knows of this architecture, or the
        arguments of ``peft.LoraConfig``; all other parameters are frozen.
    qlora : int or mapping, optional
        As `lora`, with the linear layers but the last in 4 bits: bitsandbytes' ``Linear4bit``, nf4 with double
        quantization, and ``peft.prepare_model_for_kbit_training``.
    gradient_checkpointing : bool, optional
        As ``model.gradient_checkpointing_enable()``; by default only with `qlora`, as PEFT has it.
    compile : bool
        As ``torch.compile(model)``.
    attention : str, optional
        ``attn_implementation``: ``"sdpa"`` or ``"eager"``; by default what transformers takes.
    gpus : int
        How many GPUs train together. The answer is for one of them, rank 0, and so is `batch`.
    parallel : str, optional
        How they do, as the Trainer has accelerate wrap the model: ``"ddp"``, the default, or ``"fsdp"``, whose second
        version it is. With ``amp-bf16``, which is ``TrainingArguments(bf16=True)``, the shards of what is trained are
        ``fp32``; with ``bf16`` they are as the weights.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        The file is no configuration, names code of its own, or no model to train is known for it.
    ModuleNotFoundError
        transformers, or what `lora`, `qlora` or the optimizer need, is not installed.
    """
    way = tuning.Way(
        batch=batch,
        seq=seq,
        precision=spelling.precision(precision),
        mode=spelling.mode(mode),
        optimizer=optimizer,
        lora=lora,
        qlora=qlora,
        checkpoint=qlora is not None if gradient_checkpointing is None else gradient_checkpointing,
        compile=compile,
        attention=attention,
        gpus=gpus,
        parallel=(parallel or "ddp") if gpus > 1 else parallel or "",
    )
    recordings = tuned.Recordings(hub.read(config), gpu or "h200", steps)
    folder: tempfile.TemporaryDirectory[str] | None = None
    if recording is None:
        folder = tempfile.TemporaryDirectory(prefix="memestimate-")
        recording = Path(folder.name) / f"{way.of(_name(config))}.mrec"
    recordings.make(way, Path(recording))
    answer = Estimate(recording, flags=("--gpu", gpu) if gpu else ())
    answer._folder = folder
    return answer


def _name(config: str | os.PathLike[str] | PretrainedConfig) -> str:
    """What a model is called: the end of its name, or the folder of its configuration."""
    if isinstance(config, (str, os.PathLike)):
        path = Path(config)
        return (path.resolve().parent if path.name == "config.json" else path).name or "model"
    return Path(config.name_or_path or config.model_type).name

"""Fine-tuning a Hugging Face model that is known by its configuration alone: no weights, no GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from . import spelling, tasks
from .answer import Estimate
from .ask import Mode, Precision, estimate

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["build", "from_config"]

_MOST_LAYERS = 10_000  # ten times those of the deepest transformers that anybody has trained


def from_config(
    config: str | os.PathLike[str] | PretrainedConfig,
    *,
    batch: int = 1,
    seq: int | None = None,
    gpu: str = "h200",
    precision: Precision = "bf16",
    mode: Mode = "train",
    optimizer: spelling.MakeOptimizer | str = torch.optim.AdamW,
    lora: int | Mapping[str, Any] | None = None,
    gradient_checkpointing: bool = False,
    attention: str | None = None,
    steps: int = 2,
    recording: str | os.PathLike[str] | None = None,
) -> Estimate:
    """Estimate what training a model of transformers takes, from its configuration.

    The model is built on the meta device, so that 8 billion parameters take no memory here. It is a causal
    language model; a masked one (BERT), a translator (T5), a recognizer of speech (Whisper) or a classifier of
    images (ViT) where the configuration is of such a model.

    Parameters
    ----------
    config : path or PretrainedConfig
        A ``config.json``, a folder that has one, or a configuration of transformers.
    batch : int
        Sequences or images in a batch.
    seq : int, optional
        Tokens in a sequence; of labels, where speech comes in. By default 2048, or as many as the model takes.
    gpu, precision, mode, optimizer, steps, recording
        As for `estimate`. With ``bf16`` the weights are stored so, as ``torch_dtype=torch.bfloat16`` loads them.
    lora : int or mapping, optional
        Rank of the adapters that PEFT puts beside the linear layers it knows of this architecture, or the
        arguments of ``peft.LoraConfig``; all other parameters are frozen.
    gradient_checkpointing : bool
        As ``model.gradient_checkpointing_enable()``.
    attention : str, optional
        ``attn_implementation``: ``"sdpa"`` or ``"eager"``; by default what transformers takes.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        The file is no configuration, names code of its own, or no model to train is known for it.
    ModuleNotFoundError
        transformers, or peft for `lora`, is not installed.
    """
    config = _read(config)
    model = build(config, lora=lora, gradient_checkpointing=gradient_checkpointing, attention=attention)
    try:
        kwargs = tasks.inputs(config, tasks.find(config)[0], batch, seq, spelling.mode(mode) == "train")
    except AttributeError as error:
        raise ValueError(f"{_line(error)}: build the model yourself and call memestimate.estimate") from error
    return estimate(
        model,
        kwargs=kwargs,
        optimizer=optimizer,
        precision=precision,
        mode=mode,
        gpu=gpu,
        steps=steps,
        recording=recording,
    )


def build(
    config: str | os.PathLike[str] | PretrainedConfig,
    *,
    lora: int | Mapping[str, Any] | None = None,
    gradient_checkpointing: bool = False,
    attention: str | None = None,
) -> nn.Module:
    """Build the model on the meta device; arguments as for `from_config`."""
    config = _read(config)
    _bounded(config)
    automatic, task = tasks.find(config)
    options = {} if attention is None else {"attn_implementation": attention}
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0  # which a default configuration lacks: labels are shifted behind it
    try:
        with torch.device("meta"):
            model: nn.Module = automatic.from_config(config, trust_remote_code=False, **options)
    except (ArithmeticError, AttributeError, IndexError, KeyError, MemoryError, RuntimeError, TypeError) as error:
        raise ValueError(f"the configuration makes no model: {_line(error)}") from error
    if gradient_checkpointing:
        model.gradient_checkpointing_enable()  # type: ignore[operator]
        model.config.use_cache = False  # type: ignore[union-attr]
    if lora is not None:
        model = _adapt(model, lora, task)
        if gradient_checkpointing:
            model.enable_input_require_grads()  # type: ignore[operator]
    return model


def _read(config: str | os.PathLike[str] | PretrainedConfig) -> PretrainedConfig:
    from transformers import AutoConfig

    if not isinstance(config, (str, os.PathLike)):
        return config
    path = Path(config)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such configuration; download the model's config.json first")
    try:
        # None would ask at the terminal whether code that the file names may run
        found: PretrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except Exception as error:  # of any kind: a file of JSON may say anything
        raise ValueError(f"{path}: no configuration of a model: {_line(error)}") from error
    return found


def _bounded(config: PretrainedConfig) -> None:
    """Refuse numbers that no model has: a million layers are hours and gigabytes on the meta device as well."""
    for name, least, most in (
        ("num_hidden_layers", 0, _MOST_LAYERS),
        ("hidden_size", 1, None),
        ("num_attention_heads", 1, None),
        ("vocab_size", 0, None),
    ):
        value = getattr(config, name, None)
        if isinstance(value, int) and (value < least or (most is not None and value > most)):
            wanted = f"{least} or more" if most is None else f"{least} to {most}"
            raise ValueError(f"{name} of the configuration is {value}, wanted {wanted}")


def _line(error: BaseException) -> str:
    """Return what an error says, as one line of a sensible length."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def _adapt(model: nn.Module, lora: int | Mapping[str, Any], task: str) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    settings: dict[str, Any] = {"task_type": task} if task else {}
    settings.update({"r": lora} if isinstance(lora, int) else lora)
    targets = settings.get("target_modules")
    if isinstance(targets, Sequence) and not isinstance(targets, str):
        settings["target_modules"] = list(targets)
    with torch.device("meta"):
        adapted: nn.Module = get_peft_model(model, LoraConfig(**settings))
    return adapted

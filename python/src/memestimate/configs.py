"""Fine-tuning a Hugging Face model that is known by its configuration alone: no weights, no GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .answer import Estimate
from .ask import MakeOptimizer, Mode, Precision, estimate

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["build", "from_config"]


def from_config(
    config: str | os.PathLike[str] | PretrainedConfig,
    *,
    batch: int = 1,
    seq: int = 2048,
    gpu: str = "h200",
    precision: Precision = "bf16",
    mode: Mode = "train",
    optimizer: MakeOptimizer = torch.optim.AdamW,
    lora: int | Mapping[str, Any] | None = None,
    gradient_checkpointing: bool = False,
    attention: str | None = None,
    steps: int = 2,
    recording: str | os.PathLike[str] | None = None,
) -> Estimate:
    """Estimate what training a causal language model takes, from its configuration.

    The model is built on the meta device, so that 8 billion parameters take no memory here.

    Parameters
    ----------
    config : path or PretrainedConfig
        A ``config.json``, a folder that has one, or a configuration of transformers.
    batch, seq : int
        Sequences in a batch, and tokens in a sequence.
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
    ModuleNotFoundError
        transformers, or peft for `lora`, is not installed.
    """
    model = build(config, lora=lora, gradient_checkpointing=gradient_checkpointing, attention=attention)
    tokens = torch.zeros((batch, seq), dtype=torch.long, device="meta")
    kwargs: dict[str, Any] = {"input_ids": tokens}
    if mode == "train":
        kwargs["labels"] = tokens.clone()
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
    from transformers import AutoConfig, AutoModelForCausalLM

    if isinstance(config, (str, os.PathLike)):
        path = Path(config)
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such configuration; download the model's config.json first")
        config = AutoConfig.from_pretrained(path)
    options = {} if attention is None else {"attn_implementation": attention}
    with torch.device("meta"):
        model: nn.Module = AutoModelForCausalLM.from_config(config, **options)  # type: ignore[no-untyped-call]
    if gradient_checkpointing:
        model.gradient_checkpointing_enable()  # type: ignore[operator]
        model.config.use_cache = False  # type: ignore[union-attr]
    if lora is not None:
        model = _adapt(model, lora)
        if gradient_checkpointing:
            model.enable_input_require_grads()  # type: ignore[operator]
    return model


def _adapt(model: nn.Module, lora: int | Mapping[str, Any]) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    settings: dict[str, Any] = {"task_type": "CAUSAL_LM"}
    settings.update({"r": lora} if isinstance(lora, int) else lora)
    targets = settings.get("target_modules")
    if isinstance(targets, Sequence) and not isinstance(targets, str):
        settings["target_modules"] = list(targets)
    with torch.device("meta"):
        adapted: nn.Module = get_peft_model(model, LoraConfig(**settings))
    return adapted

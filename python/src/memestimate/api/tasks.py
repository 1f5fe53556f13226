"""Which model a configuration of transformers stands for when it is trained, and what such a model is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# transformers' automatic classes, and PEFT's word for the task. Which come first is a matter of what else is known:
# Whisper and BERT have a causal model, too, which is not what people train.
_CAUSAL = ("AutoModelForCausalLM", "CAUSAL_LM")
_ENCODERS = (("AutoModelForMaskedLM", ""), _CAUSAL, ("AutoModelForImageClassification", ""))
_BOTH = (("AutoModelForSpeechSeq2Seq", ""), ("AutoModelForSeq2SeqLM", "SEQ_2_SEQ_LM"))
_NEEDS = {"AutoModelForImageClassification": "image_size", "AutoModelForSpeechSeq2Seq": "num_mel_bins"}
_SEQUENCE = 2048  # tokens, where the model takes as many
_LENGTHS = ("max_target_positions", "max_position_embeddings", "n_positions")


def find(config: PretrainedConfig) -> tuple[Any, str]:
    """The automatic class of a configuration, and PEFT's name of its task, "" where it has none.

    Raises
    ------
    ValueError
        It is none of a language model, a translator, a recognizer of speech or a classifier of images.
    """
    import transformers

    for name, task in _BOTH if config.is_encoder_decoder else _ENCODERS:
        found: Any = getattr(transformers, name)
        if type(config) in found._model_mapping and (name not in _NEEDS or hasattr(config, _NEEDS[name])):
            return found, task
    kind = type(config).__name__
    raise ValueError(f"{kind}: no model to train is known for it; build it yourself and call memestimate.estimate")


def inputs(config: PretrainedConfig, task: Any, batch: int, seq: int | None, train: bool) -> dict[str, torch.Tensor]:
    """What the model is called with, on the meta device: token ids [batch, seq], images or spectra, and labels."""

    def make(*shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device="meta")

    if seq is None:
        most = [getattr(config, name) for name in _LENGTHS if isinstance(getattr(config, name, None), int)]
        seq = min([_SEQUENCE, *most])
    name = task.__name__
    if name == "AutoModelForImageClassification":
        size = config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        found = {"pixel_values": make(batch, config.num_channels, height, width, dtype=torch.float32)}
        labels = make(batch)
    elif name == "AutoModelForSpeechSeq2Seq":
        frames = 2 * config.max_source_positions  # the encoder halves their number
        found = {"input_features": make(batch, config.num_mel_bins, frames, dtype=torch.float32)}
        labels = make(batch, seq)
        if not train:
            found["decoder_input_ids"] = make(batch, seq)
    else:
        found = {"input_ids": make(batch, seq)}
        labels = make(batch, seq)
        if not train and config.is_encoder_decoder:
            found["decoder_input_ids"] = make(batch, seq)
    return found | ({"labels": labels} if train else {})

"""The language models of published runs, from their configurations: no weights are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import transformers
from torch import nn

_Build = Callable[[], nn.Module]


def _causal(config: str, attention: str = "sdpa", **of: Any) -> _Build:
    """A causal language model; `attention` is what transformers 4.5x took for it by default."""

    def build() -> nn.Module:
        made = getattr(transformers, config)(**of)
        model: nn.Module = transformers.AutoModelForCausalLM.from_config(made, attn_implementation=attention)
        return model

    return build


def _t5(**of: int) -> _Build:
    def build() -> nn.Module:
        made = transformers.T5Config(decoder_start_token_id=0, **of)
        made._attn_implementation = "eager"
        return transformers.T5ForConditionalGeneration(made)

    return build


MODELS: dict[str, _Build] = {
    "gpt-neo-125m": _causal(
        "GPTNeoConfig",
        "eager",
        hidden_size=768,
        num_layers=12,
        num_heads=12,
        attention_types=[[["global", "local"], 6]],
    ),
    "distilgpt2": _causal("GPT2Config", n_layer=6),
    "gpt2": _causal("GPT2Config"),
    "cerebras-gpt-111m": _causal(
        "GPT2Config", n_embd=768, n_layer=10, n_head=12, n_inner=3072, n_positions=2048, activation_function="gelu"
    ),
    "opt-125m": _causal("OPTConfig"),
    "opt-350m": _causal(
        "OPTConfig",
        hidden_size=1024,
        ffn_dim=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        word_embed_proj_dim=512,
        do_layer_norm_before=False,
    ),
    "t5-small": _t5(),
    "t5-base": _t5(d_model=768, d_ff=3072, num_layers=12, num_heads=12),
    "qwen3-4b": _causal(
        "Qwen3Config",
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
    ),
    "deepseek-r1-distill-qwen-1.5b": _causal(
        "Qwen2Config",
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        vocab_size=151936,
        tie_word_embeddings=False,
    ),
    "gemma-2-2b-it": _causal(
        "Gemma2Config",
        "eager",
        hidden_size=2304,
        intermediate_size=9216,
        num_hidden_layers=26,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        tie_word_embeddings=True,
    ),
    "llama-3.2-3b": _causal(
        "LlamaConfig",
        hidden_size=3072,
        intermediate_size=8192,
        num_hidden_layers=28,
        num_attention_heads=24,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=128256,
        tie_word_embeddings=True,
    ),
}


def _of(model: str, config: str, attention: str, **of: Any) -> _Build:
    def build() -> nn.Module:
        made = getattr(transformers, config)(**of)
        made._attn_implementation = attention
        net: nn.Module = getattr(transformers, model)(made)
        return net

    return build


_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}

MODELS |= {
    "bert-base-cased": _of("BertForMaskedLM", "BertConfig", "sdpa", vocab_size=28996),
    "bert-large-cased": _of("BertForMaskedLM", "BertConfig", "sdpa", vocab_size=28996, **_LARGE),
    "xlnet-base-cased": _of(
        "XLNetLMHeadModel", "XLNetConfig", "eager", d_model=768, n_layer=12, n_head=12, d_inner=3072
    ),
    "xlnet-large-cased": _of("XLNetLMHeadModel", "XLNetConfig", "eager"),
    "gpt2-large": _causal("GPT2Config", n_embd=1280, n_layer=36, n_head=20),
    "gpt2-xl": _causal("GPT2Config", n_embd=1600, n_layer=48, n_head=25),
    "bert-large-uncased": _of("BertForSequenceClassification", "BertConfig", "eager", vocab_size=30522, **_LARGE),
}

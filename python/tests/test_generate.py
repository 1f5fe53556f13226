"""Text that transformers generates is recorded without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import memestimate
from recording import Recording

LAYERS, HEADS, SIZE, PROMPT, NEW = 2, 2, 16, 24, 5


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_caches_of_generate(tmp_path: Path, cache: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=HEADS,
        vocab_size=300,
    )
    model = transformers.LlamaForCausalLM(config).eval().to(torch.bfloat16)
    path = tmp_path / "generate.mrec"
    with memestimate.record(path), torch.no_grad():
        out = model.to("cuda").generate(
            torch.ones(3, PROMPT, dtype=torch.long, device="cuda"),
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            disable_compile=True,
            cache_implementation=None if cache == "dynamic" else cache,
        )
        assert out.shape == (3, PROMPT + NEW)
    recording = Recording(path)
    sizes = [bytes_ for _, bytes_ in recording.of("alloc")]
    token = 3 * HEADS * SIZE * 2  # bytes of keys or of values of one layer
    if cache == "dynamic":  # one tensor more for every length, the last new token is never read
        for length in range(PROMPT, PROMPT + NEW):
            assert sizes.count(token * length) >= 2 * LAYERS
    else:
        assert sizes.count(token * (PROMPT + NEW - 1)) == 2 * LAYERS
    attention = recording.calls("_scaled_dot_product_cudnn_attention")
    assert len(attention) == LAYERS * NEW

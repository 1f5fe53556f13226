"""What a few layers of a model say of all of them is what is recorded of all."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from memestimate.api import hub, layers
from memestimate.api.tuned import Recordings
from memestimate.api.tuning import Way
from recording import Recording

transformers: Any = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 11,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "mistral": {},
    "gemma2": {"num_hidden_layers": 16},  # whose layers differ by turns
    "bert": {},
    "gpt_oss": {"num_hidden_layers": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
}
WAYS: dict[str, dict[str, Any]] = {
    "qlora, checkpointing": {"qlora": 4, "checkpoint": True},
    "qlora": {"qlora": 4},
    "lora, checkpointing": {"lora": 4, "checkpoint": True},
    "lora": {"lora": 4},
    "checkpointing": {"checkpoint": True},
    "all parameters": {},
}
SEVERAL = {"fsdp": {"gpus": 4, "parallel": "fsdp"}}
FEW = [
    ("llama", "fsdp"),
    ("llama", "qlora, checkpointing"),
    ("llama", "lora"),
    ("gemma2", "all parameters"),
    ("gpt_oss", "all parameters"),  # whose layers have two masks by turns
    ("bert", "checkpointing"),
]
EVERY = [("llama", "fsdp"), *((model, way) for model in MODELS for way in WAYS)]


def config(model: str, **changed: Any) -> Any:
    return transformers.AutoConfig.for_model(model, **{**SMALL, **MODELS[model], **changed})


@pytest.mark.parametrize(("model", "way"), EVERY if os.environ.get("MEMESTIMATE_TESTS") == "every" else FEW)
def test_what_a_few_layers_say_is_what_all_of_them_are(tmp_path: Path, model: str, way: str) -> None:
    pytest.importorskip("peft")
    pytest.importorskip("bitsandbytes")
    recordings = Recordings(config(model), "h200", 2)
    files: list[bytes] = []
    for made in (recordings.extended, recordings.whole):  # from the same line, which stands in both
        path = tmp_path / f"{len(files)}.mrec"
        made(Way(seq=32, **{**WAYS, **SEVERAL}[way]), path)
        files.append(gzip.decompress(path.read_bytes()))
    assert files[0] == files[1]


def test_another_sequence_needs_one_recording(tmp_path: Path) -> None:
    recordings = Recordings(config("llama"), "h200", 2)
    counted: list[int] = []
    record = recordings._record

    def counting(way: Way, path: Path, cut: Any) -> None:
        counted.append(cut[1])
        record(way, path, cut)

    recordings._record = counting  # type: ignore[method-assign]
    recordings.make(Way(seq=200), tmp_path / "short.mrec")  # sizes that nothing else has
    recordings.make(Way(seq=280), tmp_path / "long.mrec")
    assert counted == [3, 5, 3]
    short, long = (Recording(tmp_path / name).peak() for name in ("short.mrec", "long.mrec"))
    assert short < long < 2 * short


class Forked(nn.Module):
    """A model whose last layers are others."""

    def __init__(self, kinds: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8, bias=bool(kind)) for kind in kinds])

    def forward(self, input: Any) -> Any:
        for layer in self.layers:
            input = layer(input)
        return input


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        ([0] * 12, (1, 0)),
        ([1, 1] + [0] * 18, (1, 2)),
        ([0, 1] * 10, (2, 0)),
        ([0] * 11 + [1], None),
        ([0] * 4, None),
    ],
)
def test_how_layers_repeat(kinds: list[int], wanted: tuple[int, int] | None) -> None:
    import torch

    with torch.device("meta"):
        model, given = Forked(kinds), torch.ones(2, 8)
    found = layers.find(model, {"input": given})
    assert (found and (found.period, found.first)) == wanted


def lines(path: Path, *rows: str) -> Path:
    path.write_bytes(gzip.compress("".join(row + "\n" for row in ('{"format":"x"}', *rows)).encode()))
    return path


def layer(i: int, size: int = 4) -> list[str]:
    return [f'["alloc",{i},{size}]', f'["is",{i},"buffer","layers.{i}.b"]']


def test_what_is_no_repetition_is_not_taken_for_one(tmp_path: Path) -> None:
    small = lines(tmp_path / "small", *(row for i in range(3) for row in layer(i)), '["end",6]')
    large = lines(tmp_path / "large", *(row for i in range(5) for row in layer(i)), '["end",10]')
    whole = lines(tmp_path / "whole", *(row for i in range(40) for row in layer(i)), '["end",80]')
    layers.learn(small, large).write(tmp_path / "found", 37)
    assert gzip.decompress((tmp_path / "found").read_bytes()) == gzip.decompress(whole.read_bytes())
    grows = lines(tmp_path / "grows", *(row for i in range(5) for row in layer(i, 4 + max(0, i - 2))), '["end",10]')
    with pytest.raises(layers.Unlike):
        layers.learn(small, grows)
    dead = lines(tmp_path / "dead", '["alloc",0,4]', '["free",0]', '["free",0]', '["end",3]')
    with pytest.raises(layers.Unlike, match="freed and does not live"):
        layers.learn(dead, dead).write(tmp_path / "none", 1)
    assert not (tmp_path / "none").exists()


def test_well_known_models_repeat_their_layers() -> None:
    recordings = Recordings(hub.read("meta-llama/Llama-3.1-8B"), "h200", 2)
    depth = recordings._depth(Way(seq=16))
    assert depth is not None
    assert (depth.layers, depth.few) == (32, (3, 5))

"""Fine-tuning by a configuration: the step, its bytes, and the table of well-known configurations."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import memestimate
from memestimate.api import hub, tuning

pytest.importorskip("peft")
pytest.importorskip("bitsandbytes")
transformers: Any = pytest.importorskip("transformers")

# What an NVIDIA H200 measured for Llama-3.1-8B in bf16, torch 2.11: max_memory_allocated and max_memory_reserved.
MEASURED: list[tuple[dict[str, Any], int, int]] = [
    ({"lora": 16, "seq": 2048, "gradient_checkpointing": True}, 19932956672, 20958937088),
    ({"lora": 16, "batch": 4, "seq": 1024, "gradient_checkpointing": True}, 23654893568, 25549602816),
    ({"lora": 16, "seq": 1024}, 23434938368, 24444403712),
    ({"seq": 2048, "gradient_checkpointing": True}, 80369738752, 81595990016),
    ({"qlora": 16, "seq": 2048, "gradient_checkpointing": True}, 12215512064, 13698596864),
]
LAYERS = 32


def llama(layers: int) -> Any:
    config = hub.read("meta-llama/Llama-3.1-8B")
    config.num_hidden_layers = layers
    return config


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(("way", "allocated", "reserved"), MEASURED)
def test_what_an_h200_measured(way: dict[str, Any], allocated: int, reserved: int) -> None:
    if os.environ.get("MEMESTIMATE_TESTS") == "every":
        peak = memestimate.from_config(llama(LAYERS), **way).peak
        assert peak.allocated == allocated
        assert abs(peak.reserved - reserved) <= 2 << 20
        return
    two, four = (memestimate.from_config(llama(layers), **way).peak.allocated for layers in (2, 4))
    assert two + (LAYERS - 2) // 2 * (four - two) == allocated


def test_well_known_configurations_have_the_published_parameters() -> None:
    rows = json.loads(Path(hub.__file__).with_name("known.json").read_text())
    assert len(rows) >= 50
    assert len(hub.known()) == sum(len(row["names"]) for row in rows)
    for row in rows:
        model, _ = tuning.build(hub.read(row["names"][0]), tuning.Way(mode="infer"))
        assert sum(p.numel() for p in model.parameters()) == row["parameters"], row["names"]


@pytest.mark.parametrize(
    "name", ["adamw8bit", "adamw_bnb_8bit", "bnb.optim.PagedAdamW8bit", "lion-8bit", "adamw-fused"]
)
def test_optimizers_of_other_libraries(name: str) -> None:
    made = tuning.tuned_optimizer(name)([torch.nn.Parameter(torch.zeros(2))])
    assert "lr" in made.param_groups[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lora": 4, "qlora": 4}, "lora and qlora are two ways"),
        ({"batch": 0}, "both are 1 or more"),
        ({"optimizer": "adamw9bit"}, "torch.optim has none of this name"),
        ({"precision": "qlora"}, "qlora is not modelled"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        memestimate.from_config(llama(1), **given)


def test_adapters_of_a_model_that_peft_does_not_know(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    sizes = {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 64, "vocab_size": 128, "pad_token_id": 0}
    config = transformers.Olmo2Config(**sizes, num_attention_heads=2, num_key_value_heads=2)
    chosen = memestimate.from_config(config, lora=4, seq=16)
    named = memestimate.from_config(config, lora={"r": 4, "target_modules": "all-linear"}, seq=16)
    assert chosen.peak == named.peak
    said = "PEFT has no default layers for olmo2: adapters are beside all linear ones but the head"
    assert any(said in note for note in chosen.notes)
    assert not any(said in note for note in named.notes)


def test_linear_layers_of_gpt2_have_four_bits() -> None:
    pytest.importorskip("bitsandbytes")
    config = pytest.importorskip("transformers").GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=128)
    model, _ = tuning.build(config, tuning.Way(qlora=4))
    kinds = [type(module).__name__ for module in model.modules()]
    assert kinds.count("Linear4bit") == 2 * 4
    assert "Conv1D" not in kinds
    weight = model.get_parameter("transformer.h.1.mlp.c_fc.weight")
    assert tuple(weight.shape) == (256, 64)


ROOT = Path(__file__).parents[2]


def test_the_pages_tell_what_was_measured() -> None:
    """The README's answer is for another card, whose kernels take less; test_start.py types its command."""
    page = (ROOT / "docs" / "fine-tuning.md").read_text(encoding="utf-8")
    for _, allocated, reserved in MEASURED:
        assert f"| {allocated:,} | {reserved:,} |" in page
    (shown,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    found = {name: float(size) for name, size in re.findall(r"^(\w+) +([\d.]+) GiB ", shown, re.MULTILINE)}
    assert 0 <= MEASURED[-1][1] / 2**30 - found["allocated"] < 0.07
    assert abs(MEASURED[-1][2] / 2**30 - found["reserved"]) < 0.01


def test_what_a_library_compiles_when_it_is_imported_is_compiled_when_it_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[Any] = []

    def compiles(function: Any, **options: Any) -> Any:
        compiled.append(options)
        return function

    monkeypatch.setattr(torch, "compile", compiles)
    double = tuning._later(dynamic=False)(lambda x: 2 * x)
    assert not compiled
    assert (double(2), double(3)) == (4, 6)
    assert compiled == [{"dynamic": False}]
    tuning._library("json")
    assert torch.compile is compiles


def test_a_hub_that_is_not_there_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hf_hub_download` would try five more times, for half a minute."""
    import huggingface_hub

    asked: list[str] = []

    def gone(url: str, **options: Any) -> Any:
        asked.append(url)
        raise OSError("Name or service not known")

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", gone)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", gone)
    with pytest.raises(FileNotFoundError, match="the Hub has not given it: Name or service not known"):
        hub.read("no/such-model")
    assert len(asked) == 1

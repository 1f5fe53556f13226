"""A configuration on several GPUs takes what a script takes that has accelerate wrap the same model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

import memestimate
from forks import PYTHON
from memestimate.api import tuning

transformers: Any = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytest.importorskip("peft")

SIZES = {
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}

# As the Trainer of transformers 5.17 does it: create_accelerator_and_postprocess and _prepare_for_training.
SCRIPT = """
import sys, torch
from accelerate import Accelerator, DistributedDataParallelKwargs, FullyShardedDataParallelPlugin
from transformers import AutoModelForCausalLM, LlamaConfig

how, mixed, adapters, checkpoint = sys.argv[1], sys.argv[2], sys.argv[3] == "True", sys.argv[4] == "True"
stored = torch.float32 if mixed != "no" else torch.bfloat16
model = AutoModelForCausalLM.from_config(LlamaConfig(use_cache=False, **{sizes}), dtype=stored)
if checkpoint:
    model.gradient_checkpointing_enable()
if adapters:
    import peft

    if checkpoint:
        model.enable_input_require_grads()
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, task_type="CAUSAL_LM"))
if how == "fsdp":
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", reshard_after_forward=True,
        cpu_ram_efficient_loading=False, state_dict_type="FULL_STATE_DICT",
    )
    accelerator = Accelerator(mixed_precision=mixed, fsdp_plugin=plugin)
else:
    unused = DistributedDataParallelKwargs(find_unused_parameters=adapters or not checkpoint)
    accelerator = Accelerator(mixed_precision=mixed, kwargs_handlers=[unused])
    model.to(accelerator.device)
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
model, optimizer = accelerator.prepare(model, optimizer)


def backward(loss):  # which lives as long as that of Trainer.training_step
    accelerator.backward(loss)


for _ in range(2 + (how == "ddp")):
    ids = torch.randint(0, 2, (2, 256), device=accelerator.device)
    backward(model(input_ids=ids, labels=ids).loss)
    optimizer.step()
    optimizer.zero_grad()
"""
# What Trainer took on each of two H200s: tests/stacks/trainer_two_gpus.py. Its data have a copy on the way to the GPU.
LLAMA, QWEN = "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-1.5B"
MEASURED: list[tuple[str, dict[str, Any], int, int]] = [
    (LLAMA, {"lora": 16, "seq": 2048, "parallel": "fsdp"}, 13456729088, 16875782144),
    (LLAMA, {"lora": 16, "seq": 2048, "parallel": "ddp"}, 19960239104, 20711473152),
    (LLAMA, {"seq": 2048, "parallel": "fsdp"}, 40228666368, 48119152640),
    (QWEN, {"batch": 4, "seq": 1024, "precision": "amp-bf16", "parallel": "fsdp"}, 17671438848, 22546481152),
    (QWEN, {"batch": 4, "seq": 1024, "precision": "amp-bf16", "parallel": "ddp"}, 37139747840, 42924507136),
]
FEW = [("fsdp", "bf16", True, True)]
EVERY = [
    (how, precision, adapters, checkpoint)
    for how in ("fsdp", "ddp")
    for precision in ("bf16", "amp-bf16")
    for adapters in (False, True)
    for checkpoint in (False, True)
]


@pytest.mark.parametrize(
    ("how", "precision", "adapters", "checkpoint"), EVERY if os.environ.get("MEMESTIMATE_TESTS") == "every" else FEW
)
def test_a_configuration_takes_what_a_script_takes(
    tmp_path: Path, how: str, precision: str, adapters: bool, checkpoint: bool
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("{sizes}", repr(SIZES)))
    mixed = {"bf16": "no", "amp-bf16": "bf16"}[precision]
    words = ["record", "--quiet", "--world-size", "4", "--output", str(tmp_path / "script.mrec"), str(script)]
    environment = {**os.environ, "PYTHONPATH": str(Path(memestimate.__file__).parents[1])}
    command = [PYTHON, "-m", "memestimate", *words, how, mixed, str(adapters), str(checkpoint)]
    subprocess.run(command, check=True, env=environment)
    answer = memestimate.from_config(
        transformers.LlamaConfig(**SIZES),
        batch=2,
        seq=256,
        precision=precision,
        lora=8 if adapters else None,
        gradient_checkpointing=checkpoint,
        gpus=4,
        parallel=how,
    )
    assert answer.peak == memestimate.Estimate(tmp_path / "script.mrec").peak
    assert ", per GPU of 4" in str(answer)
    assert "WORLD_SIZE" not in os.environ


def test_what_the_program_has_set_up_stays() -> None:
    accelerate = pytest.importorskip("accelerate")
    before = accelerate.Accelerator(cpu=True)
    answer = memestimate.from_config(transformers.LlamaConfig(**SIZES), seq=64, gpus=2, parallel="ddp")
    assert "per GPU of 2" in str(answer)
    after = accelerate.Accelerator(cpu=True)
    assert (after.num_processes, after.device) == (1, before.device)
    assert not torch.distributed.is_initialized()


@pytest.mark.skipif(os.environ.get("MEMESTIMATE_TESTS") != "every", reason="takes half a minute each")
@pytest.mark.parametrize(("config", "way", "allocated", "reserved"), MEASURED)
def test_what_two_h200s_measured(config: str, way: dict[str, Any], allocated: int, reserved: int) -> None:
    peak = memestimate.from_config(config, gpus=2, gradient_checkpointing=True, **way).peak
    assert abs(peak.allocated / allocated - 1) < 5e-5
    assert peak.reserved == reserved
    assert peak.safe > reserved


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpus": 0}, "gpus is 0: want 1 or more"),
        ({"parallel": "fsdp"}, "parallel is fsdp, which takes gpus of 2 or more"),
        ({"gpus": 2, "parallel": "zero3"}, "parallel is 'zero3': want ddp or fsdp"),
        ({"gpus": 2, "parallel": "ddp", "compile": True}, "nothing is compiled"),
        ({"gpus": 2, "parallel": "fsdp", "mode": "infer"}, "of a configuration they train"),
    ],
)
def test_what_several_gpus_do_not_do_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tuning.Way(**given)


def test_what_four_gpus_measured() -> None:
    """Trainer with FSDP, `four_gpus.py trainer_fsdp` in stacks: which clips and logs, too."""
    cases = json.loads((Path(__file__).parent / "stacks" / "truth.json").read_text(encoding="utf-8"))["cases"]
    (measured,) = [c for c in cases if c.get("arguments") == ["trainer_fsdp"] and c["rank"] == 0]
    sizes = {**SIZES, "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 16}
    config = transformers.LlamaConfig(**{**sizes, "num_attention_heads": 16, "num_key_value_heads": 8})
    way = {"batch": 2, "seq": 1024, "precision": "amp-bf16", "optimizer": "adamw-fused"}
    peak = memestimate.from_config(config, gpus=4, parallel="fsdp", **way).peak
    assert peak.allocated == pytest.approx(measured["peak_alloc"], rel=0.001)
    assert peak.reserved == pytest.approx(measured["peak_reserved"], rel=0.003)


def test_weights_of_four_bits_are_sharded() -> None:
    pytest.importorskip("bitsandbytes")
    held = []
    for how in ("ddp", "fsdp"):
        answer = memestimate.from_config(transformers.LlamaConfig(**SIZES), seq=64, qlora=8, gpus=4, parallel=how)
        held.append(answer.peak.by_category["parameter"])
    halves = (
        3 * (256 * 256 * 3 + 3 * 256 * 512) // 2
    )  # bytes of all linear layers in 4 bits; FSDP has a quarter of them
    assert held[0] - held[1] > halves // 2

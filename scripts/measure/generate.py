"""What `model.generate()` takes: measured on a GPU, and recorded without one.

usage: generate.py measure OUT.json [--tiny]      (a machine with one GPU)
       generate.py record FOLDER [CASE ...]       (one recording a case, without a GPU)

Each case is a language model with random weights, made from a configuration, that answers a prompt with a fixed number
of new tokens, greedily. Each is measured in a process of its own, four at a time.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import queue
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch

LLAMA = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
QWEN = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
MISTRAL = {
    "hidden_size": 1024,
    "intermediate_size": 3584,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "sliding_window": 256,
}
# name: the configuration's class, the model's, and what differs from the defaults
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", {}),
    "llama_160m": ("LlamaConfig", "LlamaForCausalLM", {**LLAMA, "vocab_size": 32000}),
    "qwen2_0_5b": ("Qwen2Config", "Qwen2ForCausalLM", QWEN),
    "mistral_window": ("MistralConfig", "MistralForCausalLM", MISTRAL),
    "mistral_full": ("MistralConfig", "MistralForCausalLM", {**MISTRAL, "sliding_window": None}),
}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
LENGTHS = [(8, 128, 64), (4, 512, 512), (32, 128, 512)]  # batch, tokens of the prompt, new ones


def cases() -> list[dict[str, Any]]:
    """Every case, by name."""
    made = []
    for model in MODELS:
        for cache in ("dynamic", "static"):
            for dtype in ("bf16", "fp16"):
                for batch, prompt, new in LENGTHS:
                    if dtype == "fp16" and (model != "llama_160m" or (batch, prompt, new) != LENGTHS[1]):
                        continue
                    name = f"{model}-{cache}-{dtype}-b{batch}-{prompt}+{new}"
                    made.append(
                        {"name": name, "model": model, "cache": cache, "dtype": dtype}
                        | {"batch": batch, "prompt": prompt, "new": new}
                    )
    return made


def build(case: dict[str, Any]) -> torch.nn.Module:
    """The model, on the CPU, in the case's type."""
    import transformers as tr

    config_class, model_class, config = MODELS[case["model"]]
    model = getattr(tr, model_class)(getattr(tr, config_class)(**config)).eval()
    return model.to(TYPES[case["dtype"]])


def answer(case: dict[str, Any]) -> None:
    """Load the model and generate."""
    model = build(case).to("cuda")
    tokens = torch.randint(0, 30000, (case["batch"], case["prompt"])).to("cuda")
    settings: dict[str, Any] = {"do_sample": False, "max_new_tokens": case["new"]}
    settings |= {"pad_token_id": 0, "eos_token_id": None, "disable_compile": True}
    if case["cache"] == "static":
        settings["cache_implementation"] = "static"
    with torch.no_grad():
        out = model.generate(tokens, **settings)
    assert out.shape == (case["batch"], case["prompt"] + case["new"]), out.shape


def measured(case: dict[str, Any], answers: Any) -> None:
    start = time.time()
    try:
        answer(case)
        torch.cuda.synchronize()
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        answers.put({"error": f"{type(error).__name__}: {error}"[:300]})
        return
    stats = torch.cuda.memory_stats()
    answers.put(
        {"allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]}
        | {"requested": stats["requested_bytes.all.peak"], "retries": stats["num_alloc_retries"]}
        | {"seconds": round(time.time() - start, 1)}
    )


def in_process(case: dict[str, Any]) -> dict[str, Any]:
    spawn = mp.get_context("spawn")
    answers = spawn.Queue()
    process = spawn.Process(target=measured, args=(case, answers))
    process.start()
    try:
        got = answers.get(timeout=150)
    except queue.Empty:
        got = {"error": "no answer in time"}
        process.kill()
    process.join()
    return {**case, **got}


def measure(out: str, tiny: bool) -> None:
    import transformers

    made: dict[str, Any] = {"torch": torch.__version__, "transformers": transformers.__version__, "cases": []}
    if torch.cuda.is_available():
        made["gpu"] = torch.cuda.get_device_name()
    with ThreadPoolExecutor(4) as pool:
        for row in pool.map(in_process, cases()[:: 30 if tiny else 1]):
            made["cases"].append(row)
            print(json.dumps(row), flush=True)
            Path(out).write_text(json.dumps(made, indent=1) + "\n")


def record(folder: str, names: list[str]) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "src"))
    import memestimate

    for case in cases():
        path = Path(folder) / f"{case['name']}.mrec"
        if (names and case["name"] not in names) or path.exists():
            continue
        start = time.time()
        with memestimate.record(path, gpu="h200"):
            answer(case)
        print(case["name"], f"{time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(sys.argv[2], "--tiny" in sys.argv)
    else:
        record(sys.argv[2], sys.argv[3:])

"""Does the set of checkpointed blocks that memestimate proposes survive, and one block fewer not?

usage: checkpoint_sets.py MEMESTIMATE OUT.json      (a machine with one GPU)

For each model the device memory is capped half-way between the plain step and the one with every block checkpointed, by
set_per_process_memory_fraction. `memestimate MODEL --fit-checkpoint` names a set of blocks; three steps of training are
run with it, and with one block fewer, each in a process of its own. The first must survive, the second must not.
"""

import json
import multiprocessing as mp
import re
import subprocess
import sys

import torch
from several_gpus import Logits, vision
from torch import nn
from torch.utils.checkpoint import checkpoint


def language(config_class, model_class, **config):
    def build():
        import transformers as tr

        return Logits(getattr(tr, model_class)(getattr(tr, config_class)(**config)))

    return build


IMAGE = lambda b: torch.randn(b, 3, 224, 224)
TOKENS = lambda b: torch.randint(0, 30000, (b, 512))
# name: build, inputs of a batch, batch, the blocks
MODELS = {
    "gpt2": (language("GPT2Config", "GPT2LMHeadModel"), TOKENS, 16, r"m\.transformer\.h\.\d+"),
    "qwen2_0_5b": (
        language(
            *("Qwen2Config", "Qwen2ForCausalLM"),
            **{"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
            **{"num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
        ),
        TOKENS,
        4,
        r"m\.model\.layers\.\d+",
    ),
    "vit_b_16": (vision("vit_b_16"), IMAGE, 64, r"encoder\.layers\.[^.]+"),
    "resnet50": (vision("resnet50"), IMAGE, 128, r"layer\d\.\d+"),
    "convnext_tiny": (vision("convnext_tiny"), IMAGE, 64, r"features\.[1357]\.\d+"),
    "swin_t": (vision("swin_t"), IMAGE, 64, r"features\.[1357]\.\d+"),
}


def proposed(program, model, batch, memory):
    """What memestimate answers: its JSON, of a step on an H200."""
    said = subprocess.run(
        [program, model, "-b", str(batch), "--fit-checkpoint", "--budget", f"{memory}B", "--format", "json"],
        capture_output=True,
        text=True,
    )
    return json.loads(said.stdout)


def survives(answers, name, names, cap):
    """Three steps with these blocks checkpointed, under a cap of the bytes that the allocator may reserve."""
    build, inputs, batch, _ = MODELS[name]
    torch.cuda.set_per_process_memory_fraction(cap / torch.cuda.get_device_properties(0).total_memory)
    try:
        model = build().to("cuda").train()
        for path, block in model.named_modules():
            if path in names:
                forward = block.forward
                block.forward = (
                    lambda f: lambda *args, **kwargs: checkpoint(f, *args, use_reentrant=False, **kwargs)
                )(forward)
        optimizer, x = torch.optim.AdamW(model.parameters()), inputs(batch).to("cuda")
        labels = None
        for _ in range(3):
            logits = model(x).flatten(0, -2)
            if labels is None:
                labels = torch.randint(0, logits.shape[-1], (logits.shape[0],), device="cuda")
            nn.functional.cross_entropy(logits, labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        answers.put({"survives": False, "why": str(error)[:120]})
        return
    stats = torch.cuda.memory_stats()
    answers.put({"survives": True, "reserved": torch.cuda.max_memory_reserved(), "retries": stats["num_alloc_retries"]})


def in_process(*args):
    spawn = mp.get_context("spawn")
    answers = spawn.Queue()
    process = spawn.Process(target=survives, args=(answers, *args))
    process.start()
    answer = answers.get()
    process.join()
    return answer


def main(program, out):
    rows = []
    for name, (_, _, batch, blocks) in MODELS.items():
        ends = proposed(program, name, batch, 1)["fit_checkpoint"]
        memory = (ends["plain_bytes"] + ends["every_block_bytes"]) // 2
        answer = proposed(program, name, batch, memory)
        chosen, context = answer["fit_checkpoint"], answer["context_bytes"]
        assert all(re.fullmatch(blocks, block) for block in chosen["blocks"]), chosen
        row = {"model": name, "batch": batch, "memory": memory, "proposed": chosen}
        row["with"] = in_process(name, chosen["blocks"], memory - context)
        row["one_fewer"] = in_process(name, chosen["blocks"][:-1], memory - context)
        rows.append(row)
        print(name, len(chosen["blocks"]), "of", chosen["of_blocks"], row["with"], row["one_fewer"], flush=True)
        with open(out, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": rows}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])

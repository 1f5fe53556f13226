"""Does a step survive under a cap with a set of blocks checkpointed, and with one block fewer?

usage: checkpoint_sets.py SETS.json OUT.json      (a machine with one GPU)

SETS.json has by case the model, the cap in bytes and the blocks: the file that is written may be read again. Steps of
training are run under the cap, by set_per_process_memory_fraction, with the set and with one block fewer, each in a
process of its own.
"""

import json
import multiprocessing as mp
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

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
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            vocab_size=151936,
            tie_word_embeddings=True,
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


STEPS = 20


def survives(answers, name, names, cap):
    """Steps with these blocks checkpointed, under a cap of the bytes that the allocator may reserve."""
    build, inputs, batch, _ = MODELS[name]
    torch.cuda.set_per_process_memory_fraction(cap / torch.cuda.get_device_properties(0).total_memory)
    try:
        model = build().to("cuda").train()
        for path, block in model.named_modules():
            if path in names:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
        optimizer, x = torch.optim.AdamW(model.parameters()), inputs(batch).to("cuda")
        labels, retries = None, []
        for _ in range(STEPS):
            logits = model(x).flatten(0, -2)
            if labels is None:
                labels = torch.randint(0, logits.shape[-1], (logits.shape[0],), device="cuda")
            nn.functional.cross_entropy(logits, labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            retries.append(torch.cuda.memory_stats()["num_alloc_retries"])
        torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        answers.put({"survives": False, "steps": len(retries), "why": str(error)[:120]})
        return
    reserved = torch.cuda.max_memory_reserved()
    answers.put({"survives": True, "reserved": reserved, "retries": retries[-1], "retries_after_step": retries})


def in_process(*args):
    spawn = mp.get_context("spawn")
    answers = spawn.Queue()
    process = spawn.Process(target=survives, args=(answers, *args))
    process.start()
    answer = answers.get(timeout=120)
    process.join()
    return answer


def measure(sets, out):
    with open(sets) as file:
        all_sets = json.load(file)
    with ThreadPoolExecutor(4) as at_once:  # each under a cap of its own
        for row in all_sets["cases"]:
            name, blocks, cap = row["model"], row["run"], row["memory"] - row["context"]
            row["with"] = at_once.submit(in_process, name, blocks, cap)
            if blocks:
                row["one_fewer"] = at_once.submit(in_process, name, blocks[:-1], cap)
        for row in all_sets["cases"]:
            for run in {"with", "one_fewer"} & row.keys():
                row[run] = row[run].result()
            print(row["model"], len(row["run"]), row["with"], row.get("one_fewer"), flush=True)
    with open(out, "w") as file:
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, **all_sets}, file)


if __name__ == "__main__":
    measure(*sys.argv[1:])

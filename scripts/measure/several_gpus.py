"""Measure training steps on two GPUs (DDP, ZeRO-1, FSDP2).

usage: several_gpus.py OUT.json [SECONDS]

Every case runs three steps of AdamW in processes of its own and writes, for each rank, the memory
after each phase and the most within it, in bytes. What is left when SECONDS are over is named.
"""

import json
import os
import re
import subprocess
import sys
import time
import traceback
import warnings

import torch
import torch.multiprocessing as mp
from torch import nn

warnings.filterwarnings("ignore")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def vision(name):
    def build():
        import torchvision.models as tv

        return getattr(tv, name)(weights=None)

    return build


class Logits(nn.Module):
    """A causal language model reduced to ids -> logits."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, ids):
        return self.m(ids, use_cache=False).logits


def gpt2():
    import transformers as tr

    return Logits(tr.GPT2LMHeadModel(tr.GPT2Config()))


def llama():
    import transformers as tr

    config = tr.LlamaConfig(
        hidden_size=1000, intermediate_size=2730, num_hidden_layers=8, num_attention_heads=8, vocab_size=32001
    )
    return Logits(tr.LlamaForCausalLM(config))


def uneven():
    """Dimensions that no number of ranks divides."""
    sizes = (1021, 4093, 2039, 4093, 1021)
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.GELU())]
    return nn.Sequential(*layers, nn.Linear(1021, 997))


IMAGE = lambda b, s=224: torch.randn(b, 3, s, s)
TOKENS = lambda b, n=512: torch.randint(0, 30000, (b, n))
# name: build, inputs of a batch, batch of a rank, the modules that are sharded one by one
MODELS = {
    "resnet50": (vision("resnet50"), IMAGE, 32, r"layer\d\.\d+"),
    "resnet101": (vision("resnet101"), IMAGE, 32, r"layer\d\.\d+"),
    "convnext_small": (vision("convnext_small"), IMAGE, 16, r"features\.[1357]\.\d+"),
    "vit_b_32": (vision("vit_b_32"), IMAGE, 64, r"encoder\.layers\.[^.]+"),
    "swin_s": (vision("swin_s"), IMAGE, 16, r"features\.[1357]\.\d+"),
    "mobilenet_v3_large": (vision("mobilenet_v3_large"), IMAGE, 64, r"features\.\d+"),
    "efficientnet_b2": (vision("efficientnet_b2"), IMAGE, 16, r"features\.[1-7]\.\d+"),
    "densenet169": (vision("densenet169"), IMAGE, 16, r"features\.denseblock\d"),
    "regnet_y_3_2gf": (vision("regnet_y_3_2gf"), IMAGE, 32, r"trunk_output\.block\d"),
    "gpt2": (gpt2, TOKENS, 4, r"m\.transformer\.h\.\d+"),
    "llama_1000": (llama, TOKENS, 4, r"m\.model\.layers\.\d+"),
    "uneven": (uneven, lambda b: torch.randn(b, 1021), 256, r"[0246]"),
}
DDP, ZERO1, FSDP2 = "ddp", "zero1", "fsdp2"
TWO = [
    ("resnet50", {"par": DDP, "bucket_cap_mb": 5}),
    ("resnet50", {"par": DDP, "bucket_cap_mb": 100}),
    ("resnet50", {"par": DDP, "view": True}),
    ("resnet50", {"par": DDP, "static_graph": True}),
    ("gpt2", {"par": DDP, "bucket_cap_mb": 50, "view": True}),
    ("gpt2", {"par": DDP, "static_graph": True, "view": True}),
    ("vit_b_32", {"par": DDP, "find_unused": True}),
    ("uneven", {"par": DDP, "bucket_cap_mb": 10}),
    ("resnet50", {"par": FSDP2}),
    ("resnet101", {"par": FSDP2, "mp": "bf16", "reduce": "fp32"}),
    ("convnext_small", {"par": FSDP2, "root": False}),
    ("vit_b_32", {"par": FSDP2, "root": False}),
    ("gpt2", {"par": FSDP2, "root": False}),
    ("gpt2", {"par": FSDP2, "blocks": False}),
    ("gpt2", {"par": FSDP2, "mp": "bf16"}),
    ("uneven", {"par": FSDP2}),
    ("uneven", {"par": FSDP2, "mp": "bf16", "reduce": "fp32"}),
    ("llama_1000", {"par": FSDP2, "mp": "bf16", "reduce": "fp32"}),
    ("llama_1000", {"par": FSDP2, "reshard": False}),
    ("swin_s", {"par": FSDP2, "mp": "bf16", "reduce": "fp32"}),
    ("vit_b_32", {"par": ZERO1}),
    ("uneven", {"par": ZERO1, "view": True}),
    ("gpt2", {"par": FSDP2, "offload": True}),
]


def of_process(pid):
    said = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
    ).stdout
    return sum(int(line.split(",")[1]) for line in said.splitlines() if line.split(",")[0].strip() == str(pid))


def steps(model, x, optimizer, amp):
    allocated, peak, reset = (
        torch.cuda.memory_allocated,
        torch.cuda.max_memory_allocated,
        torch.cuda.reset_peak_memory_stats,
    )
    labels, rows = None, []
    for _ in range(3):
        row = {}

        def mark(phase):
            row[phase], row[f"peak_{phase}"] = allocated(), peak()
            reset()

        reset()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            out = model(x)
            mark("fwd")
            logits = out.flatten(0, -2)
            if labels is None:
                labels = torch.randint(0, logits.shape[-1], (logits.shape[0],)).to("cuda")
            loss = nn.functional.cross_entropy(logits, labels)
        mark("loss")
        loss.backward()
        mark("bwd")
        optimizer.step()
        mark("opt")
        optimizer.zero_grad()
        row["end"], row["reserved"] = allocated(), torch.cuda.memory_reserved()
        rows.append(row)
    torch.cuda.synchronize()
    most = max(v for row in rows for k, v in row.items() if k.startswith("peak"))
    return {
        "steps": rows,
        "peak_alloc": most,
        "peak_reserved": torch.cuda.max_memory_reserved(),
        "smi_mib": of_process(os.getpid()),
    }


def shard(model, pattern, case):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    types = {"bf16": torch.bfloat16, "fp32": torch.float32, None: None}
    options = {}
    if case.get("mp"):
        options["mp_policy"] = MixedPrecisionPolicy(types[case["mp"]], types[case.get("reduce")])
    if case.get("offload"):
        options["offload_policy"] = CPUOffloadPolicy()
    if case.get("blocks", True):
        for name, module in model.named_modules():
            if re.fullmatch(pattern, name):
                fully_shard(module, reshard_after_forward=case.get("reshard", True), **options)
    if case.get("root", True):
        fully_shard(model, **options)
    elif case.get("blocks", True):  # parameters outside of blocks stay whole; their gradients are not summed here
        pass


def run(rank, port, name, case, path):
    build, inputs, batch, pattern = MODELS[name]
    answer = {"model": name, "batch": batch, "rank": rank, **case}
    try:
        torch.cuda.set_device(rank)
        torch.manual_seed(0)
        if "par" in case:
            import torch.distributed as dist

            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
            dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
        model = build()
        model = model.train() if case.get("offload") else model.to("cuda").train()
        answer["parameter_bytes"] = sum(p.numel() * p.element_size() for p in model.parameters())
        if case.get("par") in (DDP, ZERO1):
            model = nn.parallel.DistributedDataParallel(
                model,
                device_ids=[rank],
                bucket_cap_mb=case.get("bucket_cap_mb", 25),
                gradient_as_bucket_view=case.get("view", False),
                static_graph=case.get("static_graph", False),
                find_unused_parameters=case.get("find_unused", False),
            )
        if case.get("par") == FSDP2:
            shard(model, pattern, case)
        x = inputs(batch).to("cuda")
        answer["alloc_model"] = torch.cuda.memory_allocated()
        if case.get("par") == ZERO1:
            from torch.distributed.optim import ZeroRedundancyOptimizer

            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4)
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        answer.update(steps(model, x, optimizer, case.get("amp", False)))
    except BaseException as error:
        answer["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        answer["where"] = traceback.format_exc()[-400:]
    with open(f"{path}.{rank}", "w") as file:
        json.dump(answer, file)
    if "par" in case:
        import torch.distributed as dist

        if dist.is_initialized() and "error" not in answer:
            dist.barrier()
            dist.destroy_process_group()
    os._exit(0)


def main():
    out = sys.argv[1]
    end = time.time() + float(sys.argv[2] if len(sys.argv) > 2 else 400)
    cases, width, ranks = TWO, 4, (0, 1)
    todo, live, done, port = list(cases), [], [], 29600
    context = mp.get_context("spawn")
    while todo or live:
        while todo and len(live) < width and time.time() < end:
            port += 1
            name, case = todo.pop(0)
            path = f"/tmp/case-{port}"
            processes = [context.Process(target=run, args=(rank, port, name, case, path)) for rank in ranks]
            for process in processes:
                process.start()
            live.append((processes, path, name, case, time.time()))
        if time.time() >= end:
            for name, case in todo:
                print("left out:", name, case)
            todo = []
        time.sleep(0.2)
        still = []
        for processes, path, name, case, since in live:
            if any(p.is_alive() for p in processes) and time.time() - since < 200 and time.time() < end + 20:
                still.append((processes, path, name, case, since))
                continue
            for rank, process in zip(ranks, processes):
                process.kill()
                found = os.path.exists(f"{path}.{rank}")
                done.append(
                    json.load(open(f"{path}.{rank}"))
                    if found
                    else {"model": name, "rank": rank, "error": "no answer", **case}
                )
        live = still
        with open(out, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cases": done}, file, indent=1)
    bad = [answer for answer in done if "error" in answer]
    print("measured", len(done) - len(bad), "failed", len(bad))
    for answer in bad:
        print({k: v for k, v in answer.items() if k != "where"}, answer.get("where", "")[-200:])


if __name__ == "__main__":
    main()

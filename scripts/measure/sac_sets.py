"""Which blocks does PyTorch's own tool checkpoint under the same cap, and do they survive there?

usage: sac_sets.py SETS.json OUT.json      (a machine with one GPU; pulp 2.9.0 and pwlf 2.7.0 beside PyTorch)

SETS.json is what checkpoint_sets.py proposes or has measured. torch.distributed._tools.sac_ilp answers for the same
models, batches, caps and blocks: its trackers see one step on fake tensors, its integer program says which blocks to
checkpoint, and how much of each. It knows parameters, gradients and activations; what AdamW keeps is taken off the cap
before it is asked. Each block that it names is checkpointed whole, which keeps no more than the part that it asks for,
and three steps are run under the cap. `again` is what is computed twice, as a share of the step's FLOPs, counted by
torch.utils.flop_counter on one real step.
"""

import json
import re
import subprocess
import sys
import time
from functools import partial

import torch
from checkpoint_sets import MODELS, in_process
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.ilp_utils import aggregate_stats, parse_module_info
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed._tools.runtime_estimator import RuntimeEstimator
from torch.distributed._tools.sac_estimator import SACEstimator
from torch.distributed._tools.sac_ilp import sac_milp
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

COST = "operator-level-cost-model"


def loss_of(model, x):
    """Cross entropy of random labels."""
    logits = model(x).flatten(0, -2)
    return nn.functional.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long, device="cuda"))


def asked(name, cap):
    """What sac_milp answers for a cap in bytes: the blocks with what is discarded of each, and its peak with AdamW."""
    build, inputs, batch, blocks = MODELS[name]
    with FakeTensorMode():

        def fresh():
            with torch.device("cuda"):
                model, x = build().train(), inputs(batch).cuda()
            return model, x, torch.optim.AdamW(model.parameters())

        def step(model, x, optimizer):
            loss_of(model, x).backward()
            optimizer.step()
            optimizer.zero_grad()

        runtime, memory, tradeoff = RuntimeEstimator(), MemTracker(), SACEstimator()
        model, x, optimizer = fresh()
        memory.track_external(model, optimizer, x)
        with memory:
            step(model, x, optimizer)
            memory.reset_mod_stats()
            step(model, x, optimizer)
        other, x, _ = fresh()
        with runtime(estimate_mode_type=COST):
            loss_of(other, x).backward()
        other, x, _ = fresh()
        with tradeoff(estimate_mode_type=COST):
            loss_of(other, x)
        graph = parse_module_info(aggregate_stats(model, memory, runtime, tradeoff, torch.device("cuda:0")))
        states = 2 * sum(p.numel() * p.element_size() for p in model.parameters())
    # A module's name begins with that of the model's class.
    units = [node["fqn"] for node in graph.nodes if re.fullmatch(blocks, node["fqn"].partition(".")[2])]
    decisions, again_ms, peak = sac_milp(graph, memory_budget=(cap - states) / 2**30, ac_units=units)
    chosen = {fqn.partition(".")[2]: part for fqn, part in decisions.items()}
    return {
        "blocks": chosen,
        "of_blocks": len(units),
        "again_ms": again_ms,
        "peak_bytes": peak + states if peak >= 0 else -1,
    }


def flops(name, chosen):
    """The FLOPs of one real step with these blocks checkpointed."""
    build, inputs, batch, _ = MODELS[name]
    model, x = build().cuda().train(), inputs(batch).cuda()
    for path, block in model.named_modules():
        if path in chosen:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    with FlopCounterMode(display=False) as counter:
        loss_of(model, x).backward()
    return counter.get_total_flops()


def main(sets, out):
    """Ask and measure each case of SETS.json."""
    with open(sets) as file:
        cases = json.load(file)["cases"]
    rows = []
    for case in cases:
        name, cap = case["model"], case["memory"] - case["context"]
        row = {"model": name, "batch": case["batch"], "memory": case["memory"], "context": case["context"]}
        began = time.perf_counter()
        # A process of its own: an error inside autograd's threads ends it.
        answer = subprocess.run(
            [sys.executable, __file__, "ask", name, str(cap)], capture_output=True, text=True, check=False
        )
        if answer.returncode:
            row["failed"] = answer.stderr[-300:]
            print(name, answer.stderr[-2000:], flush=True)
            rows.append(row)
            continue
        row["sac_ilp"] = said = json.loads(answer.stdout.splitlines()[-1])
        row["seconds"] = time.perf_counter() - began
        plain = flops(name, ())
        row["again"] = flops(name, said["blocks"]) / plain - 1
        row["again_proposed"] = flops(name, case["proposed"]["blocks"]) / plain - 1
        torch.cuda.empty_cache()
        row["survived"] = in_process(name, list(said["blocks"]), cap)
        rows.append(row)
        print(
            name,
            len(said["blocks"]),
            "of",
            said["of_blocks"],
            {k: row[k] for k in row if k.startswith("again")},
            flush=True,
        )
        print(row["survived"], said, flush=True)
    with open(out, "w") as file:
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": rows}, file, indent=1)


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        print(json.dumps(asked(sys.argv[2], int(sys.argv[3]))))
    else:
        main(*sys.argv[1:])

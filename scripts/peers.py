#!/usr/bin/env python3
"""Time memestimate beside PyTorch's MemTracker: python peers.py ./memestimate

Both answer for the same training step (fp32, SGD with momentum), each in a process of its own
from its start. MemTracker runs the model's code under FakeTensorMode, as its documentation shows;
it needs a GPU, torch, torchvision and transformers.
"""
import json
import subprocess
import sys
import time

CASES = {"vgg16": 32, "resnet50": 64, "swin_t": 32, "bert_base": 32, "qwen2_0_5b": 4}
ROUNDS = 3


def build(name):
    """The model, its input and the number of classes."""
    import torch
    if name == "bert_base":
        from transformers import BertConfig, BertForMaskedLM
        return BertForMaskedLM(BertConfig()), lambda b: torch.randint(0, 30522, (b, 128)), 30522
    if name == "qwen2_0_5b":
        from transformers import Qwen2Config, Qwen2ForCausalLM
        config = Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                             num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True,
                             max_position_embeddings=2048)
        return Qwen2ForCausalLM(config), lambda b: torch.randint(0, 151936, (b, 512)), 151936
    import torchvision
    return getattr(torchvision.models, name)(weights=None), lambda b: torch.randn(b, 3, 224, 224), 1000


def tracked(name, batch):
    """MemTracker's peak over two steps, in bytes, and the seconds it took without imports."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
    torch.cuda.init()
    begin = time.time()
    with FakeTensorMode():
        with torch.device("cuda"):
            model, inputs, classes = build(name)
        x = inputs(batch).to("cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, x)
        with tracker:
            for first in (True, False):
                out = model(x)
                logits = getattr(out, "logits", out).reshape(-1, classes)
                labels = torch.zeros(logits.shape[0], dtype=torch.long, device="cuda")
                torch.nn.functional.cross_entropy(logits, labels).backward()
                optimizer.step()
                optimizer.zero_grad()
                if first:
                    tracker.reset_mod_stats()
        peak = tracker.get_tracker_snapshot("peak")
    return next(v["Total"] for k, v in peak.items() if "cuda" in str(k)), time.time() - begin


def best(command):
    """The best wall time of some runs, and the last one's output."""
    times = []
    for _ in range(ROUNDS):
        begin = time.time()
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        times.append(time.time() - begin)
    return min(times), out


def main():
    if sys.argv[1] == "--tracked":
        print(json.dumps(tracked(sys.argv[2], int(sys.argv[3]))))
        return
    print("| model | memestimate | MemTracker | without imports | ratio |")
    print("|---|---:|---:|---:|---:|")
    for name, batch in CASES.items():
        ours, _ = best([sys.argv[1], name, "--batch", str(batch), "--optimizer", "sgdm"])
        theirs, out = best([sys.executable, __file__, "--tracked", name, str(batch)])
        inner = json.loads(out.splitlines()[-1])[1]
        print(f"| `{name} --batch {batch}` | {ours * 1e3:.0f} ms | {theirs:.1f} s | {inner:.2f} s "
              f"| {theirs / ours:.0f} (without imports {inner / ours:.0f}) |", flush=True)


main()

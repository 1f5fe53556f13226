"""Long sequences on one GPU: Qwen3 in bf16, saved activations on the CPU, memory printed as it goes; evaluation and generation behind."""
import argparse
import json

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=1024)
parser.add_argument("--layers", type=int, default=14)
parser.add_argument("--seq", type=int, default=8192)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--vocab", type=int, default=32000)
args = parser.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def report(what):
    if device.type == "cuda":
        print(f"{what}: {torch.cuda.memory_allocated() / 2**20:.0f} MiB now, {torch.cuda.max_memory_allocated() / 2**20:.0f} at most, {torch.cuda.memory_reserved() / 2**20:.0f} reserved")


model = Qwen3ForCausalLM(Qwen3Config(
    vocab_size=args.vocab, hidden_size=args.hidden, intermediate_size=3 * args.hidden, num_hidden_layers=args.layers, num_attention_heads=16,
    num_key_value_heads=8, head_dim=64, max_position_embeddings=args.seq, attn_implementation="sdpa",
)).to(device, dtype=torch.bfloat16)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-3)
report("model")
model.train()
for step in range(args.steps):
    ids = torch.randint(0, args.vocab, (1, args.seq), device=device)
    with torch.autograd.graph.save_on_cpu(pin_memory=device.type == "cuda"):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    report(f"forward {step}")
    loss.backward()
    report(f"backward {step}")
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"loss {loss.item():.3f}")
model.eval()
with torch.no_grad():
    for _ in range(2):
        ids = torch.randint(0, args.vocab, (2, args.seq // 2), device=device)
        print("held out", model(input_ids=ids, labels=ids).loss.item())
    report("evaluation")
    out = model.generate(ids[:, :512], max_new_tokens=24, do_sample=True, top_k=50, pad_token_id=0)
report("generation")
print(tuple(out.shape))

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

"""Pretraining a small Mamba-2 from transformers without its CUDA kernels: bf16 autocast, cosine schedule, clipping, perplexity on held-out tokens."""
import argparse
import json

import torch
from transformers import Mamba2Config, Mamba2ForCausalLM, get_cosine_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--seq", type=int, default=1024)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = Mamba2ForCausalLM(Mamba2Config(
    vocab_size=32000, hidden_size=args.hidden, num_hidden_layers=args.layers, state_size=64, head_dim=64, num_heads=2 * args.hidden // 64,
    n_groups=1, chunk_size=64, use_cache=False, tie_word_embeddings=True,
)).to(device)
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=6e-4, betas=(0.9, 0.95))
schedule = get_cosine_schedule_with_warmup(optimizer, 2, args.steps)
tokens = torch.randint(0, 32000, (100_000 + args.seq,))


def batch():
    at = torch.randint(0, len(tokens) - args.seq, (args.batch,))
    return torch.stack([tokens[i : i + args.seq] for i in at]).to(device)


model.train()
for step in range(args.steps):
    ids = batch()
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"{step}: loss {loss.item():.3f}, norm {norm.item():.2f}")
model.eval()
with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
    print("perplexity", torch.stack([model(input_ids=(x := batch()), labels=x).loss for _ in range(2)]).mean().exp().item())

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

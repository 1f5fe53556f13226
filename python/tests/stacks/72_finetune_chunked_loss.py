"""Full fine-tuning on one device in torchtune's way: bf16 weights, checkpointed blocks, chunked cross entropy, the optimizer's step within backward."""
import argparse
import json
import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl, apply_activation_checkpointing, checkpoint_wrapper,
)

parser = argparse.ArgumentParser()
parser.add_argument("--dim", type=int, default=2048)
parser.add_argument("--layers", type=int, default=16)
parser.add_argument("--vocab", type=int, default=128256)
parser.add_argument("--seq", type=int, default=2048)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(1234)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        x32 = x.float()
        normed = (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x)
        return normed * self.scale


class RotaryPositionalEmbeddings(nn.Module):
    def __init__(self, dim, max_seq_len, base=500_000):
        super().__init__()
        theta = 1.0 / (base ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
        idx_theta = torch.einsum("i, j -> ij", torch.arange(max_seq_len, dtype=theta.dtype), theta).float()
        self.register_buffer("cache", torch.stack([torch.cos(idx_theta), torch.sin(idx_theta)], dim=-1), persistent=False)

    def forward(self, x):
        rope = self.cache[: x.size(1)]
        xshaped = x.float().reshape(*x.shape[:-1], -1, 2)
        rope = rope.view(-1, xshaped.size(1), 1, xshaped.size(3), 2)
        out = torch.stack([
            xshaped[..., 0] * rope[..., 0] - xshaped[..., 1] * rope[..., 1],
            xshaped[..., 1] * rope[..., 0] + xshaped[..., 0] * rope[..., 1],
        ], -1)
        return out.flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads, rope):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.rope = heads, kv_heads, dim // heads, rope
        self.q_proj = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.output_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        q = self.rope(self.q_proj(x).view(b, s, self.heads, self.head_dim)).transpose(1, 2)
        k = self.rope(self.k_proj(x).view(b, s, self.kv_heads, self.head_dim)).transpose(1, 2)
        v = self.v_proj(x).view(b, s, self.kv_heads, self.head_dim).transpose(1, 2)
        per = self.heads // self.kv_heads
        k = k.unsqueeze(2).expand(-1, -1, per, -1, -1).flatten(1, 2)
        v = v.unsqueeze(2).expand(-1, -1, per, -1, -1).flatten(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output_proj(y.transpose(1, 2).contiguous().view(b, s, -1))


class Layer(nn.Module):
    def __init__(self, dim, heads, kv_heads, rope):
        super().__init__()
        self.sa_norm, self.attn, self.mlp_norm = RMSNorm(dim), Attention(dim, heads, kv_heads, rope), RMSNorm(dim)
        self.w1, self.w2, self.w3 = (nn.Linear(dim, 4 * dim, bias=False), nn.Linear(4 * dim, dim, bias=False), nn.Linear(dim, 4 * dim, bias=False))

    def forward(self, x):
        x = x + self.attn(self.sa_norm(x))
        h = self.mlp_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Decoder(nn.Module):
    def __init__(self, num_output_chunks=8):
        super().__init__()
        rope = RotaryPositionalEmbeddings(args.dim // 16, args.seq)
        self.tok_embeddings = nn.Embedding(args.vocab, args.dim)
        self.layers = nn.ModuleList(Layer(args.dim, 16, 4, rope) for _ in range(args.layers))
        self.norm = RMSNorm(args.dim)
        self.num_output_chunks = num_output_chunks

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        h = self.norm(h)
        return [F.linear(chunk, self.tok_embeddings.weight) for chunk in h.chunk(self.num_output_chunks, dim=1)]


class CEWithChunkedOutputLoss(nn.Module):
    def __init__(self, num_output_chunks=8, ignore_index=-100):
        super().__init__()
        self.num_output_chunks, self.ignore_index = num_output_chunks, ignore_index

    def forward(self, logits, labels):
        total = (labels != self.ignore_index).sum()
        labels = [c.reshape(-1) for c in labels.chunk(self.num_output_chunks, dim=1)]
        logits = [c.reshape(-1, c.size(-1)) for c in logits]
        loss = 0.0
        for one, label in zip(logits, labels):
            loss += F.cross_entropy(one.float(), label, ignore_index=self.ignore_index, reduction="sum")
        return loss / total


torch.set_default_dtype(torch.bfloat16)
with device:
    model = Decoder()
torch.set_default_dtype(torch.float32)
apply_activation_checkpointing(
    model, checkpoint_wrapper_fn=partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT), check_fn=lambda m: isinstance(m, Layer)
)
loss_fn = CEWithChunkedOutputLoss()
optim_dict = {p: torch.optim.AdamW([p], lr=2e-5, fused=device.type == "cuda") for p in model.parameters()}


def optimizer_step(param):
    optim_dict[param].step()
    optim_dict[param].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(optimizer_step)
print(f"{sum(p.numel() for p in model.parameters()) / 1e9:.2f}B parameters")

for step in range(args.steps):
    tokens = torch.randint(0, args.vocab, (args.batch, args.seq + 1))
    tokens, labels = tokens[:, :-1].to(device), tokens[:, 1:].contiguous()
    labels[:, : args.seq // 8] = -100
    labels = labels.to(device)
    logits = model(tokens)
    loss = loss_fn(logits, labels)
    del logits
    loss.backward()
    print(f"step {step}: {loss.item():.3f}, perplexity of a uniform guess {math.log(args.vocab):.3f}")

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

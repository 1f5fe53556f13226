"""A mixture of experts (Mixtral's layer) trained with its router loss."""
import sys

import torch
from transformers import MixtralConfig, MixtralForCausalLM

torch.manual_seed(0)
model = MixtralForCausalLM(
    MixtralConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=12, num_key_value_heads=4,
        num_local_experts=8, num_experts_per_tok=2, output_router_logits=True,
    )
).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
if "skewed" in sys.argv:  # every token to the first two experts
    for name, p in model.named_parameters():
        if "gate.weight" in name or "router" in name:
            p.data.zero_()
for _ in range(3):
    ids = torch.randint(0, 32000, (4, 1024), device="cuda")
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

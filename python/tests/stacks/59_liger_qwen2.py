"""Liger's kernels on Qwen2, all parameters, Trainer-free loop."""
import torch
from liger_kernel.transformers import apply_liger_kernel_to_qwen2
from transformers import Qwen2Config, Qwen2ForCausalLM

apply_liger_kernel_to_qwen2()
torch.manual_seed(0)
model = Qwen2ForCausalLM(
    Qwen2Config(vocab_size=64000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4)
).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for _ in range(4):
    ids = torch.randint(0, 64000, (8, 1024), device="cuda")
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

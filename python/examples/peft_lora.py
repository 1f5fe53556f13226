"""LoRA by PEFT, unchanged: python -m memestimate record --gpu rtx-4090 peft_lora.py"""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8, vocab_size=32000
)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=16, target_modules=["q_proj", "v_proj"]))
model.to("cuda")
optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
tokens = torch.randint(0, 32000, (4, 256), device="cuda")
for _ in range(10):
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

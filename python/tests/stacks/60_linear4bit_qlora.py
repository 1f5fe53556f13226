"""QLoRA by hand: a Llama of 1.2B with its linear layers as bitsandbytes' Linear4bit, LoRA, paged AdamW, checkpointing."""
import bitsandbytes as bnb
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32, num_key_value_heads=4)
).to(torch.bfloat16)


def quantize(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name != "lm_head":
            q = bnb.nn.Linear4bit(child.in_features, child.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4", compress_statistics=True)
            q.weight = bnb.nn.Params4bit(child.weight.data, requires_grad=False, quant_type="nf4", compress_statistics=True)
            setattr(module, name, q)
        else:
            quantize(child)


quantize(model)
model.is_loaded_in_4bit = True
model = model.to("cuda")
model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)
model = get_peft_model(model, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
optimizer = bnb.optim.PagedAdamW32bit([p for p in model.parameters() if p.requires_grad], lr=2e-4)
for _ in range(3):
    ids = torch.randint(0, 32000, (2, 2048), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

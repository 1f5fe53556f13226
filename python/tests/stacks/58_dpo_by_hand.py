"""DPO by hand: LoRA on a chat model, the reference is the model without its adapter."""
import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import MistralConfig, MistralForCausalLM

torch.manual_seed(0)
model = MistralForCausalLM(
    MistralConfig(vocab_size=32000, hidden_size=1024, intermediate_size=3584, num_hidden_layers=10, num_attention_heads=16, num_key_value_heads=4, sliding_window=None)
).to("cuda", torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM"))
model.enable_input_require_grads()
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-6, fused=True)


def log_probability(ids):
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(2).sum(1)


for _ in range(3):
    ids = torch.randint(0, 32000, (8, 768), device="cuda")  # four chosen, four rejected
    with torch.no_grad(), model.disable_adapter():
        reference = log_probability(ids)
    policy = log_probability(ids)
    margin = (policy - reference).view(2, 4)
    loss = -F.logsigmoid(0.1 * (margin[0] - margin[1])).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

"""transformers' Trainer on two GPUs: `torchrun --nproc-per-node 2 trainer_two_gpus.py CASE`."""

import os
import sys

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Trainer, TrainingArguments

CASES = {  # size, weights, bf16=True, rank of LoRA, batch, tokens, FSDP
    "qwen_full_amp_fsdp": ("1.5b", torch.float32, True, 0, 4, 1024, True),
    "qwen_full_amp_ddp": ("1.5b", torch.float32, True, 0, 4, 1024, False),
    "llama_lora_fsdp": ("8b", torch.bfloat16, False, 16, 1, 2048, True),
    "llama_full_fsdp": ("8b", torch.bfloat16, False, 0, 1, 2048, True),
    "llama_lora_ddp": ("8b", torch.bfloat16, False, 16, 1, 2048, False),
}
size, dtype, bf16, lora, batch, seq, fsdp = CASES[sys.argv[1]]
if size == "8b":
    config = LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                         num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072,
                         rms_norm_eps=1e-5, use_cache=False)  # fmt: skip
else:
    config = Qwen2Config(vocab_size=151936, hidden_size=1536, intermediate_size=8960, num_hidden_layers=28,
                         num_attention_heads=12, num_key_value_heads=2, max_position_embeddings=131072,
                         tie_word_embeddings=True, use_cache=False)  # fmt: skip
with torch.device("meta"):  # random weights of this size take minutes
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
model.to_empty(device="cpu")
for buffer in model.buffers():
    buffer.zero_()
model.tie_weights()
if lora:
    from peft import LoraConfig, get_peft_model

    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=lora, lora_alpha=32, task_type="CAUSAL_LM"))


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.randint(0, config.vocab_size, (seq,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids.clone()}


args = TrainingArguments(
    output_dir=os.path.join(os.environ.get("TMPDIR", "/tmp"), "trained"), per_device_train_batch_size=batch,
    max_steps=3, optim="adamw_torch", bf16=bf16, gradient_checkpointing=True, logging_strategy="no", save_strategy="no",
    disable_tqdm=True, report_to=[], **({"fsdp": True, "fsdp_config": {"version": 2}} if fsdp else {}),
)  # fmt: skip
Trainer(model=model, args=args, train_dataset=Tokens()).train()

"""LoRA on a small gpt-oss (experts, sinks, sliding windows) by transformers' Trainer with NEFTune, bf16 and checkpointing."""
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GptOssConfig, GptOssForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(42)


class Tokens(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        ids = torch.randint(0, 32000, (1024,), generator=g)
        return {"input_ids": ids, "labels": ids.clone()}


config = GptOssConfig(
    vocab_size=32000, hidden_size=1024, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=16, num_key_value_heads=4,
    head_dim=64, num_local_experts=8, num_experts_per_tok=2, sliding_window=128, max_position_embeddings=4096,
)
model = GptOssForCausalLM(config).to(torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM"))
args = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=4, learning_rate=2e-4,
    bf16=True, gradient_checkpointing=True, neftune_noise_alpha=5, logging_steps=1, save_strategy="no", report_to="none",
)
Trainer(model=model, args=args, train_dataset=Tokens()).train()

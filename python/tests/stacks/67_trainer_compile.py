"""Trainer with torch_compile=True, checkpointing and evaluation, Qwen2-shaped model in bf16."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(1)


class Tokens(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.randint(0, 32000, (1024,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


model = Qwen2ForCausalLM(
    Qwen2Config(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=10, num_attention_heads=16, num_key_value_heads=4, use_cache=False)
)
args = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=4, per_device_train_batch_size=8, bf16=True, torch_compile=True, optim="adamw_torch_fused",
    gradient_checkpointing=True, logging_steps=1, save_strategy="no", report_to="none",
)
Trainer(model=model, args=args, train_dataset=Tokens()).train()

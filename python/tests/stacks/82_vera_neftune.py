"""PEFT's VeRA on a Llama with NEFTune noise, reentrant checkpoints and Adafactor, by transformers' Trainer."""
import tempfile

import torch
from peft import VeraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(42)


class Rows(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, i):
        ids = torch.randint(5, 32000, (1024,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


model = LlamaForCausalLM(
    LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=12, num_attention_heads=32, num_key_value_heads=4)
)
model.enable_input_require_grads()
model = get_peft_model(model, VeraConfig(r=128, target_modules=["q_proj", "o_proj"], task_type="CAUSAL_LM"))
model.print_trainable_parameters()
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=4, bf16=True,
    neftune_noise_alpha=5, gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": True},
    optim="adafactor", learning_rate=1e-3, logging_steps=1, save_strategy="no", report_to="none",
)
Trainer(model=model, args=arguments, train_dataset=Rows()).train()

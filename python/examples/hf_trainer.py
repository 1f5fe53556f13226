"""Hugging Face's Trainer, unchanged: python -m memestimate record --gpu a100-80gb hf_trainer.py"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """The same sentence over and over."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.arange(128), "labels": torch.arange(128)}


arguments = TrainingArguments(
    tempfile.mkdtemp(), max_steps=10, per_device_train_batch_size=4, bf16=True, save_strategy="no", report_to=[]
)
Trainer(GPT2LMHeadModel(GPT2Config(n_layer=2)), arguments, train_dataset=Sentences()).train()

"""Masked language modelling with ModernBERT, schedule-free AdamW and a group of equal lengths, by Trainer."""
import tempfile

import torch
from tokenizers import Tokenizer, models
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForLanguageModeling, ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast, Trainer, TrainingArguments, set_seed,
)

set_seed(3)
names = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, **{f"w{i}": i + 5 for i in range(30000)}}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel(names, unk_token="[UNK]")), pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
    sep_token="[SEP]", mask_token="[MASK]",
)


class Text(Dataset):
    def __len__(self):
        return 24 * 12

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {"input_ids": torch.randint(5, 30005, (512,), generator=g)}


config = ModernBertConfig(
    vocab_size=30005, hidden_size=768, intermediate_size=1152, num_hidden_layers=12, num_attention_heads=12, pad_token_id=0, bos_token_id=2,
    eos_token_id=3, cls_token_id=2, sep_token_id=3, max_position_embeddings=1024, reference_compile=False, attn_implementation="sdpa",
)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=24, max_steps=6, bf16=True, optim="schedule_free_adamw",
    lr_scheduler_type="constant", learning_rate=2e-3, max_grad_norm=1.0, save_strategy="no", report_to="none", logging_steps=3,
    dataloader_num_workers=2,
)
Trainer(
    model=ModernBertForMaskedLM(config), args=arguments, train_dataset=Text(),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3),
).train()

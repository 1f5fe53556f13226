"""Trainer: a classifier of texts with evaluation every two steps, accumulation, label smoothing and checkpoints."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import RobertaConfig, RobertaForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(0)


class Texts(Dataset):
    def __init__(self, n, longest):
        g = torch.Generator().manual_seed(n)
        self.rows = [torch.randint(3, 50000, (int(torch.randint(16, longest, (1,), generator=g)),), generator=g) for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": i % 5}


def collate(rows):
    ids = torch.nn.utils.rnn.pad_sequence([r["input_ids"] for r in rows], batch_first=True, padding_value=1)
    return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": torch.tensor([r["labels"] for r in rows])}


model = RobertaForSequenceClassification(RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, num_labels=5))
args = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=6, per_device_train_batch_size=16, per_device_eval_batch_size=64, bf16=True,
    gradient_accumulation_steps=2, label_smoothing_factor=0.1, eval_strategy="steps", eval_steps=3, save_strategy="steps",
    save_steps=3, logging_steps=1, report_to="none", warmup_steps=2,
)
Trainer(model=model, args=args, train_dataset=Texts(512, 256), eval_dataset=Texts(256, 512), data_collator=collate).train()

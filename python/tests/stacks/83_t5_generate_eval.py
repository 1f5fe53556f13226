"""Seq2SeqTrainer trains T5 for summaries of mixed lengths and generates with beams for its evaluation."""
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    DataCollatorForSeq2Seq, PreTrainedTokenizerFast, Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration, set_seed,
)
from tokenizers import Tokenizer, models

set_seed(7)
raw = Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2, **{f"w{i}": i + 3 for i in range(20000)}}, unk_token="<unk>"))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


class Summaries(Dataset):
    def __init__(self, rows, seed):
        draw = np.random.default_rng(seed)
        self.rows = [
            {"input_ids": draw.integers(3, 20000, draw.integers(300, 512)).tolist(), "labels": draw.integers(3, 20000, draw.integers(20, 64)).tolist()}
            for _ in range(rows)
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return {**row, "attention_mask": [1] * len(row["input_ids"])}


model = T5ForConditionalGeneration(
    T5Config(vocab_size=20003, d_model=768, d_kv=64, d_ff=2048, num_layers=8, num_heads=12, feed_forward_proj="gated-gelu",
             decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, tie_word_embeddings=False)
)


def score(prediction):
    labels = np.where(prediction.label_ids < 0, 0, prediction.label_ids)
    return {"length": float((labels != 0).sum(1).mean())}


arguments = Seq2SeqTrainingArguments(
    output_dir=tempfile.mkdtemp(), per_device_train_batch_size=16, per_device_eval_batch_size=8, num_train_epochs=1, bf16=True,
    optim="adafactor", learning_rate=3e-4, eval_strategy="epoch", predict_with_generate=True, generation_max_length=16,
    generation_num_beams=2, label_smoothing_factor=0.1, save_strategy="no", report_to="none", logging_steps=5,
)
trainer = Seq2SeqTrainer(
    model=model, args=arguments, train_dataset=Summaries(160, 0), eval_dataset=Summaries(16, 1), processing_class=tokenizer,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model), compute_metrics=score,
)
trainer.train()

"""Speech recognition: wav2vec2-conformer with CTC by Trainer, utterances of different lengths, a frozen feature encoder, evaluation behind."""
import argparse
import json
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, Wav2Vec2ConformerConfig, Wav2Vec2ConformerForCTC, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--seconds", type=float, default=8)
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()
set_seed(0)


class Speech(Dataset):
    def __init__(self, n, first=0):
        self.n, self.first = n, first

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i + self.first)
        length = int(16000 * args.seconds * (0.5 + 0.5 * float(torch.rand(1, generator=g))))
        return {"input_values": torch.randn(length, generator=g), "labels": torch.randint(1, 32, (length // 4000 + 3,), generator=g)}


def collate(rows):
    longest, words = max(len(r["input_values"]) for r in rows), max(len(r["labels"]) for r in rows)
    x, mask = torch.zeros(len(rows), longest), torch.zeros(len(rows), longest, dtype=torch.long)
    y = torch.full((len(rows), words), -100)
    for i, r in enumerate(rows):
        x[i, : len(r["input_values"])] = r["input_values"]
        mask[i, : len(r["input_values"])] = 1
        y[i, : len(r["labels"])] = r["labels"]
    return {"input_values": x, "attention_mask": mask, "labels": y}


model = Wav2Vec2ConformerForCTC(Wav2Vec2ConformerConfig(
    vocab_size=32, hidden_size=args.hidden, num_hidden_layers=args.layers, num_attention_heads=12, intermediate_size=4 * args.hidden,
    do_stable_layer_norm=True, feat_extract_norm="layer", conv_bias=True, ctc_loss_reduction="mean", ctc_zero_infinity=True, mask_time_prob=0.05, layerdrop=0.0,
    pad_token_id=0,
))
model.freeze_feature_encoder()
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=args.batch, per_device_eval_batch_size=args.batch, gradient_accumulation_steps=2,
        max_steps=args.steps, warmup_steps=2, learning_rate=3e-4, fp16=torch.cuda.is_available(), logging_steps=1, eval_strategy="steps", eval_steps=args.steps,
        save_strategy="no", report_to="none", use_cpu=not torch.cuda.is_available(),
    ),
    train_dataset=Speech(args.batch * 12), eval_dataset=Speech(args.batch * 2, 10_000), data_collator=collate,
)
trainer.train()
print(trainer.evaluate())

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

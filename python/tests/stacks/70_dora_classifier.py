"""PEFT: DoRA on a RoBERTa-like classifier, trained with a plain loop, dynamic padding and an evaluation each epoch."""
import argparse
import json
import random

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.optim import AdamW
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import RobertaConfig, RobertaForSequenceClassification, get_linear_schedule_with_warmup, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=1024)
parser.add_argument("--layers", type=int, default=24)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--examples", type=int, default=160)
args = parser.parse_args()
set_seed(42)
device = "cuda" if torch.cuda.is_available() else "cpu"
rng = random.Random(1)


def examples(n):
    return [{"input_ids": [0] + [rng.randrange(5, 50000) for _ in range(rng.randint(40, 250))] + [2], "label": rng.randrange(2)} for _ in range(n)]


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.tensor([r["input_ids"] + [1] * (longest - len(r["input_ids"])) for r in rows])
    return {"input_ids": ids, "attention_mask": (ids != 1).long(), "labels": torch.tensor([r["label"] for r in rows])}


train_dataloader = DataLoader(examples(args.examples), shuffle=True, collate_fn=collate, batch_size=args.batch)
eval_dataloader = DataLoader(examples(args.examples // 2), shuffle=False, collate_fn=collate, batch_size=args.batch)
model = RobertaForSequenceClassification(RobertaConfig(
    vocab_size=50265, hidden_size=args.hidden, num_hidden_layers=args.layers, num_attention_heads=16, intermediate_size=4 * args.hidden,
    max_position_embeddings=514, type_vocab_size=1, pad_token_id=1, num_labels=2,
))
model = get_peft_model(model, LoraConfig(
    task_type=TaskType.SEQ_CLS, inference_mode=False, r=8, lora_alpha=16, lora_dropout=0.1, use_dora=True, target_modules=["query", "value"],
))
model.print_trainable_parameters()
optimizer = AdamW(params=model.parameters(), lr=3e-4)
num_epochs = 2
lr_scheduler = get_linear_schedule_with_warmup(
    optimizer=optimizer, num_warmup_steps=0.06 * (len(train_dataloader) * num_epochs), num_training_steps=(len(train_dataloader) * num_epochs),
)
model.to(device)
for epoch in range(num_epochs):
    model.train()
    for step, batch in enumerate(tqdm(train_dataloader)):
        batch = {k: v.to(device) for k, v in batch.items()}
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
    model.eval()
    correct = total = 0
    for step, batch in enumerate(tqdm(eval_dataloader)):
        batch = {k: v.to(device) for k, v in batch.items()}
        with torch.no_grad():
            outputs = model(**batch)
        predictions = outputs.logits.argmax(dim=-1)
        correct += (predictions == batch["labels"]).sum().item()
        total += len(predictions)
    print(f"epoch {epoch}: {correct / total:.3f}")

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

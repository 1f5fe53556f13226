"""GRPO with TRL on a small Qwen2 with LoRA and two reward functions; the tokenizer is made here, as nothing is downloaded."""
import argparse
import json
import random
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=1024)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--completion", type=int, default=96)
args = parser.parse_args()
set_seed(11)


def tokenizer_of_words(n):
    special = ["<pad>", "<unk>", "<eos>"]
    vocab = {w: i for i, w in enumerate(special + [f"tok{i}" for i in range(n - len(special))])}
    raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>", padding_side="left"
    )


def reward_unique(completions, **_):
    return [len(set(c.split())) / max(1, len(c.split())) for c in completions]


def reward_short(completions, **_):
    return [-abs(64 - len(c.split())) / 64 for c in completions]


rng = random.Random(3)
tokenizer = tokenizer_of_words(16000)
prompts = Dataset.from_list(
    [{"prompt": " ".join(f"tok{rng.randrange(15000)}" for _ in range(rng.randint(24, 64)))} for _ in range(64)]
)
model = Qwen2ForCausalLM(Qwen2Config(
    vocab_size=16000, hidden_size=args.hidden, intermediate_size=args.hidden * 11 // 4, num_hidden_layers=args.layers,
    num_attention_heads=16, num_key_value_heads=4, max_position_embeddings=1024, pad_token_id=0, eos_token_id=2, bos_token_id=None,
))
trainer = GRPOTrainer(
    model=model,
    reward_funcs=[reward_unique, reward_short],
    args=GRPOConfig(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=16, num_generations=8, max_completion_length=args.completion,
        max_steps=args.steps, learning_rate=1e-5, beta=0.04, bf16=torch.cuda.is_available(), use_cpu=not torch.cuda.is_available(),
        gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to="none",
    ),
    train_dataset=prompts,
    processing_class=tokenizer,
    peft_config=LoraConfig(r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM"),
)
trainer.train()

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

"""Whisper fine-tuned with Seq2SeqTrainer, gradient checkpointing and fp16."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, WhisperConfig, WhisperForConditionalGeneration, set_seed

set_seed(3)


class Speech(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {"input_features": torch.randn(80, 3000, generator=g), "labels": torch.randint(10, 50000, (48,), generator=g)}


model = WhisperForConditionalGeneration(
    WhisperConfig(d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048)
)
model.config.use_cache = False
args = Seq2SeqTrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=4, per_device_train_batch_size=16, fp16=True, gradient_checkpointing=True,
    learning_rate=1e-5, logging_steps=1, save_strategy="no", report_to="none",
)
Seq2SeqTrainer(model=model, args=args, train_dataset=Speech()).train()

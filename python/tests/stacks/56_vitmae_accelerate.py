"""Masked autoencoder pretraining with Accelerate: accumulate, clip, bf16."""
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTMAEConfig, ViTMAEForPreTraining

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
torch.manual_seed(0)
model = ViTMAEForPreTraining(ViTMAEConfig(num_hidden_layers=8, decoder_num_hidden_layers=4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, betas=(0.9, 0.95))
loader = DataLoader(TensorDataset(torch.randn(256, 3, 224, 224)), batch_size=32)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for (x,) in loader:
    with accelerator.accumulate(model):
        loss = model(pixel_values=x).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
print(float(loss))

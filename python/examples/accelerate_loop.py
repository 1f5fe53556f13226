"""A loop with accelerate, unchanged: python -m memestimate record --gpu a100-80gb accelerate_loop.py"""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(mixed_precision="bf16")
model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
data = torch.utils.data.TensorDataset(torch.randn(256, 1024), torch.randint(0, 1024, (256,)))
loader = torch.utils.data.DataLoader(data, batch_size=64)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _ in range(10):
    for x, labels in loader:
        loss = nn.functional.cross_entropy(model(x), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()

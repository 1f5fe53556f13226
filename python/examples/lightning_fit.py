"""Lightning, unchanged: python -m memestimate record --gpu a100-80gb lightning_fit.py"""

import lightning
import torch
from torch import nn


class Classifier(lightning.LightningModule):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


data = torch.utils.data.TensorDataset(torch.randn(256, 1024), torch.randint(0, 1024, (256,)))
trainer = lightning.Trainer(max_steps=10, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False)
trainer.fit(Classifier(), torch.utils.data.DataLoader(data, batch_size=64))

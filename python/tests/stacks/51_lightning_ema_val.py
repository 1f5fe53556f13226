"""Lightning with validation, weight averaging, clipping and a cosine schedule."""
import copy

import lightning as L
import torch
import torchvision
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, 224, 224, generator=g), i % 100


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torchvision.models.convnext_small(num_classes=100)
        self.average = copy.deepcopy(self.net).requires_grad_(False)
        self.loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def training_step(self, batch, _):
        x, y = batch
        loss = self.loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, *_):
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.net.parameters()), 0.01)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val", self.loss(self.average(x), y))

    def configure_optimizers(self):
        o = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        return [o], [torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)]


trainer = L.Trainer(
    max_epochs=1, limit_train_batches=5, limit_val_batches=3, precision="bf16-mixed", gradient_clip_val=1.0,
    accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
)
trainer.fit(Classifier(), DataLoader(Images(400), 48, shuffle=True), DataLoader(Images(400), 96))

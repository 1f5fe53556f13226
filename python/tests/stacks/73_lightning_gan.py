"""A DCGAN in Lightning with manual optimization, two optimizers, toggling, and a validation with generated samples."""
import argparse
import json

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--batches", type=int, default=6)
args = parser.parse_args()


class Generator(nn.Module):
    def __init__(self, latent, c):
        super().__init__()

        def up(i, o, s=2, p=1):
            return [nn.ConvTranspose2d(i, o, 4, s, p, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]

        self.net = nn.Sequential(
            *up(latent, c * 8, 1, 0), *up(c * 8, c * 4), *up(c * 4, c * 2), *up(c * 2, c), nn.ConvTranspose2d(c, 3, 4, 2, 1, bias=False), nn.Tanh()
        )

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, c):
        super().__init__()

        def down(i, o):
            return [nn.utils.spectral_norm(nn.Conv2d(i, o, 4, 2, 1, bias=False)), nn.LeakyReLU(0.2, inplace=True)]

        self.net = nn.Sequential(*down(3, c), *down(c, c * 2), *down(c * 2, c * 4), *down(c * 4, c * 8), nn.Conv2d(c * 8, 1, 4))

    def forward(self, x):
        return self.net(x).flatten()


class GAN(L.LightningModule):
    def __init__(self, latent_dim=100, lr=2e-4, b1=0.5, b2=0.999):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.generator = Generator(latent_dim, args.width)
        self.discriminator = Discriminator(args.width)
        self.validation_z = torch.randn(64, latent_dim)

    def forward(self, z):
        return self.generator(z)

    def adversarial_loss(self, y_hat, y):
        return F.binary_cross_entropy_with_logits(y_hat, y)

    def training_step(self, batch):
        (imgs,) = batch
        optimizer_g, optimizer_d = self.optimizers()
        z = torch.randn(imgs.shape[0], self.hparams.latent_dim).type_as(imgs)

        self.toggle_optimizer(optimizer_g)
        self.generated_imgs = self(z)
        valid = torch.ones(imgs.size(0)).type_as(imgs)
        g_loss = self.adversarial_loss(self.discriminator(self.generated_imgs), valid)
        self.log("g_loss", g_loss, prog_bar=True)
        self.manual_backward(g_loss)
        optimizer_g.step()
        optimizer_g.zero_grad()
        self.untoggle_optimizer(optimizer_g)

        self.toggle_optimizer(optimizer_d)
        real_loss = self.adversarial_loss(self.discriminator(imgs), valid)
        fake = torch.zeros(imgs.size(0)).type_as(imgs)
        fake_loss = self.adversarial_loss(self.discriminator(self(z).detach()), fake)
        d_loss = (real_loss + fake_loss) / 2
        self.log("d_loss", d_loss, prog_bar=True)
        self.manual_backward(d_loss)
        optimizer_d.step()
        optimizer_d.zero_grad()
        self.untoggle_optimizer(optimizer_d)

    def validation_step(self, batch):
        (imgs,) = batch
        z = torch.randn(imgs.shape[0], self.hparams.latent_dim).type_as(imgs)
        self.log("val_d", self.discriminator(imgs).mean() - self.discriminator(self(z)).mean())

    def configure_optimizers(self):
        betas = (self.hparams.b1, self.hparams.b2)
        return [
            torch.optim.Adam(self.generator.parameters(), lr=self.hparams.lr, betas=betas),
            torch.optim.Adam(self.discriminator.parameters(), lr=self.hparams.lr, betas=betas),
        ], []

    def on_validation_epoch_end(self):
        sample_imgs = self(self.validation_z.type_as(self.generator.net[0].weight))
        print("samples", float(sample_imgs.mean()))


L.seed_everything(7)
data = TensorDataset(torch.rand(args.batch * (args.batches + 1), 3, 64, 64) * 2 - 1)
trainer = L.Trainer(
    accelerator="auto", devices=1, max_epochs=2, limit_train_batches=args.batches, limit_val_batches=2, logger=False,
    enable_checkpointing=False, enable_progress_bar=False,
)
trainer.fit(GAN(), DataLoader(data, batch_size=args.batch, shuffle=True), DataLoader(data, batch_size=2 * args.batch))

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

"""diffusers: an unconditional DDPM with EMA, as its training example writes it."""
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
accelerator = Accelerator(mixed_precision="fp16")
model = UNet2DModel(
    sample_size=64, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(128, 128, 256, 256, 512),
    down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"),
)
ema = EMAModel(model.parameters(), decay=0.9999, use_ema_warmup=True, model_cls=UNet2DModel, model_config=model.config)
scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.95, 0.999))
model, optimizer = accelerator.prepare(model, optimizer)
ema.to(accelerator.device)
for _ in range(4):
    clean = torch.randn(32, 3, 64, 64).to(accelerator.device)
    noise = torch.randn_like(clean)
    steps = torch.randint(0, 1000, (32,), device=clean.device).long()
    noisy = scheduler.add_noise(clean, noise, steps)
    with accelerator.accumulate(model):
        loss = F.mse_loss(model(noisy, steps).sample.float(), noise.float())
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    ema.step(model.parameters())

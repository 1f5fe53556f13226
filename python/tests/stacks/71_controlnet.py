"""diffusers' ControlNet training: frozen VAE, text encoder and UNet in fp16, the ControlNet in fp32 with mixed precision."""
import argparse
import json

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from diffusers import AutoencoderKL, ControlNetModel, DDPMScheduler, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPTextConfig, CLIPTextModel

parser = argparse.ArgumentParser()
parser.add_argument("--resolution", type=int, default=512)
parser.add_argument("--train_batch_size", type=int, default=4)
parser.add_argument("--gradient_accumulation_steps", type=int, default=2)
parser.add_argument("--max_train_steps", type=int, default=3)
parser.add_argument("--width", type=int, default=320)
args = parser.parse_args()


class Pairs(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "pixel_values": torch.rand(3, args.resolution, args.resolution, generator=g) * 2 - 1,
            "conditioning_pixel_values": torch.rand(3, args.resolution, args.resolution, generator=g),
            "input_ids": torch.randint(0, 49408, (77,), generator=g),
        }


accelerator = Accelerator(
    gradient_accumulation_steps=args.gradient_accumulation_steps, mixed_precision="fp16" if torch.cuda.is_available() else "no"
)
torch.manual_seed(0)
w = args.width
vae = AutoencoderKL(
    in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(w * 2 // 5, w * 4 // 5, w * 8 // 5, w * 8 // 5), layers_per_block=2,
    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, sample_size=args.resolution,
)
text_encoder = CLIPTextModel(CLIPTextConfig(vocab_size=49408, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12))
unet = UNet2DConditionModel(
    sample_size=args.resolution // 8, block_out_channels=(w, 2 * w, 4 * w, 4 * w), cross_attention_dim=768, attention_head_dim=8,
)
controlnet = ControlNetModel.from_unet(unet)
noise_scheduler = DDPMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", num_train_timesteps=1000)

vae.requires_grad_(False)
unet.requires_grad_(False)
text_encoder.requires_grad_(False)
controlnet.train()
controlnet.enable_gradient_checkpointing()
unet.enable_gradient_checkpointing()

optimizer = torch.optim.AdamW(controlnet.parameters(), lr=5e-6, betas=(0.9, 0.999), weight_decay=1e-2, eps=1e-8)
train_dataloader = DataLoader(Pairs(), shuffle=True, batch_size=args.train_batch_size, num_workers=0)
lr_scheduler = get_scheduler("constant", optimizer=optimizer, num_warmup_steps=0, num_training_steps=args.max_train_steps)
controlnet, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(controlnet, optimizer, train_dataloader, lr_scheduler)
weight_dtype = torch.float16 if accelerator.mixed_precision == "fp16" else torch.float32
vae.to(accelerator.device, dtype=weight_dtype)
unet.to(accelerator.device, dtype=weight_dtype)
text_encoder.to(accelerator.device, dtype=weight_dtype)

global_step = 0
for step, batch in enumerate(train_dataloader):
    with accelerator.accumulate(controlnet):
        latents = vae.encode(batch["pixel_values"].to(dtype=weight_dtype)).latent_dist.sample()
        latents = latents * vae.config.scaling_factor
        noise = torch.randn_like(latents)
        bsz = latents.shape[0]
        timesteps = torch.randint(0, noise_scheduler.config.num_train_timesteps, (bsz,), device=latents.device).long()
        noisy_latents = noise_scheduler.add_noise(latents.float(), noise.float(), timesteps).to(dtype=weight_dtype)
        encoder_hidden_states = text_encoder(batch["input_ids"], return_dict=False)[0]
        controlnet_image = batch["conditioning_pixel_values"].to(dtype=weight_dtype)
        down_block_res_samples, mid_block_res_sample = controlnet(
            noisy_latents, timesteps, encoder_hidden_states=encoder_hidden_states, controlnet_cond=controlnet_image, return_dict=False,
        )
        model_pred = unet(
            noisy_latents, timesteps, encoder_hidden_states=encoder_hidden_states,
            down_block_additional_residuals=[sample.to(dtype=weight_dtype) for sample in down_block_res_samples],
            mid_block_additional_residual=mid_block_res_sample.to(dtype=weight_dtype), return_dict=False,
        )[0]
        loss = F.mse_loss(model_pred.float(), noise.float(), reduction="mean")
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(controlnet.parameters(), 1.0)
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad(set_to_none=True)
    if accelerator.sync_gradients:
        global_step += 1
        print({"loss": loss.detach().item(), "lr": lr_scheduler.get_last_lr()[0]})
    if global_step >= args.max_train_steps:
        break

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

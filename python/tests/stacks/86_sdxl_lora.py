"""Text-to-image LoRA after diffusers' SDXL script: two text encoders, VAE in float32, min-SNR weights, accelerate in fp16."""
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import cast_training_params, compute_snr
from peft import LoraConfig
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

set_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision="fp16")
vae = AutoencoderKL(
    down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, block_out_channels=(128, 256, 512, 512),
    layers_per_block=2, latent_channels=4, sample_size=512, scaling_factor=0.13025,
)
unet = UNet2DConditionModel(
    sample_size=64, block_out_channels=(320, 640, 1280), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=(5, 10, 20), cross_attention_dim=2048,
    transformer_layers_per_block=(1, 2, 4), use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=256,
    projection_class_embeddings_input_dim=2816,
)
one = CLIPTextModel(CLIPTextConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12))
two = CLIPTextModelWithProjection(
    CLIPTextConfig(hidden_size=1280, intermediate_size=5120, num_hidden_layers=16, num_attention_heads=20, projection_dim=1280, hidden_act="gelu")
)
scheduler = DDPMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear")
for frozen in (vae, unet, one, two):
    frozen.requires_grad_(False)
unet.to(accelerator.device, dtype=torch.float16)
vae.to(accelerator.device, dtype=torch.float32)
one.to(accelerator.device, dtype=torch.float16)
two.to(accelerator.device, dtype=torch.float16)
unet.add_adapter(LoraConfig(r=32, lora_alpha=32, init_lora_weights="gaussian", target_modules=["to_k", "to_q", "to_v", "to_out.0"]))
unet.enable_gradient_checkpointing()
cast_training_params(unet, dtype=torch.float32)


class Pictures(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {"pixel_values": torch.rand(3, 512, 512, generator=g) * 2 - 1, "ids": torch.randint(0, 49000, (77,), generator=g)}


parameters = [p for p in unet.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=1e-2)
loader = DataLoader(Pictures(), batch_size=4, shuffle=True)
lr_scheduler = get_scheduler("constant_with_warmup", optimizer, num_warmup_steps=2)
unet, optimizer, loader, lr_scheduler = accelerator.prepare(unet, optimizer, loader, lr_scheduler)


def encode(ids):
    first = one(ids, output_hidden_states=True).hidden_states[-2]
    second = two(ids, output_hidden_states=True)
    return torch.cat([first, second.hidden_states[-2]], -1), second.text_embeds


for epoch in range(1):
    unet.train()
    for batch in loader:
        with accelerator.accumulate(unet):
            latents = vae.encode(batch["pixel_values"]).latent_dist.sample() * vae.config.scaling_factor
            noise = torch.randn_like(latents)
            steps = torch.randint(0, scheduler.config.num_train_timesteps, (latents.shape[0],), device=latents.device)
            noisy = scheduler.add_noise(latents, noise, steps)
            with torch.no_grad():
                hidden, pooled = encode(batch["ids"])
            sizes = torch.tensor([[512, 512, 0, 0, 512, 512]], device=accelerator.device, dtype=hidden.dtype).repeat(latents.shape[0], 1)
            predicted = unet(noisy, steps, hidden, added_cond_kwargs={"text_embeds": pooled, "time_ids": sizes}, return_dict=False)[0]
            snr = compute_snr(scheduler, steps)
            weights = torch.stack([snr, 5.0 * torch.ones_like(steps)], dim=1).min(dim=1)[0] / snr
            loss = F.mse_loss(predicted.float(), noise.float(), reduction="none").mean(dim=[1, 2, 3])
            loss = (loss * weights).mean()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()

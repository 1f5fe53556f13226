"""A timm recipe: mixup, channels_last, exponential moving average, GradScaler, LAMB, evaluation at the end."""
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3

torch.manual_seed(1)
model = timm.create_model("maxvit_tiny_rw_224", num_classes=200, drop_path_rate=0.2).cuda().to(memory_format=torch.channels_last)
ema = ModelEmaV3(model, decay=0.9998)
optimizer = create_optimizer_v2(model, opt="lamb", lr=5e-3, weight_decay=0.02)
scaler = torch.amp.GradScaler("cuda")
mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=200)
loss_fn = SoftTargetCrossEntropy()
for step in range(4):
    x = torch.randn(32, 3, 224, 224).cuda(non_blocking=True).contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, 200, (32,)).cuda()
    x, y = mixup(x, y)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ema.update(model, step=step)
model.eval()
with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
    for _ in range(2):
        x = torch.randn(128, 3, 224, 224).cuda().contiguous(memory_format=torch.channels_last)
        print(ema.module(x).argmax(1)[:2].tolist())

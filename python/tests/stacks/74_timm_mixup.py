"""timm's training loop in short: mixup, EMA, channels_last, gradient accumulation, NativeScaler, validation of both models; a loader with workers."""
import argparse
import json
import time

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, ModelEmaV3, NativeScaler, accuracy
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="efficientnetv2_rw_s")
parser.add_argument("--img-size", type=int, default=224)
parser.add_argument("-b", "--batch-size", type=int, default=64)
parser.add_argument("--grad-accum-steps", type=int, default=2)
parser.add_argument("--batches", type=int, default=6)
parser.add_argument("--workers", type=int, default=2)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(42)


class Synthetic(Dataset):
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return torch.randn(3, args.img_size, args.img_size), i % 1000


train = DataLoader(Synthetic(args.batch_size * args.batches), args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=device.type == "cuda", drop_last=True)
val = DataLoader(Synthetic(args.batch_size * 3), int(args.batch_size * 1.5), num_workers=args.workers, pin_memory=device.type == "cuda")

model = timm.create_model(args.model, pretrained=False, num_classes=1000, drop_rate=0.2, drop_path_rate=0.1)
model = model.to(device=device, memory_format=torch.channels_last)
optimizer = create_optimizer_v2(model, opt="lamb", lr=5e-3, weight_decay=0.02)
loss_scaler = NativeScaler(device=device.type)
model_ema = ModelEmaV3(model, decay=0.9998)
mixup_fn = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, prob=1.0, switch_prob=0.5, label_smoothing=0.1, num_classes=1000)
lr_scheduler, num_epochs = create_scheduler_v2(optimizer, sched="cosine", num_epochs=2, warmup_epochs=1)
train_loss_fn, validate_loss_fn = SoftTargetCrossEntropy().to(device), torch.nn.CrossEntropyLoss().to(device)


def validate(model):
    losses, top1 = AverageMeter(), AverageMeter()
    model.eval()
    with torch.no_grad():
        for x, y in val:
            x, y = x.to(device).contiguous(memory_format=torch.channels_last), y.to(device)
            with torch.autocast(device.type, dtype=torch.float16 if device.type == "cuda" else torch.bfloat16):
                output = model(x)
                loss = validate_loss_fn(output, y)
            acc1, _ = accuracy(output, y, topk=(1, 5))
            losses.update(loss.item(), x.size(0))
            top1.update(acc1.item(), x.size(0))
    return losses.avg, top1.avg


num_updates = 0
optimizer.zero_grad()
for epoch in range(2):
    model.train()
    start = time.time()
    for batch_idx, (x, y) in enumerate(train):
        need_update = (batch_idx + 1) % args.grad_accum_steps == 0
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        x, y = mixup_fn(x, y)
        x = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.float16 if device.type == "cuda" else torch.bfloat16):
            loss = train_loss_fn(model(x), y) / args.grad_accum_steps
        loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters(), need_update=need_update)
        if need_update:
            optimizer.zero_grad()
            num_updates += 1
            model_ema.update(model, step=num_updates)
    print(f"epoch {epoch} {time.time() - start:.1f} s", validate(model), validate(model_ema))
    lr_scheduler.step(epoch + 1)

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

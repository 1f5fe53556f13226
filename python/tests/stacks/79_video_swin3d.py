"""torchvision's Swin3D on clips: fp16 autocast with GradScaler, clipping after unscale_, SWA at the end, evaluation of several clips per video."""
import argparse
import json

import torch
import torchvision
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=6)
parser.add_argument("--clip-len", type=int, default=16)
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)


class Clips(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        frames = torch.randint(0, 256, (args.clip_len, 3, args.size, args.size), dtype=torch.uint8)
        return frames, i % 400


train = DataLoader(Clips(args.batch_size * args.steps), args.batch_size, shuffle=True)
test = DataLoader(Clips(args.batch_size * 3), args.batch_size)
model = torchvision.models.video.swin3d_t(weights=None).to(device)
mean, std = torch.tensor([0.485, 0.456, 0.406], device=device), torch.tensor([0.229, 0.224, 0.225], device=device)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
average = AveragedModel(model)


def prepare(video):
    video = video.to(device, non_blocking=True).float().div_(255)
    video = (video - mean[:, None, None]) / std[:, None, None]
    return video.permute(0, 2, 1, 3, 4).contiguous()


for epoch in range(2):
    model.train()
    for video, target in train:
        video, target = prepare(video), target.to(device, non_blocking=True)
        with torch.autocast(device.type, enabled=device.type == "cuda"):
            output = model(video)
            loss = criterion(output, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
    average.update_parameters(model)
    model.eval()
    hits = 0
    with torch.inference_mode():
        for video, target in test:
            output = torch.stack([average(prepare(v)) for v in (video, video.flip(-1))]).softmax(-1).mean(0)
            hits += (output.argmax(1).cpu() == target).sum().item()
    print(f"epoch {epoch}: loss {loss.item():.3f}, hits {hits}")

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

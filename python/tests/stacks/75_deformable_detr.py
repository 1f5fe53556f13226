"""Deformable DETR from transformers, images of different sizes padded with a pixel mask, AdamW with a smaller rate for the backbone."""
import argparse
import json

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection, ResNetConfig

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--side", type=int, default=800)
parser.add_argument("--layers", type=int, default=6)
args = parser.parse_args()
torch.manual_seed(5)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Boxes(Dataset):
    def __len__(self):
        return args.batch * args.steps

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        h = args.side - 32 * int(torch.randint(0, 5, (1,), generator=g))
        w = args.side + 32 * int(torch.randint(0, 8, (1,), generator=g))
        n = int(torch.randint(1, 12, (1,), generator=g))
        boxes = torch.rand(n, 4, generator=g) * 0.4 + 0.1
        return torch.rand(3, h, w, generator=g), {"class_labels": torch.randint(0, 80, (n,), generator=g), "boxes": boxes}


def collate_fn(batch):
    h, w = max(x.shape[1] for x, _ in batch), max(x.shape[2] for x, _ in batch)
    pixel_values, pixel_mask = torch.zeros(len(batch), 3, h, w), torch.zeros(len(batch), h, w, dtype=torch.long)
    for i, (x, _) in enumerate(batch):
        pixel_values[i, :, : x.shape[1], : x.shape[2]] = x
        pixel_mask[i, : x.shape[1], : x.shape[2]] = 1
    return {"pixel_values": pixel_values, "pixel_mask": pixel_mask, "labels": [y for _, y in batch]}


config = DeformableDetrConfig(
    use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
    backbone_config=ResNetConfig(out_features=["stage2", "stage3", "stage4"]), num_labels=80,
    encoder_layers=args.layers, decoder_layers=args.layers, auxiliary_loss=True, disable_custom_kernels=True,
)
model = DeformableDetrForObjectDetection(config).to(device)
param_dicts = [
    {"params": [p for n, p in model.named_parameters() if "backbone" not in n and p.requires_grad]},
    {"params": [p for n, p in model.named_parameters() if "backbone" in n and p.requires_grad], "lr": 2e-5},
]
optimizer = torch.optim.AdamW(param_dicts, lr=2e-4, weight_decay=1e-4)
model.train()
for batch in DataLoader(Boxes(), batch_size=args.batch, shuffle=True, collate_fn=collate_fn):
    labels = [{k: v.to(device) for k, v in t.items()} for t in batch["labels"]]
    outputs = model(pixel_values=batch["pixel_values"].to(device), pixel_mask=batch["pixel_mask"].to(device), labels=labels)
    optimizer.zero_grad()
    outputs.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print({k: round(v.item(), 3) for k, v in outputs.loss_dict.items() if not k[-1].isdigit()})

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

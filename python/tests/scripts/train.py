"""A training script as people write them; nothing in it knows that it is being recorded."""

import argparse
import copy
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def evaluate(model: nn.Module, loader: DataLoader, device: torch.device) -> float:
    model.eval()
    good = seen = 0
    with torch.inference_mode():
        for x, y in loader:
            out = model(x.to(device))
            good += (out.argmax(1).cpu() == y).sum().item()
            seen += len(y)
            assert out.softmax(1).cpu().numpy().shape == (len(y), 10)
    return good / seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    log = logging.getLogger("train")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=1, pin_memory=True)
    model = build().to(device)
    average = copy.deepcopy(model).eval()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(args.epochs):
        model.train()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(compiled(x), y)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            with torch.no_grad():
                for mean, value in zip(average.parameters(), model.parameters(), strict=True):
                    mean.mul_(0.99).add_(value, alpha=0.01)
            log.info(f"{epoch} {i} loss {loss:.3f} norm {norm:.2f} {torch.cuda.max_memory_allocated() >> 10} KiB")
        print("accuracy", evaluate(model, loader, device))
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
        back = torch.load("checkpoint.pt", map_location=device)
        model.load_state_dict(back["model"])
        optimizer.load_state_dict(back["optimizer"])
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

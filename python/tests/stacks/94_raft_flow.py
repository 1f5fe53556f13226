"""Optical flow: torchvision's RAFT with twelve refinements and its sequence loss, gradient clipping and OneCycle."""
import torch
from torchvision.models.optical_flow import raft_large

torch.manual_seed(0)
model = raft_large(weights=None).cuda().train()
for m in model.modules():
    if isinstance(m, torch.nn.BatchNorm2d):
        m.eval()
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-4, total_steps=100, pct_start=0.05, cycle_momentum=False)


def sequence_loss(predictions, flow, valid, gamma=0.8, limit=400):
    valid = valid & ((flow**2).sum(1).sqrt() < limit)
    predictions = torch.stack(predictions)
    weights = gamma ** torch.arange(len(predictions) - 1, -1, -1, device=flow.device)
    error = (predictions - flow).abs()[:, valid[:, None].expand_as(flow)].mean(dim=1)
    return (weights * error).sum()


for step in range(4):
    a, b = (torch.rand(4, 3, 368, 496, device="cuda") * 2 - 1 for _ in range(2))
    flow, valid = torch.randn(4, 2, 368, 496, device="cuda") * 8, torch.ones(4, 368, 496, dtype=torch.bool, device="cuda")
    loss = sequence_loss(model(a, b, num_flow_updates=12), flow, valid)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
    optimizer.step()
    scheduler.step()

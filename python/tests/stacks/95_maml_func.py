"""MAML by torch.func: inner steps by grad of functional_call, vmap over tasks, outer Adam; then a forward gradient by jvp."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, jvp, vmap

torch.manual_seed(0)


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.ReLU(), nn.MaxPool2d(2))


net = nn.Sequential(block(3, 64), block(64, 64), block(64, 64), block(64, 64), nn.Flatten(), nn.Linear(64 * 5 * 5, 5)).cuda()
params = {k: v.detach().clone().requires_grad_() for k, v in net.named_parameters()}
optimizer = torch.optim.Adam(params.values(), lr=1e-3)


def loss_of(p, x, y):
    return F.cross_entropy(functional_call(net, p, (x,)), y)


def task(p, xs, ys, xq, yq):
    fast = p
    for _ in range(3):
        g = grad(loss_of)(fast, xs, ys)
        fast = {k: v - 0.01 * g[k] for k, v in fast.items()}
    return loss_of(fast, xq, yq)


for step in range(4):
    xs, xq = torch.randn(8, 25, 3, 84, 84, device="cuda"), torch.randn(8, 75, 3, 84, 84, device="cuda")
    ys, yq = torch.randint(0, 5, (8, 25), device="cuda"), torch.randint(0, 5, (8, 75), device="cuda")
    loss = vmap(task, in_dims=(None, 0, 0, 0, 0))(params, xs, ys, xq, yq).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

weights = {k: v.detach() for k, v in params.items()}
for step in range(3):
    x, y = torch.randn(256, 3, 84, 84, device="cuda"), torch.randint(0, 5, (256,), device="cuda")
    tangent = {k: torch.randn_like(v) for k, v in weights.items()}
    value, slope = jvp(lambda p: loss_of(p, x, y), (weights,), (tangent,))
    weights = {k: v - 1e-4 * slope * tangent[k] for k, v in weights.items()}

"""Whole training steps captured as a CUDA graph, as PyTorch's notes write it, and a module made into graphed callables."""
import torch
from torch import nn

torch.manual_seed(0)
N, D_in, H, D_out = 8192, 2048, 4096, 512
model = nn.Sequential(nn.Linear(D_in, H), nn.LayerNorm(H), nn.GELU(), nn.Dropout(0.1), nn.Linear(H, H), nn.GELU(), nn.Linear(H, D_out)).cuda()
loss_fn, optimizer = nn.MSELoss(), torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
static_input, static_target = torch.randn(N, D_in, device="cuda"), torch.randn(N, D_out, device="cuda")
s = torch.cuda.Stream()
s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    for i in range(3):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(static_input), static_target)
        loss.backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(s)
g = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(g):
    static_loss = loss_fn(model(static_input), static_target)
    static_loss.backward()
    optimizer.step()
for _ in range(10):
    static_input.copy_(torch.randn(N, D_in))
    static_target.copy_(torch.randn(N, D_out))
    g.replay()

first = nn.Sequential(nn.Linear(D_in, H), nn.ReLU(), nn.Linear(H, H)).cuda()
second = nn.Linear(H, D_out).cuda()
x = torch.randn(N, D_in, device="cuda", requires_grad=True)
first = torch.cuda.make_graphed_callables(first, (x,))
sgd = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1, momentum=0.9)
for _ in range(4):
    sgd.zero_grad(set_to_none=True)
    h = first(torch.randn(N, D_in, device="cuda", requires_grad=True))
    if h.sum().item() > 0:
        h = h * 0.5
    loss_fn(second(h), static_target).backward()
    sgd.step()

"""WGAN with gradient penalty: two networks, two optimizers, double backward."""
import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(
    nn.Linear(128, 512 * 4 * 4), nn.Unflatten(1, (512, 4, 4)),
    *(m for i, o in ((512, 256), (256, 128), (128, 64)) for m in (nn.Upsample(scale_factor=2), nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())),
    nn.Upsample(scale_factor=2), nn.Conv2d(64, 3, 3, padding=1), nn.Tanh(),
).cuda()
D = nn.Sequential(
    *(m for i, o in ((3, 64), (64, 128), (128, 256), (256, 512)) for m in (nn.Conv2d(i, o, 4, 2, 1), nn.LeakyReLU(0.2))),
    nn.Flatten(), nn.Linear(512 * 4 * 4, 1),
).cuda()
g_opt = torch.optim.Adam(G.parameters(), 2e-4, (0.5, 0.9))
d_opt = torch.optim.RMSprop(D.parameters(), 2e-4)
for step in range(6):
    real = torch.rand(256, 3, 64, 64, device="cuda") * 2 - 1
    fake = G(torch.randn(256, 128, device="cuda"))
    mix = torch.rand(256, 1, 1, 1, device="cuda")
    between = (mix * real + (1 - mix) * fake.detach()).requires_grad_()
    (grad,) = torch.autograd.grad(D(between).sum(), between, create_graph=True)
    penalty = 10 * (grad.flatten(1).norm(dim=1) - 1).pow(2).mean()
    loss = D(fake.detach()).mean() - D(real).mean() + penalty
    d_opt.zero_grad()
    loss.backward()
    d_opt.step()
    if step % 3 == 2:
        g_opt.zero_grad()
        (-D(fake).mean()).backward()
        g_opt.step()

"""A physics-informed network: Laplacians by hessian of vmap and by nested grads, Adam and then L-BFGS, in double precision."""
import torch
from torch import nn
from torch.func import functional_call, hessian, jacrev, vmap

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
device = torch.device("cuda")


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


net = nn.Sequential(nn.Linear(3, 192), Sine(), *(m for _ in range(4) for m in (nn.Linear(192, 192), Sine())), nn.Linear(192, 1)).to(device)


def residual(params, x):
    u = lambda q: functional_call(net, params, (q,)).squeeze(-1)
    value = u(x)
    return torch.einsum("ii->", hessian(u)(x)) + value**3 - jacrev(u)(x)[0]


inside, border = torch.rand(8192, 3, device=device), torch.rand(4096, 3, device=device)
border[:, 0] = (border[:, 0] > 0.5).double()
adam = torch.optim.Adam(net.parameters(), lr=1e-3)


def loss_fn():
    params = dict(net.named_parameters())
    return vmap(residual, (None, 0))(params, inside).pow(2).mean() + 10 * net(border).pow(2).mean()


for step in range(4):
    adam.zero_grad()
    loss = loss_fn()
    loss.backward()
    adam.step()
lbfgs = torch.optim.LBFGS(net.parameters(), lr=1, max_iter=6, history_size=10, line_search_fn="strong_wolfe")


def closure():
    lbfgs.zero_grad()
    loss = loss_fn()
    loss.backward()
    return loss


for _ in range(2):
    lbfgs.step(closure)

"""PyTorch Geometric: a graph attention network on one large random graph."""
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATv2Conv, SAGEConv

torch.manual_seed(0)
n, e = 120_000, 1_200_000
graph = Data(x=torch.randn(n, 128), edge_index=torch.randint(0, n, (2, e)), y=torch.randint(0, 40, (n,))).to("cuda")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = SAGEConv(128, 256)
        self.b = GATv2Conv(256, 32, heads=4)
        self.c = SAGEConv(128, 40)

    def forward(self, x, edges):
        x = F.dropout(self.a(x, edges).relu(), 0.5, self.training)
        x = F.elu(self.b(x, edges))
        return self.c(x, edges)


model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
mask = torch.rand(n, device="cuda") < 0.5
for _ in range(4):
    optimizer.zero_grad()
    out = model(graph.x, graph.edge_index)
    loss = F.cross_entropy(out, graph.y)
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    print(float((model(graph.x, graph.edge_index).argmax(1) == graph.y).float().mean()))

"""GraphSAGE by sampled neighbours: each batch is a subgraph of another size, drawn on the host, of PyG's own layers."""
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torch_geometric.nn import SAGEConv

NODES, DEGREE, FEATURES, CLASSES, FANOUT = 200_000, 25, 256, 47, (15, 10, 5)
rng = np.random.default_rng(0)
torch.manual_seed(0)
neighbours = (NODES * rng.random((NODES, DEGREE)) ** 2).astype(np.int64)
features, labels = torch.randn(NODES, FEATURES), torch.from_numpy(rng.integers(0, CLASSES, NODES))


def sample(seeds):
    seeds = np.asarray(seeds)
    nodes, sources, targets, frontier = seeds, [], [], seeds
    for fanout in FANOUT:
        drawn = neighbours[frontier][:, rng.permutation(DEGREE)[:fanout]]
        sources.append(drawn.reshape(-1))
        targets.append(np.repeat(frontier, fanout))
        frontier = np.setdiff1d(drawn, nodes)
        nodes = np.concatenate([nodes, frontier])
    place = np.zeros(NODES, dtype=np.int64)
    place[nodes] = np.arange(len(nodes))
    edges = torch.from_numpy(np.stack([place[np.concatenate(sources)], place[np.concatenate(targets)]]))
    return features[torch.from_numpy(nodes)], edges, labels[torch.from_numpy(seeds)]


class SAGE(torch.nn.Module):
    def __init__(self, hidden=512):
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(FEATURES, hidden), SAGEConv(hidden, hidden), SAGEConv(hidden, CLASSES)])
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(hidden) for _ in range(2)])

    def forward(self, x, edge_index):
        for conv, norm in zip(self.convs, self.norms):
            x = F.dropout(F.relu(norm(conv(x, edge_index))), p=0.5, training=self.training)
        return self.convs[-1](x, edge_index)


device = torch.device("cuda")
model = SAGE().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
loader = DataLoader(range(0, NODES // 10), batch_size=1024, shuffle=True, collate_fn=sample, drop_last=True)
model.train()
total = correct = 0
for i, (x, edge_index, y) in enumerate(loader):
    x, edge_index, y = x.to(device), edge_index.to(device), y.to(device)
    optimizer.zero_grad()
    out = model(x, edge_index)[: len(y)]
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    total += len(y)
    correct += int((out.argmax(-1) == y).sum())
print(correct / total)

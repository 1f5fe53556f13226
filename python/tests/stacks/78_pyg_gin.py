"""PyTorch Geometric: GINE with global pooling on batches of molecules of different sizes, train and test as in its examples."""
import argparse
import json

import torch
import torch.nn.functional as F
from torch.nn import BatchNorm1d, Embedding, Linear, ModuleList, ReLU, Sequential
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool

parser = argparse.ArgumentParser()
parser.add_argument("--channels", type=int, default=300)
parser.add_argument("--layers", type=int, default=5)
parser.add_argument("--graphs", type=int, default=8192)
parser.add_argument("--batch", type=int, default=1024)
args = parser.parse_args()
torch.manual_seed(12345)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def molecule():
    n = int(torch.randint(12, 48, (1,)))
    bonds = torch.stack([torch.arange(1, n), (torch.rand(n - 1) * torch.arange(1, n)).long()])
    rings = torch.randint(0, n, (2, n // 5))
    edge_index = torch.cat([bonds, bonds.flip(0), rings, rings.flip(0)], dim=1)
    return Data(x=torch.randint(0, 28, (n,)), edge_index=edge_index, edge_attr=torch.randint(0, 4, (edge_index.size(1),)), y=torch.randn(1))


dataset = [molecule() for _ in range(args.graphs)]
train_loader = DataLoader(dataset[: args.graphs * 3 // 4], batch_size=args.batch, shuffle=True)
test_loader = DataLoader(dataset[args.graphs * 3 // 4 :], batch_size=2 * args.batch)


class GINE(torch.nn.Module):
    def __init__(self, channels, num_layers):
        super().__init__()
        self.node_emb, self.edge_emb = Embedding(28, channels), Embedding(4, channels)
        self.convs, self.norms = ModuleList(), ModuleList()
        for _ in range(num_layers):
            mlp = Sequential(Linear(channels, 2 * channels), BatchNorm1d(2 * channels), ReLU(), Linear(2 * channels, channels))
            self.convs.append(GINEConv(mlp, train_eps=True))
            self.norms.append(BatchNorm1d(channels))
        self.head = Sequential(Linear(channels, channels // 2), ReLU(), Linear(channels // 2, 1))

    def forward(self, x, edge_index, edge_attr, batch):
        x, edge_attr = self.node_emb(x), self.edge_emb(edge_attr)
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.dropout(norm(conv(x, edge_index, edge_attr)).relu(), p=0.1, training=self.training)
        return self.head(global_add_pool(x, batch))


model = GINE(args.channels, args.layers).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=20, min_lr=0.00001)


def train():
    model.train()
    total_loss = 0
    for data in train_loader:
        data = data.to(device)
        optimizer.zero_grad()
        out = model(data.x, data.edge_index, data.edge_attr, data.batch)
        loss = (out.squeeze() - data.y).abs().mean()
        loss.backward()
        total_loss += loss.item() * data.num_graphs
        optimizer.step()
    return total_loss / len(train_loader.dataset)


@torch.no_grad()
def test(loader):
    model.eval()
    total_error = 0
    for data in loader:
        data = data.to(device)
        out = model(data.x, data.edge_index, data.edge_attr, data.batch)
        total_error += (out.squeeze() - data.y).abs().sum().item()
    return total_error / len(loader.dataset)


for epoch in range(1, 3):
    loss = train()
    test_mae = test(test_loader)
    scheduler.step(test_mae)
    print(f"Epoch: {epoch:02d}, Loss: {loss:.4f}, Test: {test_mae:.4f}")

if torch.cuda.is_available():
    print("TRUTH", json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))

"""DLRM: 26 bags of embeddings with sparse gradients and SparseAdam, dense part by Adagrad, pairwise interactions."""
import torch
import torch.nn as nn

torch.manual_seed(0)
device = torch.device("cuda")
SIZES = [1_000_000, 500_000, 300_000, 200_000] + [50_000] * 8 + [2_000] * 14
DIM, BATCH = 128, 16384


def mlp(sizes, last=None):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([last] if last else [nn.ReLU()]))


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(n, DIM, mode="sum", sparse=True) for n in SIZES])
        self.bottom, features = mlp([13, 512, 256, DIM]), len(SIZES) + 1
        self.top = mlp([DIM + features * (features - 1) // 2, 1024, 1024, 512, 1], nn.Identity())
        self.register_buffer("pairs", torch.tril_indices(features, features, offset=-1), persistent=False)

    def forward(self, dense, indices, offsets):
        x = self.bottom(dense)
        rows = torch.stack([x, *(bag(i, o) for bag, i, o in zip(self.bags, indices, offsets))], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], dim=1)).squeeze(1)


def batches(n):
    for _ in range(n):
        indices, offsets = [], []
        for size in SIZES:
            counts = torch.randint(1, 8, (BATCH,))
            offsets.append(torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)[:-1]]))
            indices.append(torch.randint(0, size, (int(counts.sum()),)))
        yield torch.randn(BATCH, 13), indices, offsets, torch.randint(0, 2, (BATCH,)).float()


model = DLRM().to(device)
embeddings = [p for n, p in model.named_parameters() if n.startswith("bags")]
sparse = torch.optim.SparseAdam(embeddings, lr=1e-3)
dense_optimizer = torch.optim.Adagrad([p for n, p in model.named_parameters() if not n.startswith("bags")], lr=1e-2)
criterion = nn.BCEWithLogitsLoss()
for step, (x, indices, offsets, y) in enumerate(batches(5)):
    indices, offsets = [i.to(device) for i in indices], [o.to(device) for o in offsets]
    loss = criterion(model(x.to(device), indices, offsets), y.to(device))
    sparse.zero_grad()
    dense_optimizer.zero_grad()
    loss.backward()
    sparse.step()
    dense_optimizer.step()
    print(step, loss.item())

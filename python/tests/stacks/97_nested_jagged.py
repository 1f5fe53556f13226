"""A text encoder on nested tensors of the jagged layout: SDPA without padding, lengths that differ, pooled by offsets."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        x = x + self.out(a)
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self, vocab=30000, width=768, heads=12, layers=8):
        super().__init__()
        self.embed, self.layers, self.head = nn.Embedding(vocab, width), nn.ModuleList(Layer(width, heads) for _ in range(layers)), nn.Linear(width, 20)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(torch.stack([t.mean(0) for t in x.unbind()]))


model = Encoder().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
draw = torch.Generator().manual_seed(9)
for step in range(5):
    lengths = torch.randint(64, 700, (32,), generator=draw).tolist()
    ids = torch.nested.nested_tensor([torch.randint(0, 30000, (n,), generator=draw) for n in lengths], layout=torch.jagged, device="cuda")
    y = torch.randint(0, 20, (32,), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(ids).float(), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

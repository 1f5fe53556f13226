"""Programs over graphs, sets, sparse matrices and large tables."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def graph_attention(n: int = 20000) -> Iterator[None]:
    """Attention over edges: softmax by scatter, messages by index_add, pooling by scatter_reduce."""
    edges = torch.randint(0, n, (2, 10 * n), device="cuda")
    edges = torch.unique(edges, dim=1) if n < 0 else edges
    w, a = nn.Linear(128, 8 * 32).cuda(), nn.Parameter(torch.randn(2, 8, 32, device="cuda") * 0.1)
    head = nn.Linear(256, 40).cuda()
    optimizer = torch.optim.Adam([*w.parameters(), a, *head.parameters()], weight_decay=5e-4)
    x, y = torch.randn(n, 128, device="cuda"), torch.randint(0, 40, (n,), device="cuda")
    graph = torch.arange(n, device="cuda") // 100
    mask = torch.zeros(n, dtype=torch.bool, device="cuda")
    mask[: n // 2] = True
    yield
    for _ in range(3):
        h = w(x).view(n, 8, 32)
        scores = F.leaky_relu((h * a[0]).sum(-1)[edges[0]] + (h * a[1]).sum(-1)[edges[1]], 0.2)
        index = edges[1][:, None].expand(-1, 8)
        top = torch.full((n, 8), -1e9, device="cuda").scatter_reduce(0, index, scores.detach(), "amax")
        weight = (scores - top[edges[1]]).exp()
        total = torch.zeros(n, 8, device="cuda").scatter_add(0, index, weight)
        messages = h[edges[0]] * (weight / (total[edges[1]] + 1e-16)).unsqueeze(-1)
        h = torch.zeros(n, 8, 32, device="cuda").index_add(0, edges[1], messages)
        h = F.elu(h).flatten(1)
        pooled = torch.zeros(int(graph[-1]) + 1 if n < 0 else n // 100, 256, device="cuda").index_add(0, graph, h)
        loss = F.cross_entropy(head(h)[mask], y[mask]) + 1e-3 * pooled.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def sparse_convolution(n: int = 20000) -> Iterator[None]:
    """A graph network over adjacency matrices in CSR and COO, normalized by degrees."""
    warnings.filterwarnings("ignore")
    ends = torch.randint(0, n, (2, 8 * n))
    adjacency = torch.sparse_coo_tensor(ends, torch.ones(8 * n) / 8, (n, n)).coalesce()
    rows, coo = adjacency.to_sparse_csr().cuda(), adjacency.cuda()
    layers = nn.ModuleList([nn.Linear(256, 256), nn.Linear(256, 40)]).cuda()
    optimizer = torch.optim.Adam(layers.parameters())
    x, y = torch.randn(n, 256, device="cuda"), torch.randint(0, 40, (n,), device="cuda")
    yield
    for _ in range(3):
        h = F.relu(rows @ layers[0](x))
        h = torch.sparse.mm(coo, layers[1](F.dropout(h)))
        loss = F.cross_entropy(h, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def segments(n: int = 100000) -> Iterator[None]:
    """Sets of several sizes: segment_reduce, sorting, cumulative sums, repeat_interleave."""
    sizes = torch.full((n // 50,), 50, device="cuda")
    net = nn.Sequential(nn.Linear(16, 128), nn.GELU(), nn.Linear(128, 64)).cuda()
    head = nn.Linear(192, 1).cuda()
    optimizer = torch.optim.AdamW([*net.parameters(), *head.parameters()])
    x, y = torch.randn(n, 16, device="cuda"), torch.randn(n // 50, 1, device="cuda")
    yield
    for _ in range(3):
        h = net(x)
        mean = torch.segment_reduce(h, "mean", lengths=sizes, axis=0, unsafe=True)
        top = torch.segment_reduce(h, "max", lengths=sizes, axis=0, unsafe=True)
        centred = h - torch.repeat_interleave(mean, sizes, dim=0, output_size=n)
        ordered = centred.view(n // 50, 50, 64).sort(1).values.cumsum(1)[:, -1]
        loss = F.smooth_l1_loss(head(torch.cat([mean, top, ordered], 1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def sparse_embeddings(n: int = 8192) -> Iterator[None]:
    """A recommender: bags with sparse gradients by SparseAdam, dense ones by another optimizer, negatives drawn."""
    bags = nn.ModuleList([nn.EmbeddingBag(100000, 64, mode="mean", sparse=True) for _ in range(4)]).cuda()
    users = nn.Embedding(200000, 64, sparse=True).cuda()
    dense = nn.Sequential(nn.Linear(64 * 5, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    of_sparse = torch.optim.SparseAdam([*bags.parameters(), *users.parameters()])
    of_dense = torch.optim.Adagrad(dense.parameters(), lr=0.01)
    ids = torch.randint(0, 100000, (4, n * 10), device="cuda")
    offsets = torch.arange(0, n * 10, 10, device="cuda")
    who, y = torch.randint(0, 200000, (n,), device="cuda"), torch.rand(n, device="cuda").round()
    yield
    for _ in range(3):
        h = torch.cat([*[bag(i, offsets) for bag, i in zip(bags, ids, strict=True)], users(who)], 1)
        loss = F.binary_cross_entropy_with_logits(dense(h).squeeze(1), y)
        of_sparse.zero_grad()
        of_dense.zero_grad()
        loss.backward()
        of_sparse.step()
        of_dense.step()
        yield


def word2vec(n: int = 16384) -> Iterator[None]:
    """Skip-grams with negatives drawn by multinomial; rows touched found by unique."""
    centre, context = nn.Embedding(50000, 200).cuda(), nn.Embedding(50000, 200).cuda()
    frequency = torch.arange(50000, 0, -1, device="cuda").float() ** 0.75
    optimizer = torch.optim.SGD([*centre.parameters(), *context.parameters()], lr=0.025)
    pairs = torch.randint(0, 50000, (2, n), device="cuda")
    yield
    for _ in range(3):
        noise = torch.multinomial(frequency, n * 5, replacement=True).view(n, 5)
        v = centre(pairs[0])
        right = F.logsigmoid((v * context(pairs[1])).sum(1))
        wrong = F.logsigmoid(-torch.bmm(context(noise), v[:, :, None]).squeeze(2)).sum(1)
        loss = -(right + wrong).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(len(torch.unique(noise)), "words")
        yield


def point_clouds(n: int = 16) -> Iterator[None]:
    """Neighbours by topk of distances, gathered; farthest points by a loop over indices."""
    net = nn.Sequential(nn.Conv2d(6, 64, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 1)).cuda()
    head = nn.Linear(128, 40).cuda()
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()])
    points, y = torch.randn(n, 1024, 3, device="cuda"), torch.randint(0, 40, (n,), device="cuda")
    yield

    def farthest(p: Tensor, m: int) -> Tensor:
        chosen = torch.zeros(n, m, dtype=torch.long, device="cuda")
        distance, last = torch.full((n, p.shape[1]), 1e10, device="cuda"), torch.zeros(n, dtype=torch.long).cuda()
        rows = torch.arange(n, device="cuda")
        for i in range(m):
            chosen[:, i] = last
            d = (p - p[rows, last][:, None]).square().sum(-1)
            closer = d < distance
            distance[closer] = d[closer]
            last = distance.max(-1).indices
        return chosen

    for _ in range(3):
        centres = points.gather(1, farthest(points, 128)[..., None].expand(-1, -1, 3))
        near = torch.cdist(centres, points).topk(32, largest=False).indices
        rows = torch.arange(n, device="cuda")[:, None, None]
        groups = points[rows, near]
        local = torch.cat([groups - centres[:, :, None], groups], -1).permute(0, 3, 1, 2)
        loss = F.cross_entropy(head(net(local).amax(3).amax(2)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def mixture_density(n: int = 8192) -> Iterator[None]:
    """Mixtures of normals by torch.distributions; a Gumbel softmax; a straight-through Bernoulli."""
    net = nn.Sequential(nn.Linear(32, 256), nn.Mish(), nn.Linear(256, 20 * 3)).cuda()
    gate = nn.Linear(32, 16).cuda()
    optimizer = torch.optim.Adam([*net.parameters(), *gate.parameters()])
    x, y = torch.randn(n, 32, device="cuda"), torch.randn(n, device="cuda")
    yield
    for _ in range(3):
        choice = F.gumbel_softmax(gate(x), tau=0.5, hard=True)
        p = torch.sigmoid(gate(x))
        drop = torch.bernoulli(p).detach() + p - p.detach()
        weights, means, scales = net(x * choice.repeat(1, 2) * drop.repeat(1, 2)).chunk(3, 1)
        mixture = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=weights), torch.distributions.Normal(means, scales.exp())
        )
        loss = -mixture.log_prob(y).mean() - torch.distributions.Categorical(probs=p).entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def factorization(n: int = 4096) -> Iterator[None]:
    """Bilinear layers, cosine and pairwise distances, special functions of a tensor, a matrix kept low in rank."""
    pair, a, b = nn.Bilinear(64, 64, 32).cuda(), nn.Embedding(10000, 64).cuda(), nn.Embedding(10000, 64).cuda()
    optimizer = torch.optim.Adam([*pair.parameters(), *a.parameters(), *b.parameters()], maximize=True)
    left, right = torch.randint(0, 10000, (2, n), device="cuda")
    yield
    for _ in range(3):
        u, v = a(left), b(right)
        h = pair(u, v)
        kappa = F.softplus(h[:, 0]) + 1
        score = torch.special.i0e(kappa).log() + torch.special.gammaln(kappa) - torch.special.digamma(kappa)
        score = (
            score + F.cosine_similarity(u, v) - F.pairwise_distance(u, v) + torch.special.erfinv(h[:, 1].tanh() * 0.9)
        )
        spread = torch.logdet(u.T @ u / n + torch.eye(64, device="cuda"))
        q, r = torch.linalg.qr(h)
        loss = score.mean() + 1e-3 * spread + 1e-3 * r.diagonal().abs().mean() + 0 * torch.linalg.norm(q, ord=2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield

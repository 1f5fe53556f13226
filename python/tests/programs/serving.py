"""Programs around a model: threads that serve, agents whose environment is on the host, parts that stay there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def served(n: int = 64) -> Iterator[None]:
    """A thread takes requests from a queue, puts them together into a batch and answers on the host."""
    net = nn.Sequential(nn.Embedding(300, 512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 300)).cuda().eval()
    inbox: queue.Queue[Any] = queue.Queue()
    outbox: queue.Queue[list[int]] = queue.Queue()

    @torch.inference_mode()
    def serve() -> None:
        while (batch := inbox.get()) is not None:
            tokens = nn.utils.rnn.pad_sequence([torch.tensor(words) for words in batch], batch_first=True)
            outbox.put(net(tokens.cuda()).argmax(-1).flatten().tolist())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    for turn in range(3):
        inbox.put([list(range(5 + turn))] * n)
        assert len(outbox.get(timeout=60)) == n * (5 + turn)
        yield
    inbox.put(None)
    thread.join()


def actor_critic(n: int = 64) -> Iterator[None]:
    """Actions go to an environment on the host as arrays, and what it says of them comes back."""
    net = nn.Sequential(nn.Linear(8, 1024), nn.Tanh(), nn.Linear(1024, 5)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    random = np.random.default_rng(0)
    yield
    for _ in range(3):
        state = torch.from_numpy(random.normal(size=(n, 8)).astype(np.float32)).cuda()
        out = net(state)
        policy = torch.distributions.Categorical(logits=out[:, :4])
        action = policy.sample()
        reward = torch.as_tensor((action.cpu().numpy() == 1).astype(np.float32)).cuda()
        loss = (-policy.log_prob(action) * reward).mean() + F.mse_loss(out[:, 4], reward)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield

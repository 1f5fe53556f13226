"""Programs over sequences: recurrent layers, transformers, their losses, generation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def packed_lstm(n: int = 128) -> Iterator[None]:
    """Sentences of several lengths, packed, through a bidirectional LSTM."""
    embed = nn.Embedding(20000, 300, padding_idx=0).cuda()
    lstm = nn.LSTM(300, 256, 2, batch_first=True, bidirectional=True, dropout=0.3).cuda()
    head = nn.Linear(512, 5).cuda()
    optimizer = torch.optim.Adam([*embed.parameters(), *lstm.parameters(), *head.parameters()])
    lengths = torch.arange(n) % 80 + 20
    tokens = torch.randint(1, 20000, (n, int(lengths.max())), device="cuda")
    y = torch.randint(0, 5, (n,), device="cuda")
    yield
    for _ in range(3):
        packed = pack_padded_sequence(embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        out, _ = lstm(packed)
        padded, _ = pad_packed_sequence(out, batch_first=True)
        loss = F.cross_entropy(head(padded.max(1).values), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def speech_ctc(n: int = 32) -> Iterator[None]:
    """Deep speech: convolutions, GRUs, CTC with lengths of its own, decoded greedily."""
    front = nn.Sequential(nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(32), nn.Hardtanh(0, 20)).cuda()
    gru = nn.GRU(32 * 40, 512, 3, bidirectional=True).cuda()
    head = nn.Linear(1024, 29).cuda()
    optimizer = torch.optim.SGD(
        [*front.parameters(), *gru.parameters(), *head.parameters()], lr=1e-4, momentum=0.9, nesterov=True
    )
    mels = torch.randn(n, 1, 80, 400, device="cuda")
    texts = torch.randint(1, 29, (n, 60), device="cuda")
    yield
    for _ in range(3):
        h = front(mels).flatten(1, 2).permute(2, 0, 1)
        out, _ = gru(h)
        scores = head(out).log_softmax(-1)
        frames = torch.full((n,), scores.shape[0], dtype=torch.long)
        letters = torch.full((n,), 60, dtype=torch.long)
        loss = F.ctc_loss(scores, texts, frames, letters, zero_infinity=True)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(gru.parameters(), 400)
        optimizer.step()
        best = torch.unique_consecutive(scores.argmax(-1)[:, 0])
        print(best[best != 0].tolist()[:5])
        yield


def adaptive_softmax(n: int = 64) -> Iterator[None]:
    """A language model over a large vocabulary with an adaptive softmax, hidden states carried over."""
    embed = nn.Embedding(50000, 256).cuda()
    lstm = nn.LSTM(256, 512, 2, dropout=0.5).cuda()
    project = nn.Linear(512, 256).cuda()
    softmax = nn.AdaptiveLogSoftmaxWithLoss(256, 50000, [2000, 10000], div_value=4.0).cuda()
    parts = (embed, lstm, project, softmax)
    optimizer = torch.optim.SGD([p for m in parts for p in m.parameters()], lr=1.0)
    text = torch.randint(0, 50000, (3 * 35 + 1, n), device="cuda")
    state = tuple(torch.zeros(2, n, 512, device="cuda") for _ in range(2))
    yield
    for i in range(3):
        state = tuple(s.detach() for s in state)
        out, state = lstm(embed(text[i * 35 : (i + 1) * 35]), state)
        loss = softmax(project(out).flatten(0, 1), text[i * 35 + 1 : (i + 1) * 35 + 1].flatten()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def transducer(n: int = 16) -> Iterator[None]:
    """A transducer's loss written out: a lattice of times and letters, summed along its diagonals."""
    encoder = nn.LSTM(80, 320, 2, batch_first=True).cuda()
    predictor = nn.GRU(128, 320, batch_first=True).cuda()
    embed, joint = nn.Embedding(64, 128).cuda(), nn.Linear(320, 64).cuda()
    parts = (encoder, predictor, embed, joint)
    optimizer = torch.optim.Adam([p for m in parts for p in m.parameters()])
    mels, y = torch.randn(n, 60, 80, device="cuda"), torch.randint(1, 64, (n, 20), device="cuda")
    yield
    for _ in range(3):
        f, _ = encoder(mels)
        g, _ = predictor(embed(F.pad(y, (1, 0))))
        scores = joint(torch.tanh(f[:, :, None] + g[:, None])).log_softmax(-1)
        blank = scores[..., 0]
        label = scores[:, :, :-1].gather(3, y[:, None, :, None].expand(-1, 60, -1, 1)).squeeze(3)
        alpha = torch.full((n, 21), -1e30, device="cuda")
        alpha[:, 0] = 0
        for t in range(60):
            row = [alpha[:, 0] + (blank[:, t - 1, 0] if t else 0)]
            for u in range(1, 21):
                stay = alpha[:, u] + (blank[:, t - 1, u] if t else 0)
                row.append(torch.logaddexp(stay, row[-1] + label[:, t, u - 1]))
            alpha = torch.stack(row, 1)
        loss = -(alpha[:, -1] + blank[:, -1, -1]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def grouped_queries(n: int = 4) -> Iterator[None]:
    """A small Llama of one's own: rotary positions by complex numbers, grouped queries, a cache in a buffer."""
    width, heads, groups, length = 768, 12, 4, 512
    bases = 1.0 / (10000 ** (torch.arange(0, 64, 2, device="cuda").float() / 64))
    turns = torch.polar(
        torch.ones(length, 32, device="cuda"), torch.outer(torch.arange(length, device="cuda").float(), bases)
    )

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * groups * 64, bias=False)
            self.o = nn.Linear(width, width, bias=False)
            self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width, bias=False)
            self.norms = nn.ModuleList([nn.RMSNorm(width) for _ in range(2)])

        def turn(self, x: Tensor) -> Tensor:
            z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(z * turns[:, None]).flatten(3).type_as(x)

        def forward(self, x: Tensor) -> Tensor:
            h = self.norms[0](x)
            q = self.q(h).view(*h.shape[:2], heads, 64)
            k, v = self.kv(h).view(*h.shape[:2], 2, groups, 64).unbind(2)
            q, k = self.turn(q), self.turn(k)
            h = F.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=True
            )
            x = x + self.o(h.transpose(1, 2).flatten(2))
            a, b = self.up(self.norms[1](x)).chunk(2, -1)
            return x + self.down(F.silu(a) * b)

    embed = nn.Embedding(16000, width)
    layers = nn.Sequential(*[Layer() for _ in range(4)], nn.RMSNorm(width)).cuda()
    head = nn.Linear(width, 16000, bias=False)
    head.weight = embed.weight
    embed.cuda(), head.cuda()
    optimizer = torch.optim.AdamW([*layers.parameters(), *embed.parameters()], lr=1e-4, fused=True)
    tokens = torch.randint(0, 16000, (n, length + 1), device="cuda")
    yield
    for _ in range(3):
        with torch.autocast("cuda", torch.bfloat16):
            logits = head(layers(embed(tokens[:, :-1])))
            loss = F.cross_entropy(logits.float().view(-1, 16000), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
        optimizer.step()
        yield


def flexible_attention(n: int = 4) -> Iterator[None]:
    """flex_attention without compilation, with a score of one's own and a block mask."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    warnings.filterwarnings("ignore")
    qkv = nn.Linear(256, 768).cuda()
    slopes = torch.exp2(-torch.arange(1, 5, device="cuda").float())
    optimizer = torch.optim.Adam(qkv.parameters())
    x = torch.randn(n, 512, 256, device="cuda")
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512, device="cuda")
    yield

    def alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return score + slopes[h] * (k - q)

    for _ in range(3):
        q, k, v = qkv(x).view(n, 512, 3, 4, 64).permute(2, 0, 3, 1, 4)
        out = flex_attention(q, k, v, score_mod=alibi, block_mask=mask)
        assert isinstance(out, Tensor)
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def encoder_inference(n: int = 64) -> Iterator[None]:
    """nn.TransformerEncoder in inference, its fast path with padding: nested tensors."""
    warnings.filterwarnings("ignore")
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    net = nn.TransformerEncoder(layer, 6, enable_nested_tensor=True).cuda().eval()
    x = torch.randn(n, 128, 512, device="cuda")
    lengths = torch.arange(n, device="cuda") % 64 + 64
    padding = torch.arange(128, device="cuda")[None] >= lengths[:, None]
    yield
    for _ in range(3):
        with torch.no_grad():
            out = net(x, src_key_padding_mask=padding)
            plain = net(x)
        del out, plain
        yield


def translation(n: int = 32) -> Iterator[None]:
    """nn.Transformer whole with masks of padding and of the future, a schedule by Noam, labels smoothed."""
    net = nn.Transformer(256, 8, 3, 3, 1024, 0.1, batch_first=True).cuda()
    source, target = nn.Embedding(10000, 256).cuda(), nn.Embedding(10000, 256).cuda()
    head = nn.Linear(256, 10000).cuda()
    parts = (net, source, target, head)
    optimizer = torch.optim.Adam([p for m in parts for p in m.parameters()], betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 256**-0.5 * min((s + 1) ** -0.5, (s + 1) * 1e-6))
    x, y = torch.randint(1, 10000, (n, 64), device="cuda"), torch.randint(1, 10000, (n, 65), device="cuda")
    x[:, 50:] = 0
    yield
    for _ in range(3):
        future = net.generate_square_subsequent_mask(64, device="cuda").isinf()
        h = net(
            source(x) * math.sqrt(256), target(y[:, :-1]) * 16, tgt_mask=future,
            src_key_padding_mask=x == 0, memory_key_padding_mask=x == 0, tgt_key_padding_mask=y[:, :-1] == 0,
        )  # fmt: skip
        loss = F.cross_entropy(head(h).flatten(0, 1), y[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        yield


def ragged_attention(n: int = 32) -> Iterator[None]:
    """Nested tensors: sentences of several lengths without padding, through attention."""
    embed, qkv = nn.Embedding(5000, 256).cuda(), nn.Linear(256, 768).cuda()
    head = nn.Linear(256, 5000).cuda()
    parts = (embed, qkv, head)
    optimizer = torch.optim.Adam([p for m in parts for p in m.parameters()])
    sentences = [torch.randint(0, 5000, (32 + 3 * i,), device="cuda") for i in range(n)]
    tokens = torch.nested.nested_tensor(sentences, layout=torch.jagged)
    yield
    for _ in range(3):
        h = embed(tokens)
        q, k, v = (t.unflatten(-1, [4, 64]).transpose(1, 2) for t in qkv(h).chunk(3, -1))
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        loss = F.cross_entropy(head(out).values(), tokens.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


@torch.jit.script
def gated(x: Tensor, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c) + x, c


def scripted_cells(n: int = 256) -> Iterator[None]:
    """An LSTM of one's own whose gates are TorchScript, fused on a GPU."""
    inputs, hidden = nn.Linear(256, 1024).cuda(), nn.Linear(256, 1024).cuda()
    optimizer = torch.optim.Adam([*inputs.parameters(), *hidden.parameters()])
    x, y = torch.randn(n, 40, 256, device="cuda"), torch.randn(n, 256, device="cuda")
    yield
    for _ in range(3):
        h, c = torch.zeros(n, 256, device="cuda"), torch.zeros(n, 256, device="cuda")
        for t in range(x.shape[1]):
            h, c = gated(x[:, t], inputs(x[:, t]) + hidden(h), c)
        loss = F.huber_loss(h, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def generation(n: int = 8) -> Iterator[None]:
    """transformers' generate() with a cache, greedily, sampling, and with beams."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    net = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=512, n_head=8)).cuda().eval()
    prompt = torch.randint(0, 50000, (n, 64), device="cuda")
    ways: list[dict[str, Any]] = [{}, {"do_sample": True, "top_k": 50, "top_p": 0.9}, {"num_beams": 3}]
    yield
    for way in ways:
        net.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=16, min_new_tokens=16, pad_token_id=0, **way
        )
        yield


def trainer(n: int = 8) -> Iterator[None]:
    """transformers' Trainer with checkpointing, bf16, and gradients accumulated."""
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    warnings.filterwarnings("ignore")
    net = BertForSequenceClassification(BertConfig(num_hidden_layers=6, hidden_size=384, num_attention_heads=6))
    g = torch.Generator().manual_seed(0)
    rows = [
        {"input_ids": torch.randint(0, 30000, (128,), generator=g), "labels": i % 2, "attention_mask": torch.ones(128)}
        for i in range(6 * n)
    ]
    yield
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=str(Path(folder) / "out"), per_device_train_batch_size=n, max_steps=3, bf16=True, report_to=[],
            gradient_accumulation_steps=2, gradient_checkpointing=True, save_strategy="no", disable_tqdm=True,
            logging_steps=1,
        )  # fmt: skip
        Trainer(net, arguments, train_dataset=rows).train()  # type: ignore[arg-type]
    yield


def policy_gradient(n: int = 1024) -> Iterator[None]:
    """PPO on environments in tensors: a rollout kept on the GPU, advantages backwards, minibatches by a permutation."""
    net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 9)).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, eps=1e-5)
    steps, state = 64, torch.randn(n, 64, device="cuda")
    yield
    for _ in range(3):
        kept: list[tuple[Tensor, ...]] = []
        with torch.no_grad():
            for _ in range(steps):
                out = net(state)
                policy = torch.distributions.Categorical(logits=out[:, :8])
                action = policy.sample()
                reward = state.mean(1) * (action == 3)
                kept.append((state, action, policy.log_prob(action), out[:, 8], reward))
                state = 0.9 * state + 0.1 * torch.randn_like(state)
        states, actions, logs, values, rewards = (torch.stack(t) for t in zip(*kept, strict=True))
        advantages, last = torch.zeros_like(rewards), torch.zeros(n, device="cuda")
        for t in reversed(range(steps - 1)):
            last = rewards[t] + 0.99 * values[t + 1] - values[t] + 0.95 * 0.99 * last
            advantages[t] = last
        returns = advantages + values
        for rows in torch.randperm(steps * n, device="cuda").chunk(4):
            out = net(states.flatten(0, 1)[rows])
            policy = torch.distributions.Categorical(logits=out[:, :8])
            ratio = (policy.log_prob(actions.flatten()[rows]) - logs.flatten()[rows]).exp()
            a = advantages.flatten()[rows]
            a = (a - a.mean()) / (a.std() + 1e-8)
            loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean() - 0.01 * policy.entropy().mean()
            loss = loss + 0.5 * (out[:, 8] - returns.flatten()[rows]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
        yield

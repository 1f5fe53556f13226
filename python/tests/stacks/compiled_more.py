"""More compiled steps as people write them: `compiled_more.py CASE`. Without CASE it lists them."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from compiled import images, llama, lm_loss, tokens, train

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class CausalAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return F.dropout(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c)), self.dropout, self.training)


class NanoBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.ln_1, self.attn = Norm(width), CausalAttention(width, heads, dropout)
        self.ln_2 = Norm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width, bias=False),
            nn.GELU(),
            nn.Linear(4 * width, width, bias=False),
            nn.Dropout(dropout),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    def __init__(self, vocab=50304, width=640, heads=10, layers=6, length=1024, dropout=0.1):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(NanoBlock(width, heads, dropout) for _ in range(layers))
        self.ln_f, self.lm_head = Norm(width), nn.Linear(width, vocab, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = F.dropout(self.wte(idx) + self.wpe(pos), 0.1, self.training)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


@case
def nanogpt_tied_accumulation():
    m = NanoGPT().cuda()
    decay = [p for p in m.parameters() if p.dim() >= 2]
    groups = [
        {"params": decay, "weight_decay": 0.1},
        {"params": [p for p in m.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    o = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    c = torch.compile(m)
    ctx = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        for _ in range(3):
            x = torch.randint(0, 50304, (6, 1024)).pin_memory().to("cuda", non_blocking=True)
            with ctx:
                _, loss = c(x, x)
                loss = loss / 3
            loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        o.zero_grad(set_to_none=True)


@case
def vit_blocks_fp16_scaler():
    import torchvision

    m = torchvision.models.vit_b_32(image_size=224).cuda()
    for block in m.encoder.layers:
        block.compile()
    train(m, images(64), amp=torch.float16, scaler=True, clip=1.0)


class Residual(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(32, i), nn.Conv2d(i, o, 3, padding=1)
        self.t = nn.Linear(t, o)
        self.n2, self.c2 = nn.GroupNorm(32, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.c2(F.dropout(F.silu(self.n2(h)), 0.1, self.training))


class Attend2d(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(32, c)
        self.qkv, self.out = nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h, w)
        return x + self.out(y)


class Denoiser(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(w, 4 * w), nn.SiLU(), nn.Linear(4 * w, 4 * w))
        self.stem = nn.Conv2d(3, w, 3, padding=1)
        self.d1, self.d2, self.d3 = Residual(w, w, 4 * w), Residual(w, 2 * w, 4 * w), Residual(2 * w, 4 * w, 4 * w)
        self.down1, self.down2 = nn.Conv2d(w, w, 3, 2, 1), nn.Conv2d(2 * w, 2 * w, 3, 2, 1)
        self.mid = Attend2d(4 * w)
        self.u2, self.u1 = Residual(6 * w, 2 * w, 4 * w), Residual(3 * w, w, 4 * w)
        self.out = nn.Sequential(nn.GroupNorm(32, w), nn.SiLU(), nn.Conv2d(w, 3, 3, padding=1))
        self.w = w

    def forward(self, x, t):
        f = torch.exp(-9.2 * torch.arange(self.w // 2, device=x.device) / (self.w // 2))
        e = t[:, None].float() * f[None]
        e = self.time(torch.cat([e.sin(), e.cos()], 1))
        a = self.d1(self.stem(x), e)
        b = self.d2(self.down1(a), e)
        c = self.mid(self.d3(self.down2(b), e))
        y = self.u2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1), e)
        return self.out(self.u1(torch.cat([F.interpolate(y, scale_factor=2.0), a], 1), e))


@case
def unet_diffusion_ema():
    m = Denoiser().cuda()
    ema = copy.deepcopy(m).requires_grad_(False)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    c = torch.compile(m)
    alphas = torch.linspace(0.9999, 0.01, 1000, device="cuda")
    for _ in range(4):
        x = torch.randn(32, 3, 64, 64, device="cuda")
        t = torch.randint(0, 1000, (32,), device="cuda")
        noise = torch.randn_like(x)
        a = alphas[t][:, None, None, None]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.mse_loss(c(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        loss.backward()
        o.step()
        o.zero_grad()
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(m.parameters()), 0.001)


class Scan(nn.Module):
    """A gated linear recurrence in chunks, as in Mamba 2's own text."""

    def __init__(self, width=512, heads=8, state=32, chunk=64):
        super().__init__()
        self.heads, self.state, self.chunk, inner = heads, state, chunk, 2 * width
        self.norm = nn.RMSNorm(width)
        self.inp = nn.Linear(width, 2 * inner + 2 * state + heads)
        self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.a, self.out = nn.Parameter(torch.zeros(heads)), nn.Linear(inner, width)

    def forward(self, u):
        b, t, _ = u.shape
        n, inner = t // self.chunk, self.out.in_features
        z, x, p, q, dt = self.inp(self.norm(u)).split([inner, inner, self.state, self.state, self.heads], -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))
        dt = F.softplus(dt)
        x = (x.view(b, t, self.heads, -1) * dt[..., None]).view(b, n, self.chunk, self.heads, -1)
        p, q = p.view(b, n, self.chunk, -1), q.view(b, n, self.chunk, -1)
        decay = (-self.a.exp() * dt).view(b, n, self.chunk, self.heads).permute(0, 3, 1, 2).cumsum(-1)
        gap = decay[..., :, None] - decay[..., None, :]
        causal = torch.ones(self.chunk, self.chunk, dtype=torch.bool, device=u.device).tril()
        within = torch.exp(gap.masked_fill(~causal, -torch.inf))
        y = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", q, p, within, x)
        left = torch.exp(decay[..., -1:] - decay)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", p, left, x)
        carried = [torch.zeros_like(states[:, 0])]
        for i in range(n - 1):
            carried.append(carried[-1] * torch.exp(decay[:, :, i, -1])[..., None, None] + states[:, i])
        y = y + torch.einsum("bcln,bchpn,bhcl->bclhp", q, torch.stack(carried, 1), torch.exp(decay))
        return u + self.out(y.reshape(b, t, inner) * F.silu(z))


@case
def mamba_scan():
    m = nn.Sequential(nn.Embedding(16000, 512), *(Scan() for _ in range(4)), nn.Linear(512, 16000)).cuda()
    train(torch.compile(m), tokens(8, 512, 16000), amp=torch.bfloat16, loss=lm_loss)


class GNN(nn.Module):
    def __init__(self, width=256, layers=4):
        super().__init__()
        self.inp = nn.Linear(64, width)
        self.msg = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.upd = nn.ModuleList(nn.GRUCell(width, width) for _ in range(layers))
        self.head = nn.Linear(width, 40)

    def forward(self, x, edges):
        x = self.inp(x)
        i, j = edges
        for msg, upd in zip(self.msg, self.upd):
            m = F.relu(msg(torch.cat([x[i], x[j]], -1)))
            x = upd(torch.zeros_like(x).index_add_(0, j, m), x)
        return self.head(x)


@case
def gnn_dynamic():
    m = GNN().cuda()
    c = torch.compile(m, dynamic=True)
    o = torch.optim.Adam(m.parameters())
    for nodes, count in ((20000, 120000), (24000, 150000), (17000, 90000), (22000, 160000)):
        x, y = torch.randn(nodes, 64, device="cuda"), torch.randint(0, 40, (nodes,), device="cuda")
        F.cross_entropy(c(x, torch.randint(0, nodes, (2, count), device="cuda")), y).backward()
        o.step()
        o.zero_grad()


class DLRM(nn.Module):
    def __init__(self, tables=12, rows=100000, width=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU())
        self.last = nn.Linear(512, 1)

    def forward(self, dense, ids):
        x = self.bottom(dense)
        rows = torch.stack([x, *(t(ids[:, i]).sum(1) for i, t in enumerate(self.tables))], 1)
        z = torch.bmm(rows, rows.transpose(1, 2))
        i = torch.tril_indices(z.shape[1], z.shape[1], -1, device=z.device)
        return self.last(self.top(torch.cat([x, z[:, i[0], i[1]]], 1))).squeeze(1)


@case
def dlrm_compiled_adagrad():
    m = DLRM().cuda()
    o = torch.optim.Adagrad(m.parameters(), lr=0.01, foreach=True)
    c, step = torch.compile(m), torch.compile(lambda: o.step())
    for _ in range(4):
        dense, ids = torch.rand(8192, 13).cuda(), torch.randint(0, 100000, (8192, 12, 4)).cuda()
        F.binary_cross_entropy_with_logits(c(dense, ids), torch.rand(8192, device="cuda")).backward()
        step()
        o.zero_grad()


@case
def distilbert_lengths_recompiled():
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    m = DistilBertForSequenceClassification(DistilBertConfig(n_layers=4, num_labels=4)).cuda()
    o = torch.optim.AdamW(m.parameters(), lr=2e-5)
    c = torch.compile(m)
    for b, n in ((32, 128), (32, 200), (32, 176), (24, 240), (32, 96)):
        ids = torch.randint(0, 30522, (b, n), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = c(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                labels=torch.randint(0, 4, (b,), device="cuda"),
            ).loss
        loss.backward()
        o.step()
        o.zero_grad()


@case
def llama_lora_blocks_checkpointed():
    from peft import LoraConfig, get_peft_model

    m = llama(layers=8, width=1536).to(torch.bfloat16)
    m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    m.enable_input_require_grads()
    m = get_peft_model(m, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")).cuda()
    for layer in m.base_model.model.model.layers:
        layer.compile()
    o = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-4)
    for ids, _ in tokens(4, 1024, 16000):
        ids = ids.cuda()
        m(input_ids=ids, labels=ids).loss.backward()
        o.step()
        o.zero_grad()


@case
def vit_memory_budget():
    import timm
    import torch._functorch.config

    torch._functorch.config.activation_memory_budget = 0.3
    m = timm.create_model("deit_small_patch16_224", depth=6).cuda()
    train(torch.compile(m), images(64), amp=torch.bfloat16)


@case
def titan_selective_blocks():
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    save = {
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    }

    def context():
        count = {True: 0, False: 0}

        def policy(ctx, op, *args, **kwargs):
            if op == torch.ops.aten.mm.default:
                count[ctx.is_recompute] += 1
                return CheckpointPolicy.MUST_SAVE if count[ctx.is_recompute] % 2 else CheckpointPolicy.PREFER_RECOMPUTE
            return CheckpointPolicy.MUST_SAVE if op in save else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    class Kept(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False, context_fn=context, preserve_rng_state=False)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(16000, 640)
            blocks = (Kept(NanoBlock(640, 10, 0.0)) for _ in range(6))
            self.blocks = nn.ModuleList(torch.compile(b, fullgraph=True) for b in blocks)
            self.head = nn.Linear(640, 16000)

        def forward(self, x):
            x = self.emb(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    train(Net().to("cuda", torch.bfloat16), tokens(8, 1024, 16000), loss=lm_loss)


@case
def flex_documents_grouped():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    class Flex(nn.Module):
        def __init__(self, width=512, heads=8, groups=2):
            super().__init__()
            self.heads, self.groups, self.d = heads, groups, width // heads
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * groups * self.d)
            self.out = nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

        def forward(self, x, mask):
            b, t, c = x.shape
            h = self.norm1(x)
            q = self.q(h).view(b, t, self.heads, self.d).transpose(1, 2)
            k, v = self.kv(h).view(b, t, 2, self.groups, self.d).permute(2, 0, 3, 1, 4)
            y = flex_attention(q, k, v, block_mask=mask, enable_gqa=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            a, g = self.up(self.norm2(x)).chunk(2, -1)
            return x + self.down(F.silu(a) * g)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.head = nn.Embedding(16000, 512), nn.Linear(512, 16000)
            self.blocks = nn.ModuleList(Flex() for _ in range(6))

        def forward(self, ids, mask):
            x = self.emb(ids)
            for block in self.blocks:
                x = block(x, mask)
            return self.head(x)

    m = Net().to("cuda", torch.bfloat16)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    c = torch.compile(m)
    for _ in range(4):
        ids = torch.randint(0, 16000, (1, 8192), device="cuda")
        document = (torch.arange(8192, device="cuda") // 1500).to(torch.int32)
        mask = create_block_mask(
            lambda b, h, q, k: (document[q] == document[k]) & (q >= k), None, None, 8192, 8192, device="cuda", _compile=True
        )
        lm_loss(c(ids, mask), ids).backward()
        o.step()
        o.zero_grad()


@case
def custom_op_in_place():
    @torch.library.custom_op("more::clamp_rows_", mutates_args=("x",))
    def clamp_rows_(x: torch.Tensor, limit: float) -> None:
        x.mul_((limit / x.norm(dim=-1, keepdim=True).clamp_min(limit)))

    @torch.library.custom_op("more::topk_mask", mutates_args=())
    def topk_mask(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        kept = x.topk(k, -1).indices
        mask = torch.zeros_like(x, dtype=torch.bool).scatter_(-1, kept, True)
        return x * mask, mask

    @topk_mask.register_fake
    def _(x, k):
        return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)

    topk_mask.register_autograd(
        lambda ctx, g, _: (g * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
    )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ModuleList(nn.Linear(1024, 4096) for _ in range(5))
            self.down = nn.ModuleList(nn.Linear(4096, 1024) for _ in range(5))

        def forward(self, x):
            for up, down in zip(self.up, self.down):
                y = down(topk_mask(F.gelu(up(x)), 512)[0])
                x = x + y
            z = x.detach().clone()
            torch.ops.more.clamp_rows_(z, 10.0)
            return x + z

    data = [(torch.randn(8192, 1024), torch.randn(8192, 1024)) for _ in range(4)]
    train(torch.compile(Net().cuda()), data, loss=F.mse_loss)


@case
def triton_op_autotuned():
    import triton
    import triton.language as tl
    from torch.library import triton_op, wrap_triton

    @triton.autotune([triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024})], key=["n"])
    @triton.jit
    def relu2(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + i, mask=i < n)
        v = tl.maximum(v, 0.0)
        tl.store(out + i, v * v, mask=i < n)

    @triton_op("more::relu2", mutates_args={})
    def relu2_op(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        n = x.numel()
        wrap_triton(relu2)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out

    relu2_op.register_autograd(
        lambda ctx, g: 2 * g * F.relu(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ModuleList(nn.Linear(1024, 4096) for _ in range(6))
            self.down = nn.ModuleList(nn.Linear(4096, 1024) for _ in range(6))
            self.norm = nn.ModuleList(nn.LayerNorm(1024) for _ in range(6))

        def forward(self, x):
            for norm, up, down in zip(self.norm, self.up, self.down):
                x = x + down(relu2_op(up(norm(x))))
            return x

    data = [(torch.randn(8192, 1024).bfloat16(), torch.randn(8192, 1024).bfloat16()) for _ in range(4)]
    train(torch.compile(Net().to("cuda", torch.bfloat16)), data, loss=F.mse_loss)


class ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, targets):
        dx, dw, loss = torch.empty_like(x), torch.zeros_like(weight, dtype=torch.float32), x.new_zeros((), dtype=torch.float32)
        for i in range(0, x.shape[0], 2048):
            part, y = x[i : i + 2048], targets[i : i + 2048]
            logits = (part @ weight.t()).float()
            loss = loss + F.cross_entropy(logits, y, reduction="sum")
            p = logits.softmax(-1)
            p.scatter_add_(1, y[:, None], -torch.ones_like(p[:, :1]))
            p = (p / x.shape[0]).to(x.dtype)
            dx[i : i + 2048] = p @ weight
            dw += (p.t() @ part).float()
        ctx.save_for_backward(dx, dw.to(weight.dtype))
        return loss / x.shape[0]

    @staticmethod
    def backward(ctx, g):
        dx, dw = ctx.saved_tensors
        return dx * g, dw * g, None


@case
def chunked_loss_function():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(32000, 768)
            self.blocks = nn.ModuleList(NanoBlock(768, 12, 0.0) for _ in range(4))
            self.head = nn.Linear(768, 32000, bias=False)

        def forward(self, ids):
            x = self.emb(ids)
            for block in self.blocks:
                x = block(x)
            return ChunkedLoss.apply(x[:, :-1].flatten(0, 1), self.head.weight, ids[:, 1:].flatten())

    m = Net().to("cuda", torch.bfloat16)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    c = torch.compile(m)
    for ids, _ in tokens(8, 1025, 32000):
        c(ids.cuda()).backward()
        o.step()
        o.zero_grad()


@case
def compiled_autograd():
    import torch._dynamo

    torch._dynamo.config.compiled_autograd = True
    m = NanoGPT(vocab=16000, width=512, heads=8, layers=4, dropout=0.0).cuda()
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)

    @torch.compile
    def step(ids):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = m(ids, ids)[1]
        loss.backward()
        return loss

    for ids, _ in tokens(8, 512, 16000):
        step(ids.cuda())
        o.step()
        o.zero_grad()


@case
def reduce_overhead_convnet_scaler():
    import torchvision

    m = torchvision.models.resnet18().cuda().to(memory_format=torch.channels_last)
    data = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in images(64, 160, steps=5)]
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    train(torch.compile(m, mode="reduce-overhead"), data, optimizer=o, amp=torch.float16, scaler=True)


@case
def max_autotune_mlp_convnet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 64, 4, 4)
            self.convs = nn.ModuleList(nn.Conv2d(64, 64, 3, padding=1) for _ in range(2))
            self.fc1, self.fc2 = nn.Linear(64 * 14 * 14, 2048), nn.Linear(2048, 1000)

        def forward(self, x):
            x = self.stem(x)
            for conv in self.convs:
                x = x + F.gelu(conv(x))
            return self.fc2(F.gelu(self.fc1(F.max_pool2d(x, 4).flatten(1))))

    m = torch.compile(Net().cuda(), mode="max-autotune-no-cudagraphs")
    train(m, images(128), amp=torch.bfloat16)


@case
def muon_compiled_function():
    import torchvision

    @torch.compile
    def orthogonal(g):
        x = g.flatten(1).bfloat16()
        x = x / (x.norm() + 1e-7)
        x = x.T if g.shape[0] > x.shape[1] else x
        for _ in range(5):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return (x.T if g.shape[0] > g[0].numel() else x).reshape(g.shape).to(g.dtype)

    m = torchvision.models.resnet18().cuda()
    c = torch.compile(m)
    momentum = {p: torch.zeros_like(p) for p in m.parameters() if p.dim() == 4}
    rest = torch.optim.AdamW([p for p in m.parameters() if p.dim() != 4], lr=1e-3)
    for x, y in images(64, 160):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(c(x.cuda()), y.cuda())
        loss.backward()
        with torch.no_grad():
            for p, v in momentum.items():
                v.lerp_(p.grad, 0.05)
                p.add_(orthogonal(v), alpha=-0.02)
                p.grad = None
        rest.step()
        rest.zero_grad()


@case
def static_cache_decoding():
    class Cached(nn.Module):
        def __init__(self, width=1024, heads=16, batch=8, length=2048):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
            self.register_buffer("k", torch.zeros(batch, heads, length, width // heads))
            self.register_buffer("v", torch.zeros(batch, heads, length, width // heads))

        def forward(self, x, position, mask):
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            self.k[:, :, position], self.v[:, :, position] = k, v
            y = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.mlp(self.norm2(x))

    class Decoder(nn.Module):
        def __init__(self, layers=8):
            super().__init__()
            self.emb, self.head = nn.Embedding(32000, 1024), nn.Linear(1024, 32000, bias=False)
            self.blocks = nn.ModuleList(Cached() for _ in range(layers))
            self.register_buffer("causal", torch.ones(2048, 2048, dtype=torch.bool).tril())

        def forward(self, ids, position):
            x, mask = self.emb(ids), self.causal[None, None, position]
            for block in self.blocks:
                x = block(x, position, mask)
            return self.head(x[:, -1:]).argmax(-1)

    with torch.inference_mode():
        m = Decoder().to("cuda", torch.bfloat16).eval()
        decode = torch.compile(m, mode="reduce-overhead", fullgraph=True)
        ids = m(torch.randint(0, 32000, (8, 512), device="cuda"), torch.arange(512, device="cuda"))
        position = torch.tensor([512], device="cuda")
        for _ in range(24):
            ids = decode(ids, position).clone()
            position += 1


class Generator(nn.Sequential):
    def __init__(self, z=128, w=64):
        def up(i, o):
            return [nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]

        first = [nn.ConvTranspose2d(z, 8 * w, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * w), nn.ReLU(True)]
        last = [nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh()]
        super().__init__(*first, *up(8 * w, 4 * w), *up(4 * w, 2 * w), *up(2 * w, w), *last)


class Critic(nn.Sequential):
    def __init__(self, w=64):
        layers, i = [], 3
        for o in (w, 2 * w, 4 * w, 8 * w):
            layers += [nn.utils.parametrizations.spectral_norm(nn.Conv2d(i, o, 4, 2, 1)), nn.LeakyReLU(0.2, True)]
            i = o
        super().__init__(*layers, nn.Conv2d(8 * w, 1, 4))


@case
def gan_two_models():
    g, d = Generator().cuda(), Critic().cuda()
    cg, cd = torch.compile(g), torch.compile(d)
    og = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    od = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    for _ in range(4):
        real = torch.randn(128, 3, 64, 64, device="cuda")
        fake = cg(torch.randn(128, 128, 1, 1, device="cuda"))
        loss = F.relu(1 - cd(real)).mean() + F.relu(1 + cd(fake.detach())).mean()
        loss.backward()
        od.step()
        od.zero_grad()
        (-cd(fake).mean()).backward()
        og.step()
        og.zero_grad()
        od.zero_grad()


@case
def whole_step_compiled():
    import torchvision

    m = torchvision.models.mobilenet_v2(num_classes=100).cuda()
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, foreach=True)

    @torch.compile
    def step(x, y):
        o.zero_grad(set_to_none=True)
        loss = F.cross_entropy(m(x), y, label_smoothing=0.1)
        loss.backward()
        o.step()
        return loss.detach()

    for x, y in images(32, 160, classes=100):
        step(x.cuda(), y.cuda())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("\n".join(CASES))
    else:
        torch.manual_seed(0)
        CASES[sys.argv[1]]()

"""Compiled training steps and inferences, as people write them: `compiled.py CASE`. Without CASE it lists them.

Each case builds a model with random weights, compiles something, and runs a few steps on random data on `cuda`.
"""

import contextlib
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def train(model, batches, *, step=None, optimizer=None, amp=None, scaler=False, loss=None, clip=0.0):
    """A plain loop; `batches` is a list of (inputs, targets)."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss = loss or F.cross_entropy
    scale = torch.amp.GradScaler("cuda", enabled=scaler)
    step = step or optimizer.step
    for inputs, targets in batches:
        inputs, targets = inputs.to("cuda"), targets.to("cuda")
        with torch.autocast("cuda", dtype=amp) if amp else contextlib.nullcontext():
            out = model(inputs)
            value = loss(out, targets)
        scale.scale(value).backward()
        if clip:
            scale.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        if scaler:
            scale.step(optimizer)
            scale.update()
        else:
            step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()


def images(batch, size=224, steps=4, classes=1000):
    return [(torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))) for _ in range(steps)]


def tokens(batch, length, vocab, steps=4):
    return [(t := torch.randint(0, vocab, (batch, length)), t) for _ in range(steps)]


def lm_loss(out, targets):
    logits = out.logits if hasattr(out, "logits") else out
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets[:, 1:].flatten())


def llama(layers=6, width=768, vocab=16000, **more):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab,
            hidden_size=width,
            intermediate_size=2048,
            num_hidden_layers=layers,
            num_attention_heads=12,
            num_key_value_heads=4,
            use_cache=False,
            **more,
        )
    )


class Block(nn.Module):
    def __init__(self, width, heads, attend=None):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if self.attend is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = self.attend(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab=16000, width=512, heads=8, layers=6, length=1024, attend=None, block=Block):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(block(width, heads, attend) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.recompute = None

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        for block in self.blocks:
            x = block(x) if self.recompute is None else self.recompute(block, x)
        return self.head(self.norm(x))


@case
def resnet50_fp32():
    import torchvision

    m = torchvision.models.resnet50().cuda()
    o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    train(torch.compile(m), images(32), optimizer=o)


@case
def resnet50_channels_last_bf16():
    import torchvision

    m = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    data = [(x.contiguous(memory_format=torch.channels_last), y) for x, y in images(64)]
    train(torch.compile(m), data, amp=torch.bfloat16)


def timm_case(name, batch, size=224, amp=torch.bfloat16, dtype=torch.float32, **more):
    import timm

    m = timm.create_model(name, **more).to("cuda", dtype)
    train(torch.compile(m), [(x.to(dtype), y) for x, y in images(batch, size)], amp=amp)


@case
def convnext_tiny_bf16():
    timm_case("convnext_tiny", 48)


@case
def vit_small_bf16():
    timm_case("vit_small_patch16_224", 64, drop_path_rate=0.1)


@case
def vit_base_weights_bf16():
    timm_case("vit_base_patch16_224", 32, amp=None, dtype=torch.bfloat16)


@case
def swin_tiny_bf16():
    timm_case("swin_tiny_patch4_window7_224", 32)


@case
def efficientnet_b0_bf16():
    timm_case("efficientnet_b0", 64, drop_rate=0.2)


@case
def mobilenetv3_fp32():
    timm_case("mobilenetv3_large_100", 64, amp=None)


@case
def regnet_fp16_scaler():
    import timm

    m = timm.create_model("regnety_016").cuda()
    train(torch.compile(m), images(48), amp=torch.float16, scaler=True)


@case
def gpt2_bf16_fused():
    from transformers import GPT2Config, GPT2LMHeadModel

    m = GPT2LMHeadModel(GPT2Config(n_layer=8, use_cache=False)).cuda()
    o = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True)
    train(torch.compile(m), tokens(6, 1024, 50257), optimizer=o, amp=torch.bfloat16, loss=lm_loss, clip=1.0)


@case
def llama_weights_bf16():
    m = llama().to("cuda", torch.bfloat16)
    train(torch.compile(m), tokens(4, 1024, 16000), loss=lm_loss)


@case
def llama_blocks():
    m = llama().to("cuda", torch.bfloat16)
    for layer in m.model.layers:
        layer.compile()
    train(m, tokens(4, 1024, 16000), loss=lm_loss)


@case
def llama_checkpointed():
    m = llama().to("cuda", torch.bfloat16)
    m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    train(torch.compile(m), tokens(8, 1024, 16000), loss=lm_loss)


@case
def gpt_blocks_checkpointed_around():
    m = GPT().cuda()
    for i, b in enumerate(m.blocks):
        m.blocks[i] = torch.compile(b)
    m.recompute = lambda block, x: checkpoint(block, x, use_reentrant=False)
    train(m, tokens(8, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)


@case
def gpt_checkpointed_inside():
    m = GPT().cuda()
    m.recompute = lambda block, x: checkpoint(block, x, use_reentrant=False)
    train(torch.compile(m), tokens(8, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)


@case
def gpt_selective_checkpoint():
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    keep = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op in keep else CheckpointPolicy.PREFER_RECOMPUTE

    def context():
        return create_selective_checkpoint_contexts(policy)

    m = GPT().cuda()
    m.recompute = lambda block, x: checkpoint(block, x, use_reentrant=False, context_fn=context)
    train(torch.compile(m), tokens(8, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)


@case
def gpt_memory_budget():
    import torch._functorch.config

    torch._functorch.config.activation_memory_budget = 0.5
    train(torch.compile(GPT().cuda()), tokens(8, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)


@case
def qwen_lora():
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    m = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=32000,
            hidden_size=896,
            intermediate_size=2432,
            num_hidden_layers=8,
            num_attention_heads=14,
            num_key_value_heads=2,
            use_cache=False,
        )
    ).to(torch.bfloat16)
    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    m = get_peft_model(m, LoraConfig(r=16, target_modules=names, lora_dropout=0.05)).cuda()
    o = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-4)
    c = torch.compile(m)
    for ids, _ in tokens(4, 1024, 32000):
        ids = ids.cuda()
        c(input_ids=ids, labels=ids).loss.backward()
        o.step()
        o.zero_grad()


@case
def bert_fp32():
    from transformers import BertConfig, BertForMaskedLM

    m = BertForMaskedLM(BertConfig(num_hidden_layers=6)).cuda()
    loss = lambda out, t: F.cross_entropy(out.logits.flatten(0, 1), t.flatten())  # noqa: E731
    train(torch.compile(m), tokens(16, 256, 30522), loss=loss)


@case
def t5_bf16():
    from transformers import T5Config, T5ForConditionalGeneration

    m = T5ForConditionalGeneration(
        T5Config(
            d_model=512, d_ff=1024, num_layers=4, num_heads=8, use_cache=False, decoder_start_token_id=0, pad_token_id=0
        )
    ).cuda()
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    c = torch.compile(m)
    for ids, _ in tokens(16, 256, 32000):
        ids = ids.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = c(input_ids=ids, labels=ids[:, :64].contiguous()).loss
        loss.backward()
        o.step()
        o.zero_grad()


@case
def gpt_accumulation():
    m = GPT(layers=8, width=768, heads=12).cuda()
    o = torch.optim.AdamW(m.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
    c = torch.compile(m)
    for _ in range(3):
        for ids, _ in tokens(8, 1024, 16000, steps=4):
            ids = ids.pin_memory().to("cuda", non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                logits = c(ids)
                loss = F.cross_entropy(logits.view(-1, 16000), ids.view(-1)) / 4
            loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        o.zero_grad(set_to_none=True)


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        self.b = nn.Sequential(
            nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 128, 3, 1, 1)
        )
        self.c = nn.Linear(128, 1000)
        self.seen = 0

    def forward(self, x):
        x = self.a(x)
        torch._dynamo.graph_break()
        x = torch.relu(self.b(x))
        print("mean", tuple(x.shape), file=sys.stderr)
        return self.c(x.mean((2, 3)))


@case
def graph_breaks():
    train(torch.compile(Breaks().cuda()), images(32, 128))


@case
def dynamic_lengths():
    m = GPT(layers=4).cuda()
    data = [(t := torch.randint(0, 16000, (8, n)), t) for n in (512, 640, 768, 320)]
    train(torch.compile(m, dynamic=True), data, amp=torch.bfloat16, loss=lm_loss)


@case
def last_batch_short():
    import torchvision

    m = torchvision.models.resnet18().cuda()
    train(torch.compile(m), images(64, 160, steps=3) + images(40, 160, steps=1) + images(64, 160, steps=1))


@case
def compiled_optimizer():
    m = GPT(layers=6).cuda()
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    train(torch.compile(m), tokens(4, 512, 16000), optimizer=o, step=torch.compile(lambda: o.step()), loss=lm_loss)


@case
def compiled_loss():
    @torch.compile
    def loss(logits, targets):
        x = logits[:, :-1].flatten(0, 1).float()
        return F.cross_entropy(x, targets[:, 1:].flatten()) + 1e-4 * torch.logsumexp(x, -1).pow(2).mean()

    train(GPT(vocab=32000, layers=4).cuda(), tokens(8, 1024, 32000), amp=torch.bfloat16, loss=loss)


class Mixer(nn.Module):
    def __init__(self, width=512, patches=196, depth=8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 16, 16)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    nn.Sequential(nn.Linear(patches, 256), nn.GELU(), nn.Linear(256, patches)),
                    nn.LayerNorm(width),
                    nn.Sequential(nn.Linear(width, 2048), nn.GELU(), nn.Dropout(0.1), nn.Linear(2048, width)),
                ]
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for n1, tokens_, n2, channels in self.layers:
            x = x + tokens_(n1(x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(n2(x))
        return self.head(x.mean(1))


@case
def fullgraph_mixer():
    train(torch.compile(Mixer().cuda(), fullgraph=True), images(64), amp=torch.bfloat16)


@case
def flex_causal():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 1024, 1024, device="cuda")
    attend = lambda q, k, v: flex_attention(q, k, v, block_mask=mask)  # noqa: E731
    train(torch.compile(GPT(attend=attend).cuda()), tokens(8, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)


@case
def flex_alibi_window():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    flex = torch.compile(flex_attention)
    slope = torch.linspace(0.1, 1.0, 8, device="cuda")
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 256), None, None, 1024, 1024, device="cuda")
    bias = lambda s, b, h, q, k: s - slope[h] * (q - k)  # noqa: E731
    m = GPT(layers=4, attend=lambda q, k, v: flex(q, k, v, score_mod=bias, block_mask=mask))
    train(m.to("cuda", torch.bfloat16), tokens(4, 1024, 16000), loss=lm_loss)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = F.relu(x)
        ctx.save_for_backward(y)
        return y * y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return 2 * g * y


class SquaredBlock(Block):
    def __init__(self, width, heads, attend=None):
        super().__init__(width, heads, attend)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        del self.mlp

    def mlp(self, x):
        return self.down(Squared.apply(self.up(x)))


@case
def autograd_function():
    train(torch.compile(GPT(block=SquaredBlock).cuda()), tokens(4, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)


@case
def custom_operator():
    @torch.library.custom_op("cases::scaled_tanh", mutates_args=())
    def scaled_tanh(x: torch.Tensor, s: float) -> torch.Tensor:
        return torch.tanh(x) * s

    @scaled_tanh.register_fake
    def _(x, s):
        return torch.empty_like(x)

    scaled_tanh.register_autograd(
        lambda ctx, g: (g * ctx.s * (1 - (ctx.saved_tensors[0] / ctx.s) ** 2), None),
        setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(output), setattr(ctx, "s", inputs[1]))[0],
    )

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2048, 2048) for _ in range(8))
            self.head = nn.Linear(2048, 1000)

        def forward(self, x):
            for layer in self.layers:
                x = scaled_tanh(layer(x), 1.7)
            return self.head(x)

    train(torch.compile(Net().cuda()), [(torch.randn(8192, 2048), torch.randint(0, 1000, (8192,))) for _ in range(4)])


@case
def triton_kernel_in_graph():
    import triton
    import triton.language as tl

    @triton.jit
    def silu_mul(a, b, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(a + i, mask=i < n).to(tl.float32)
        y = tl.load(b + i, mask=i < n).to(tl.float32)
        tl.store(out + i, x * tl.sigmoid(x) * y, mask=i < n)

    class Swiglu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            out = torch.empty_like(a)
            silu_mul[(triton.cdiv(a.numel(), 1024),)](a, b, out, a.numel(), BLOCK=1024)
            return out

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            s = torch.sigmoid(a)
            return g * b * s * (1 + a * (1 - s)), g * a * s

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.ModuleList(nn.Linear(1024, 5632) for _ in range(6))
            self.down = nn.ModuleList(nn.Linear(2816, 1024) for _ in range(6))

        def forward(self, x):
            for up, down in zip(self.up, self.down):
                a, b = up(x).chunk(2, -1)
                x = x + down(Swiglu.apply(a.contiguous(), b.contiguous()))
            return x

    loss = lambda out, t: F.mse_loss(out, t)  # noqa: E731
    data = [(torch.randn(8192, 1024), torch.randn(8192, 1024)) for _ in range(4)]
    train(torch.compile(Net().cuda()), data, loss=loss)


@case
def reduce_overhead_gpt():
    train(
        torch.compile(GPT(layers=4).cuda(), mode="reduce-overhead"),
        tokens(8, 512, 16000, 5),
        amp=torch.bfloat16,
        loss=lm_loss,
    )


@case
def reduce_overhead_inference():
    import torchvision

    m = torch.compile(torchvision.models.resnet18().cuda().eval(), mode="reduce-overhead")
    with torch.no_grad():
        for x, _ in images(64, steps=5):
            m(x.cuda())


@case
def max_autotune_no_cudagraphs():
    class Net(nn.Sequential):
        def __init__(self):
            super().__init__(*(m for _ in range(4) for m in (nn.Linear(2048, 2048), nn.GELU())), nn.Linear(2048, 1000))

    m = torch.compile(Net().to("cuda", torch.bfloat16), mode="max-autotune-no-cudagraphs")
    train(m, [(torch.randn(4096, 2048).bfloat16(), torch.randint(0, 1000, (4096,))) for _ in range(4)])


@case
def max_autotune_inference():
    m = torch.compile(GPT(layers=2).to("cuda", torch.bfloat16).eval(), mode="max-autotune")
    with torch.inference_mode():
        for ids, _ in tokens(8, 512, 16000):
            m(ids.cuda())


@case
def backend_eager():
    train(
        torch.compile(GPT(layers=4).cuda(), backend="eager"), tokens(4, 1024, 16000), amp=torch.bfloat16, loss=lm_loss
    )


@case
def backend_aot_eager():
    train(
        torch.compile(GPT(layers=4).cuda(), backend="aot_eager"),
        tokens(4, 1024, 16000),
        amp=torch.bfloat16,
        loss=lm_loss,
    )


@case
def backend_cudagraphs():
    train(torch.compile(Mixer(depth=4).cuda(), backend="cudagraphs"), images(64, steps=5))


@case
def resnet50_inference():
    import torchvision

    m = torch.compile(torchvision.models.resnet50().cuda().eval())
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for x, _ in images(64):
            m(x.cuda())


@case
def llama_inference():
    m = torch.compile(llama().to("cuda", torch.bfloat16).eval())
    with torch.inference_mode():
        for ids, _ in tokens(8, 1024, 16000):
            m(ids.cuda())


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.lstm = nn.Embedding(20000, 256), nn.LSTM(256, 512, 2, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 64))

    def forward(self, x):
        return self.head(self.lstm(self.emb(x))[0])


@case
def lstm_tagger():
    loss = lambda out, t: F.cross_entropy(out.flatten(0, 1), t.flatten() % 64)  # noqa: E731
    train(torch.compile(Tagger().cuda()), tokens(64, 256, 20000), loss=loss, clip=1.0)


class UNet(nn.Module):
    def __init__(self, w=64):
        super().__init__()

        def double(i, o):
            return nn.Sequential(
                nn.Conv2d(i, o, 3, padding=1),
                nn.GroupNorm(8, o),
                nn.SiLU(),
                nn.Conv2d(o, o, 3, padding=1),
                nn.GroupNorm(8, o),
                nn.SiLU(),
            )

        self.d1, self.d2, self.d3, self.mid = double(3, w), double(w, 2 * w), double(2 * w, 4 * w), double(4 * w, 8 * w)
        self.u3, self.u2, self.u1 = double(12 * w, 4 * w), double(6 * w, 2 * w), double(3 * w, w)
        self.head = nn.Conv2d(w, 3, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        y = F.interpolate(self.mid(F.max_pool2d(c, 2)), scale_factor=2, mode="bilinear")
        y = F.interpolate(self.u3(torch.cat([y, c], 1)), scale_factor=2, mode="nearest")
        y = F.interpolate(self.u2(torch.cat([y, b], 1)), scale_factor=2, mode="nearest")
        return self.head(self.u1(torch.cat([y, a], 1)))


@case
def unet_fp16_scaler():
    data = [(torch.randn(8, 3, 256, 256), torch.randn(8, 3, 256, 256)) for _ in range(4)]
    train(torch.compile(UNet().cuda()), data, amp=torch.float16, scaler=True, loss=F.mse_loss)


@case
def decorated_functions():
    @torch.compile
    def rms_norm(x, w):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w

    @torch.compile
    def swiglu(a, b):
        return F.silu(a) * b

    class Net(nn.Module):
        def __init__(self, width=1024, depth=8):
            super().__init__()
            self.w = nn.ParameterList(nn.Parameter(torch.ones(width)) for _ in range(depth))
            self.up = nn.ModuleList(nn.Linear(width, 4 * width, bias=False) for _ in range(depth))
            self.down = nn.ModuleList(nn.Linear(2 * width, width, bias=False) for _ in range(depth))

        def forward(self, x):
            for w, up, down in zip(self.w, self.up, self.down):
                x = x + down(swiglu(*up(rms_norm(x, w)).chunk(2, -1)))
            return x

    data = [(torch.randn(8192, 1024).bfloat16(), torch.randn(8192, 1024).bfloat16()) for _ in range(4)]
    train(Net().to("cuda", torch.bfloat16), data, loss=F.mse_loss)


class MoE(nn.Module):
    def __init__(self, width=512, experts=8, classes=1000):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.w1 = nn.Parameter(torch.randn(experts, width, 4 * width) * 0.02)
        self.w2 = nn.Parameter(torch.randn(experts, 4 * width, width) * 0.02)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        h = F.gelu(torch.einsum("nd,edf->enf", x, self.w1))
        return self.head(torch.einsum("enf,efd,ne->nd", h, self.w2, p))


@case
def dense_moe():
    train(torch.compile(MoE().cuda()), [(torch.randn(4096, 512), torch.randint(0, 1000, (4096,))) for _ in range(4)])


class Audio(nn.Module):
    def __init__(self):
        super().__init__()
        layers, i = [], 1
        for o, k, s in ((256, 10, 5), (256, 8, 4), (512, 4, 2), (512, 4, 2)):
            layers += [nn.Conv1d(i, o, k, s), nn.GroupNorm(1, o), nn.GELU()]
            i = o
        self.features = nn.Sequential(*layers)
        layer = nn.TransformerEncoderLayer(512, 8, 2048, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(512, 32)

    def forward(self, x):
        return self.head(self.encoder(self.features(x).transpose(1, 2))).mean(1)


@case
def audio_encoder_bf16():
    data = [(torch.randn(8, 1, 40000), torch.randint(0, 32, (8,))) for _ in range(4)]
    train(torch.compile(Audio().cuda()), data, amp=torch.bfloat16)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(200000, 64, mode="sum") for _ in range(8))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(100, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense):
        ids = (dense[:, :8].abs() * 1e4).long() % 200000
        rows = [self.bottom(dense), *(t(ids[:, i : i + 1]) for i, t in enumerate(self.tables))]
        x = torch.stack(rows, 1)
        i, j = torch.triu_indices(9, 9, 1, device=x.device)
        return self.top(torch.cat([rows[0], torch.bmm(x, x.transpose(1, 2))[:, i, j]], 1)).squeeze(1)


@case
def recommender():
    data = [(torch.randn(16384, 13), torch.rand(16384)) for _ in range(4)]
    o = None
    m = Recommender().cuda()
    train(torch.compile(m), data, optimizer=o, loss=F.binary_cross_entropy_with_logits)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("\n".join(CASES))
    else:
        torch.manual_seed(0)
        CASES[sys.argv[1]]()
        if torch.cuda.is_available():
            s = torch.cuda.memory_stats()
            print(
                "allocated",
                torch.cuda.max_memory_allocated(),
                "reserved",
                torch.cuda.max_memory_reserved(),
                "retries",
                s["num_alloc_retries"],
            )

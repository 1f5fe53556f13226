"""Two-dimensional parallelism on four GPUs: `torchrun --nproc-per-node 4 four_gpus.py CASE`."""

import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

case = sys.argv[1]
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.manual_seed(0)


def llama(layers=16, width=2048, vocab=32000):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab,
            hidden_size=width,
            intermediate_size=5632,
            num_hidden_layers=layers,
            num_attention_heads=16,
            num_key_value_heads=8,
            use_cache=False,
        )
    )


def steps(model, optimizer, batch=2, length=1024, vocab=32000, n=3):
    for _ in range(n):
        ids = torch.randint(0, vocab, (batch, length), device="cuda")
        out = model(ids)
        logits = out.logits if hasattr(out, "logits") else out
        F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, -1, 128).transpose(1, 2) for p in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, -1))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(width, 5632, bias=False),
            nn.Linear(width, 5632, bias=False),
            nn.Linear(5632, width, bias=False),
        )

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, width=2048):
        super().__init__()
        self.n1, self.attn, self.n2, self.mlp = nn.RMSNorm(width), Attention(width, 16), nn.RMSNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Net(nn.Module):
    def __init__(self, layers=16, width=2048, vocab=32000, first=True, last=True):
        super().__init__()
        self.tok = nn.Embedding(vocab, width) if first else None
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm, self.out = (nn.RMSNorm(width), nn.Linear(width, vocab, bias=False)) if last else (None, None)

    def forward(self, x):
        if self.tok is not None:
            x = self.tok(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x)) if self.out is not None else x


def sharded(model, blocks, mesh=None):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


if not case.startswith("zero"):
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))

if case == "fsdp2":
    m = llama().cuda()
    sharded(m, m.model.layers)
    steps(m, torch.optim.AdamW(m.parameters(), lr=1e-4))
elif case == "hsdp":
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))
    m = llama().cuda()
    sharded(m, m.model.layers, mesh)
    steps(m, torch.optim.AdamW(m.parameters(), lr=1e-4))
elif case == "fsdp2_tp":
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    m = Net().cuda()
    plan = {
        "attn.q": ColwiseParallel(),
        "attn.k": ColwiseParallel(),
        "attn.v": ColwiseParallel(),
        "attn.o": RowwiseParallel(),
        "mlp.gate": ColwiseParallel(),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(),
    }
    for layer in m.layers:
        parallelize_module(layer, mesh["tp"], plan)
    sharded(m, m.layers, mesh["dp"])
    steps(m, torch.optim.AdamW(m.parameters(), lr=1e-4))
elif case in ("pipe_1f1b_ddp", "pipe_interleaved"):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "pp"))
    pp = mesh["pp"]
    at = pp.get_local_rank()
    loss = lambda out, y: F.cross_entropy(out[:, :-1].flatten(0, 1).float(), y[:, 1:].flatten())  # noqa: E731
    if case == "pipe_1f1b_ddp":
        net = Net(8, first=at == 0, last=at == 1).to("cuda", torch.bfloat16)
        part = nn.parallel.DistributedDataParallel(net, device_ids=[rank], process_group=mesh["dp"].get_group())
        schedule = Schedule1F1B(
            PipelineStage(part, at, 2, torch.device("cuda", rank), group=pp.get_group()), 4, loss_fn=loss
        )
        parts = [net]
    else:
        parts = [Net(4, first=i == 0, last=i == 3).to("cuda", torch.bfloat16) for i in (at, at + 2)]
        stages = [
            PipelineStage(p, i, 4, torch.device("cuda", rank), group=pp.get_group())
            for p, i in zip(parts, (at, at + 2))
        ]
        schedule = ScheduleInterleaved1F1B(stages, 4, loss_fn=loss)
    o = torch.optim.AdamW([p for part in parts for p in part.parameters()], lr=1e-4)
    for _ in range(3):
        ids = torch.randint(0, 32000, (8, 1024), device="cuda")
        first, last = (at == 0), (at == 1)
        if first:
            schedule.step(ids)
        else:
            schedule.step(target=ids)
        o.step()
        o.zero_grad()
elif case == "context_parallel":
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mesh = init_device_mesh("cuda", (4,), mesh_dim_names=("cp",))
    m = Net(8).to("cuda", torch.bfloat16)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    for _ in range(3):
        ids = torch.randint(0, 32000, (1, 8192), device="cuda")
        y = torch.randint(0, 32000, (1, 8192), device="cuda")
        with (
            sdpa_kernel([SDPBackend.FLASH_ATTENTION]),
            context_parallel(mesh, buffers=[ids, y], buffer_seq_dims=[1, 1]),
        ):
            F.cross_entropy(m(ids).flatten(0, 1).float(), y.flatten()).backward()
        for p in m.parameters():
            dist.all_reduce(p.grad)
        o.step()
        o.zero_grad()
elif case == "expert_parallel":
    import torch.distributed.nn.functional as dn

    class Experts(nn.Module):  # 8 experts over four ranks, tokens sent evenly
        def __init__(self, width=2048):
            super().__init__()
            self.local = nn.ModuleList(Mlp(width) for _ in range(2))

        def forward(self, x):
            b, t, c = x.shape
            sent = x.reshape(8, b * t // 8, c).contiguous()
            got = dn.all_to_all_single(torch.empty_like(sent), sent).view(4, 2, -1, c)
            done = torch.stack([self.local[i](got[:, i].reshape(-1, c)).view(4, -1, c) for i in range(2)], 1)
            back = dn.all_to_all_single(torch.empty_like(sent), done.view(8, -1, c).contiguous())
            return back.view(b, t, c)

    m = Net(8)
    for layer in m.layers:
        layer.mlp = Experts()
    m = m.to("cuda", torch.bfloat16)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    for _ in range(3):
        ids = torch.randint(0, 32000, (4, 1024), device="cuda")
        F.cross_entropy(m(ids)[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()).backward()
        for n, p in m.named_parameters():
            if ".local." not in n:
                dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
        o.step()
        o.zero_grad()
elif case == "zero3":
    import deepspeed

    deepspeed.init_distributed()
    m = llama()
    engine, *_ = deepspeed.initialize(
        model=m,
        model_parameters=m.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 2,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": 3, "overlap_comm": True, "contiguous_gradients": True},
        },
    )
    for _ in range(3):
        ids = torch.randint(0, 32000, (2, 1024), device=engine.device)
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()
elif case == "trainer_fsdp":
    import tempfile

    from torch.utils.data import Dataset
    from transformers import Trainer, TrainingArguments

    class Tokens(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            ids = torch.randint(0, 32000, (1024,), generator=torch.Generator().manual_seed(i))
            return {"input_ids": ids, "labels": ids}

    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=3,
        per_device_train_batch_size=2,
        bf16=True,
        fsdp="full_shard auto_wrap",
        fsdp_config={"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]},
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=llama(), args=args, train_dataset=Tokens()).train()
elif case == "vision_hsdp":
    import torchvision

    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))
    m = torchvision.models.vit_l_16().cuda()
    sharded(m, m.encoder.layers, mesh)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    for _ in range(3):
        x, y = torch.randn(16, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (16,), device="cuda")
        F.cross_entropy(m(x).float(), y).backward()
        o.step()
        o.zero_grad()

"""Steps on two GPUs: `torchrun --nproc-per-node 2 two_gpus.py CASE`."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from compiled import GPT, images, llama, lm_loss, tokens, train

case = sys.argv[1]
torch.manual_seed(0)
several = "RANK" in os.environ
if several:
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    if not case.startswith("zero"):
        dist.init_process_group("nccl", device_id=torch.device("cuda", rank))

if case == "ddp_resnet50":
    import torchvision

    m = nn.parallel.DistributedDataParallel(torchvision.models.resnet50().cuda(), device_ids=[rank])
    train(m, images(32), amp=torch.bfloat16)
elif case == "ddp_gpt_compiled":
    m = nn.parallel.DistributedDataParallel(GPT(layers=8, width=768, heads=12).cuda(), device_ids=[rank])
    train(torch.compile(m), tokens(4, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)
elif case == "compiled_then_ddp":
    m = nn.parallel.DistributedDataParallel(
        torch.compile(GPT(layers=8, width=768, heads=12).cuda()), device_ids=[rank], gradient_as_bucket_view=True
    )
    train(m, tokens(4, 1024, 16000), amp=torch.bfloat16, loss=lm_loss)
elif case in ("fsdp2_llama", "fsdp2_llama_blocks_compiled"):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    m = llama(layers=10, width=1536).cuda()
    if case.endswith("compiled"):
        for layer in m.model.layers:
            layer.compile()
    mp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in m.model.layers:
        fully_shard(layer, mp_policy=mp)
    fully_shard(m, mp_policy=mp)
    train(m, tokens(4, 1024, 16000), loss=lm_loss, clip=1.0)
elif case == "fsdp1_llama":
    import functools
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    mp = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, buffer_dtype=torch.float32)
    m = FSDP(
        llama(layers=10, width=1536),
        auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}),
        mixed_precision=mp,
        device_id=rank,
        use_orig_params=True,
    )
    train(m, tokens(4, 1024, 16000), loss=lm_loss)
elif case in ("zero2", "zero3"):
    import deepspeed

    deepspeed.init_distributed()
    m = llama(layers=10, width=1536)
    engine, *_ = deepspeed.initialize(
        model=m,
        model_parameters=m.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 4,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
            "bf16": {"enabled": True},
            "zero_optimization": {
                "stage": int(case[-1]),
                "overlap_comm": True,
                "contiguous_gradients": True,
                "reduce_bucket_size": 5e7,
            },
            "gradient_clipping": 1.0,
        },
    )
    for ids, _ in tokens(4, 1024, 16000):
        ids = ids.to(engine.device)
        loss = lm_loss(engine(input_ids=ids), ids)
        engine.backward(loss)
        engine.step()
elif case == "data_parallel":
    import torchvision

    train(nn.DataParallel(torchvision.models.resnet50().cuda()), images(64))
elif case == "pipeline_by_hand":

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            a, b = GPT(layers=6, width=768, heads=12), GPT(layers=6, width=768, heads=12)
            self.first, self.second = a.to("cuda:0"), b.blocks.to("cuda:1")
            self.head = nn.Linear(768, 16000, bias=False).to("cuda:1")

        def forward(self, idx):
            x = self.first.tok(idx) + self.first.pos(torch.arange(idx.shape[1], device=idx.device))
            for blk in self.first.blocks:
                x = blk(x)
            x = x.to("cuda:1")
            for blk in self.second:
                x = blk(x)
            return self.head(x)

    m = Two()
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    for ids, _ in tokens(8, 1024, 16000):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = lm_loss(m(ids.to("cuda:0")), ids.to("cuda:1"))
        loss.backward()
        o.step()
        o.zero_grad()
elif case == "device_map":
    import tempfile
    from transformers import AutoModelForCausalLM

    d = tempfile.mkdtemp()
    llama(layers=10, width=1536).to(torch.bfloat16).save_pretrained(d)
    m = AutoModelForCausalLM.from_pretrained(
        d, device_map="auto", dtype=torch.bfloat16, max_memory={0: "400MiB", 1: "4GiB"}
    )
    from peft import LoraConfig, get_peft_model

    m = get_peft_model(m, LoraConfig(r=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    o = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-4)
    for ids, _ in tokens(4, 1024, 16000):
        ids = ids.cuda(0)
        m(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        o.step()
        o.zero_grad()
if torch.cuda.is_available():
    print(
        "devices",
        [
            (torch.cuda.max_memory_allocated(i), torch.cuda.max_memory_reserved(i))
            for i in range(torch.cuda.device_count())
        ],
    )
if several:
    dist.destroy_process_group()

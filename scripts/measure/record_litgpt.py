"""LitGPT's fine-tuning steps: estimate/testdata/published_gpus/litgpt.tar.zst.

    python -m memestimate record --seconds 0 --gpu a100-40gb record_litgpt.py phi-1_5 lora none 1 1044

The model, lora or adapter, none or bitsandbytes' mode, the batch and the length of its longest sample.
"""

import sys
import torch
from lightning.fabric import Fabric
from lightning.fabric.plugins import BitsandbytesPrecision

name, method, quant, batch, length = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
from litgpt.utils import chunked_cross_entropy
from litgpt.config import Config as Base

if method == "lora":
    from litgpt.lora import GPT, Config, mark_only_lora_as_trainable as mark

    more = dict(lora_r=8, lora_alpha=16, lora_dropout=0.05, lora_query=True, lora_value=True)
elif method == "adapter":
    from litgpt.adapter import GPT, Config, mark_only_adapter_as_trainable as mark

    more = {}
else:
    from litgpt.adapter_v2 import GPT, Config, mark_only_adapter_v2_as_trainable as mark

    more = {}
if quant == "none":
    fabric = Fabric(devices=1, precision="bf16-true", accelerator="cuda")
else:
    fabric = Fabric(devices=1, plugins=BitsandbytesPrecision(quant, torch.bfloat16), accelerator="cuda")
config = Config.from_name(name, **more)
with fabric.init_module(empty_init=False):
    model = GPT(config)
mark(model)
model = fabric.setup_module(model)
params = [p for p in model.parameters() if p.requires_grad]
if quant == "none":
    optimizer = torch.optim.AdamW(params, lr=3e-4, weight_decay=0.01)
else:
    import bitsandbytes as bnb

    optimizer = bnb.optim.PagedAdamW(params, lr=3e-4, weight_decay=0.01)
optimizer = fabric.setup_optimizers(optimizer)
print("trainable", sum(p.numel() for p in params))
model.max_seq_length = length
model.train()
g = torch.Generator().manual_seed(0)


def one(step):
    ids = torch.randint(0, 1000, (batch, length), generator=g)
    x, y = fabric.to_device((ids.pin_memory(), ids.clone().pin_memory()))
    with fabric.no_backward_sync(model, enabled=not step):
        logits = model(x, lm_head_chunk_size=128)
        logits[-1] = logits[-1][..., :-1, :]
        loss = chunked_cross_entropy(logits, y[..., 1:])
        fabric.backward(loss / 128)
    if step:
        optimizer.step()
        optimizer.zero_grad()


one(False)
one(True)
one(True)

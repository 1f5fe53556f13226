"""Record the published runs of estimate/testdata/published_gpus, without a GPU.

usage: record_published.py OUT [NAME ...]

NAME is that of a recording without its ending; without any, all are made. What is in OUT already is not recorded
again. The archives are tar files of these recordings, unpacked, by zstd --long=25.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch
from torch import distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path[:0] = [str(Path(__file__).parents[2] / "python" / "src"), str(Path(__file__).parent)]
import memestimate
import transformers
from published_images import CLASSIFIERS, Encoder, PSPNet
from published_tokens import MODELS

STEPS = 3
Parameters = Iterable[nn.Parameter]

OPTIMIZERS: dict[str, Callable[[Parameters], torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=1e-3),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adafactor": partial(transformers.Adafactor, lr=1e-3, relative_step=False),
}

# xMem's settings: model, optimizer, and when gradients are zeroed
# (0: before forward, 1: before backward, 2: after the step).
XMEM = [
    "cerebras-gpt-111m-adam-zg0",
    "cerebras-gpt-111m-adamw-zg0",
    "cerebras-gpt-111m-sgd-zg0",
    "distilgpt2-adam-zg0",
    "distilgpt2-adamw-zg0",
    "gpt-neo-125m-adam-zg0",
    "gpt-neo-125m-adam-zg1",
    "gpt-neo-125m-adam-zg2",
    "gpt-neo-125m-adamw-zg0",
    "gpt-neo-125m-adamw-zg1",
    "gpt-neo-125m-adamw-zg2",
    "gpt-neo-125m-sgd-zg0",
    "gpt-neo-125m-sgd-zg1",
    "gpt-neo-125m-sgd-zg2",
    "gpt2-adamw-zg0",
    "opt-125m-adamw-zg0",
    "opt-350m-adamw-zg0",
    "t5-base-adamw-zg0",
    "t5-small-adam-zg0",
    "t5-small-adam-zg2",
    "t5-small-adamw-zg0",
    "t5-small-adamw-zg1",
    "t5-small-sgd-zg0",
    "t5-small-sgd-zg1",
    "t5-small-sgd-zg2",
]
XMEM_ONE = [
    "deepseek-r1-distill-qwen-1.5b-adafactor-zg0",
    "deepseek-r1-distill-qwen-1.5b-sgd-zg0",
    "gemma-2-2b-it-adafactor-zg0",
    "llama-3.2-3b-adafactor-zg0",
    "llama-3.2-3b-sgd-zg0",
    "qwen3-4b-adafactor-zg0",
    "qwen3-4b-sgd-zg0",
]

# GPUMemNet's encoders: vocabulary, width, layers, heads, hidden width, classes; batch, length.
ENCODERS = [
    ((553893, 128, 8, 8, 332, 273), 64, 512),
    ((267646, 128, 9, 2, 344, 570), 8, 256),
    ((700962, 768, 2, 8, 1663, 553), 32, 512),
    ((610502, 512, 9, 8, 1628, 688), 64, 128),
    ((767553, 1024, 5, 8, 2886, 265), 8, 512),
    ((334696, 128, 10, 8, 487, 521), 64, 512),
    ((952559, 768, 6, 16, 2719, 618), 8, 256),
    ((608949, 768, 3, 8, 2575, 503), 64, 256),
    ((482062, 128, 4, 8, 404, 948), 8, 512),
    ((888077, 512, 7, 16, 1837, 406), 16, 256),
]
NAMED = {"bert-base-cased": 32, "bert-large-cased": 8, "xlnet-base-cased": 8, "xlnet-large-cased": 4, "gpt2-large": 8,
         "gpt2-xl": 2}  # fmt: skip


def meta(build: Callable[[], nn.Module]) -> nn.Module:
    """A model without memory."""
    with torch.device("meta"):
        return build()


def tokens(path: Path, model: str, optimizer: str, when: int, ids: torch.Tensor, *, labels: torch.Tensor,
           gpu: str) -> None:  # fmt: skip
    """Record a language model with its own loss."""
    net = meta(MODELS[model])
    with memestimate.record(path, gpu=gpu):
        net = net.to("cuda").train()
        opt = OPTIMIZERS[optimizer](net.parameters())
        for _ in range(STEPS):
            batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels.clone()}
            batch = {name: tensor.to("cuda") for name, tensor in batch.items()}
            if when == 0:
                opt.zero_grad()
            out = net(**batch)
            if when == 1:
                opt.zero_grad()
            out.loss.backward()
            opt.step()
            if when == 2:
                opt.zero_grad()


def classes(path: Path, build: Callable[[], nn.Module], x: torch.Tensor, *, gpu: str) -> None:
    """Record a classifier with Adam."""
    net = meta(build)
    with memestimate.record(path, gpu=gpu):
        net = net.to("cuda").train()
        opt = torch.optim.Adam(net.parameters())
        for _ in range(STEPS):
            inputs, labels = x.to("cuda"), torch.zeros(len(x), dtype=torch.long).to("cuda")
            opt.zero_grad()
            out = net(inputs)
            F.cross_entropy(out, labels).backward()
            opt.step()


def segments(path: Path, depth: int, height: int, width: int, *, adamw: bool = False, half: bool = False,
             **form: bool) -> None:  # fmt: skip
    """Record PSPNet on the first of four GPUs, as PyTorch 1.5 trained: gradients stay, no foreach."""
    net = meta(partial(PSPNet, depth, corners=height == 769, **form))
    x, y = torch.zeros(2, 3, height, width), torch.zeros(2, height, width, dtype=torch.long)
    with memestimate.record(path, gpu="v100-32gb", world_size=4):
        dist.init_process_group("nccl")
        parallel = DistributedDataParallel(net.to("cuda").train(), device_ids=[0])
        opt: torch.optim.Optimizer = torch.optim.SGD(
            parallel.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, foreach=False
        )
        if adamw:
            opt = torch.optim.AdamW(parallel.parameters())
        scaler = torch.amp.grad_scaler.GradScaler("cuda", enabled=half)
        for _ in range(STEPS):
            images, labels = x.to("cuda"), y.to("cuda")
            with torch.autocast("cuda", dtype=torch.float16, enabled=half):
                loss = parallel(images, labels)
            opt.zero_grad(set_to_none=False)
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
        dist.destroy_process_group()


def recordings() -> dict[str, Callable[[Path], None]]:
    """Each recording by its name, and how it is made."""
    all_: dict[str, Callable[[Path], None]] = {}
    for names, batches, gpu in ((XMEM, (10, 40), "rtx-3060"), (XMEM_ONE, (1,), "a100-40gb")):
        for name in names:
            model, optimizer, when = name.rsplit("-", 2)
            for batch in batches:
                ids = torch.ones(batch, 128, dtype=torch.long)
                all_[f"{name}-b{batch}"] = partial(
                    tokens, model=model, optimizer=optimizer, when=int(when[2:]), ids=ids, labels=ids, gpu=gpu
                )
    for i, ((vocab, d, layers, heads, ff, count), batch, length) in enumerate(ENCODERS):
        build = partial(Encoder, vocab, d, layers, heads, ff, count, length)
        ids = torch.zeros(batch, length, dtype=torch.long)
        all_[f"encoder{i}-b{batch}"] = partial(classes, build=build, x=ids, gpu="a100-40gb")
    for batch in (32, 64, 128):
        build, size = CLASSIFIERS["xception"]
        x = torch.zeros(batch, 3, size, size)
        all_[f"named-xception-b{batch}"] = partial(classes, build=build, x=x, gpu="a100-40gb")
    adamw = partial(tokens, optimizer="adamw", when=0)
    for model, batch in NAMED.items():
        ids = torch.ones(batch, 512, dtype=torch.long)
        all_[f"named-{model}-b{batch}"] = partial(adamw, model=model, ids=ids, labels=ids, gpu="a100-40gb")
    ids = torch.ones(4, 512, dtype=torch.long)
    all_["named-bert-large-uncased-b4"] = partial(
        adamw, model="bert-large-uncased", ids=ids, labels=torch.zeros(4, dtype=torch.long), gpu="v100-16gb"
    )
    for height, width in ((512, 1024), (769, 769)):
        for depth in (18, 50, 101):
            for stem, mark in ((True, ""), (False, "b")):
                all_[f"psp-r{depth}{mark}-d8-{height}x{width}"] = partial(
                    segments, depth=depth, height=height, width=width, deep_stem=stem
                )
    wide = partial(segments, height=512, width=1024)
    all_["psp-r50b-d8-adamw-512x1024"] = partial(wide, depth=50, adamw=True, deep_stem=False)
    all_["psp-r50-d32-512x1024"] = partial(wide, depth=50, dilated=False)
    all_["psp-r101-d8-fp16-512x1024"] = partial(wide, depth=101, half=True)
    return all_


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    every = recordings()
    for name in asked.names or every:
        path = asked.out / f"{name}.mrec"
        if not path.exists():
            every[name](path)
            print(path, path.stat().st_size, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

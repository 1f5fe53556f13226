"""What NCCL takes on the device for each communicator, in bytes: `torchrun --nproc-per-node 2 communicators.py [lazy]`.

Each line is what was just done and how much less memory is free after it, beside what PyTorch's allocator reserves. With
`lazy` init_process_group is given no device_id, so that groups make their communicators when they first run something.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

rank, world = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
lazy = sys.argv[1:2] == ["lazy"]
torch.cuda.set_device(rank)
torch.zeros(1, device="cuda")
torch.cuda.synchronize()


def used():
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


last, rows = used(), []


def say(what):
    global last
    torch.cuda.synchronize()
    if what != "init" and not lazy:
        dist.barrier()
    torch.cuda.synchronize()
    time.sleep(0.15)
    rows.append((what, used() - last))
    last = used()


def run(name, group=None, n=8 << 20):
    size, me = dist.get_world_size(group), dist.get_rank(group)
    x, z = (torch.ones(n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    y = x[: n // size].clone()

    def peer(r):
        return r if group is None else dist.get_global_rank(group, r)

    if name == "all_reduce":
        dist.all_reduce(x, group=group)
    elif name == "all_gather":
        dist.all_gather_into_tensor(z, y, group=group)
    elif name == "reduce_scatter":
        dist.reduce_scatter_tensor(y, x, group=group)
    elif name == "all_to_all":
        dist.all_to_all_single(z, x, group=group)
    elif name == "batched":
        ops = [
            dist.P2POp(dist.isend, x, peer((me + 1) % size), group),
            dist.P2POp(dist.irecv, z, peer((me - 1) % size), group),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
    elif name == "send" and me < 2:
        dist.send(x, peer(1), group=group) if me == 0 else dist.recv(z, peer(0), group=group)


dist.init_process_group("nccl", device_id=None if lazy else torch.device("cuda", rank))
say("init")
for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "batched", "send"):
    run(name)
    say(name)
second = dist.new_group(list(range(world)))
say("another group")
for name in ("reduce_scatter", "all_gather", "all_reduce"):
    run(name, second)
    say(f"another group: {name}")
run("all_reduce", [dist.new_group([r]) for r in range(world)][rank])
say("a group of one: all_reduce")
found = [None] * world
dist.all_gather_object(found, rows)
if rank == 0:
    settings = {k: v for k, v in os.environ.items() if k.startswith("NCCL_")}
    print(json.dumps({"environment": settings, "nccl": torch.cuda.nccl.version(), "ranks": found}))
dist.destroy_process_group()

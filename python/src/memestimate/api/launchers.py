"""Scripts as people start them: `torchrun`, `accelerate launch`, `deepspeed`, `fabric run`, `python` before the name.

The launcher's own parser reads its flags. Of its processes rank 0 is recorded, in this process. Other programs that
packages install, such as `litgpt` or `trl`, are scripts of Python themselves.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Launch:
    """What a launcher would run."""

    script: str
    arguments: list[str]
    module: bool = False
    world_size: int = 0  # processes; 0 where the launcher does not say
    environment: dict[str, str] = field(default_factory=dict)


def read(words: Sequence[str]) -> Launch:
    """Read a command line that begins with a script or with a launcher.

    Raises
    ------
    SystemExit
        The launcher's parser refuses its flags; it has said why.
    ValueError
        The launcher is not installed.
    """
    name = os.path.basename(words[0])
    reader = _READERS.get(name)
    if reader is None or os.path.isfile(words[0]):
        return Launch(_installed(words[0]) or words[0], list(words[1:]))
    try:
        return reader(list(words[1:]))
    except ImportError as error:
        raise ValueError(f"{name}: {error}") from error


def _installed(word: str) -> str | None:
    """The file of a program that a package of this environment installed, where it is a script of Python."""
    if os.path.exists(word) or os.path.dirname(word):
        return None
    path = shutil.which(word, path=sysconfig.get_path("scripts"))
    if path is None:
        return None
    with open(path, "rb") as file:
        first = file.readline(256)
    return path if first.startswith(b"#!") and b"python" in first else None


def _python(words: list[str]) -> Launch:
    flags = [word for word in words[:1] if word in ("-u", "-O", "-B")]
    words = words[len(flags) :]
    if len(words) > 1 and words[0] == "-m":
        launcher = _MODULES.get(words[1])
        return Launch(words[1], words[2:], module=True) if launcher is None else launcher(words[2:])
    if not words or words[0].startswith("-"):
        raise ValueError(f"python: no script in {' '.join(words)!r}")
    return Launch(words[0], words[1:])


def _torchrun(words: list[str]) -> Launch:
    asked = importlib.import_module("torch.distributed.run").parse_args(words)
    nodes = int(str(asked.nnodes).split(":")[-1])
    each = str(asked.nproc_per_node)
    world = nodes * (int(each) if each.isdigit() else 1)
    return Launch(asked.training_script, asked.training_script_args, asked.module, world, _grouped(world // nodes))


def _accelerate(words: list[str]) -> Launch:
    if words[:1] != ["launch"]:
        raise ValueError("accelerate: of its commands launch runs a script")
    asked = importlib.import_module("accelerate.commands.launch").launch_command_parser().parse_args(words[1:])
    found = {}
    if asked.mixed_precision:
        found["ACCELERATE_MIXED_PRECISION"] = str(asked.mixed_precision)
    if asked.gradient_accumulation_steps and int(asked.gradient_accumulation_steps) > 1:
        found["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = str(asked.gradient_accumulation_steps)
    world = int(asked.num_processes or 1)
    nodes = int(asked.num_machines or 1)
    return Launch(
        asked.training_script,
        asked.training_script_args,
        bool(asked.module),
        world,
        found | (_grouped if asked.use_fsdp or asked.multi_gpu else _local)(max(world // nodes, 1)),
    )


def _deepspeed(words: list[str]) -> Launch:
    # DeepSpeed chooses its accelerator once, and there is no pretended GPU yet.
    os.environ.setdefault("DS_ACCELERATOR", "cuda")
    asked = importlib.import_module("deepspeed.launcher.runner").parse_args(words)
    nodes, each = max(int(asked.num_nodes), 1), max(int(asked.num_gpus), 1)
    given = [] if asked.no_local_rank else ["--local_rank=0"]  # deepspeed/launcher/launch.py
    return Launch(asked.user_script, [*given, *asked.user_args], bool(asked.module), nodes * each, _grouped(each))


def _fabric(words: list[str]) -> Launch:
    if words[:1] != ["run"]:
        raise ValueError("fabric: of its commands run runs a script")
    command = importlib.import_module("lightning.fabric.cli")._run
    asked = command.make_context("fabric run", words[1:]).params
    found = {"LT_CLI_USED": "1", "LT_DEVICES": asked["devices"], "LT_NUM_NODES": str(asked["num_nodes"])}
    for name in ("accelerator", "strategy", "precision"):
        if asked[name] is not None:
            found[f"LT_{name.upper()}"] = asked[name]
    each = int(asked["devices"]) if asked["devices"].isdigit() else 1
    world = int(asked["num_nodes"]) * each
    return Launch(asked["script"], list(asked["script_args"]), False, world, found | _local(each))


def ranked(rank: int, world: int, local: int) -> dict[str, str]:
    """What a launcher sets of a process of several.

    It is local rank 0, as in a container that sees one GPU: there is one pretended GPU, whatever the rank.
    """
    found = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(world)}
    return found | {"LOCAL_WORLD_SIZE": str(local), "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


def _local(count: int) -> dict[str, str]:
    return {"LOCAL_WORLD_SIZE": str(count)}


def _grouped(count: int) -> dict[str, str]:
    """What torchrun sets of one process too."""
    return {"RANK": "0", **_local(count)}


_MODULES: dict[str, Callable[[list[str]], Launch]] = {
    "torch.distributed.run": _torchrun,
    "torch.distributed.launch": _torchrun,
    "accelerate.commands.launch": lambda words: _accelerate(["launch", *words]),
    "deepspeed.launcher.runner": _deepspeed,
}
_READERS: dict[str, Callable[[list[str]], Launch]] = {
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "deepspeed": _deepspeed,
    "fabric": _fabric,
    "python": _python,
    "python3": _python,
    os.path.basename(sys.executable): _python,
}

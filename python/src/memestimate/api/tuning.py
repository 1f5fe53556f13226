"""The step of transformers' Trainer, with PEFT's adapters and bitsandbytes' weights of 4 bits, for a configuration."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from . import layers, spelling, tasks, together
from .hub import line, shown

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from .recorder import Recorder

__all__ = ["Run", "Way", "build"]

_MOST_LAYERS = 10_000  # ten times those of the deepest transformers that anybody has trained
_STORED = {"bf16": torch.bfloat16, "fp16": torch.float16}
_AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}

Adapters = int | Mapping[str, Any] | None


@dataclass(frozen=True)
class Way:
    """How a model is trained."""

    batch: int = 1
    seq: int | None = None
    precision: str = "bf16"
    mode: str = "train"
    optimizer: spelling.MakeOptimizer | str = torch.optim.AdamW
    lora: Adapters = None
    qlora: Adapters = None
    checkpoint: bool = False
    compile: bool = False
    attention: str | None = None
    gpus: int = 1
    parallel: str = ""

    def __post_init__(self) -> None:
        self._check_gpus()
        if self.lora is not None and self.qlora is not None:
            raise ValueError("lora and qlora are two ways: give one of them")
        if self.batch < 1 or (self.seq is not None and self.seq < 1):
            raise ValueError(f"a batch of {self.batch} and {self.seq} tokens: both are 1 or more")

    def _check_gpus(self) -> None:
        if self.gpus < 1:
            raise ValueError(f"gpus is {self.gpus}: want 1 or more")
        if self.gpus == 1 and self.parallel:
            raise ValueError(f"parallel is {self.parallel}, which takes gpus of 2 or more")
        if self.gpus > 1 and self.parallel not in together.SCHEMES:
            said = f"parallel is {self.parallel!r}: want {' or '.join(together.SCHEMES)}"
            raise ValueError(f"{said}; other ways are recorded from the script that has them")
        if self.gpus > 1 and (self.mode != "train" or self.compile):
            raise ValueError(
                f"{self.gpus} GPUs: of a configuration they train, and nothing is compiled; record the script for that"
            )

    def of(self, model: str) -> str:
        """What an answer calls a model that is trained in this way, as the command does."""
        adapters = self.lora if self.qlora is None else self.qlora
        if adapters is not None:
            rank = adapters if isinstance(adapters, int) else adapters.get("r", 8)
            model += f"+{'LoRA' if self.qlora is None else 'QLoRA'}-{rank}"
        return model + ("+checkpointing" if self.checkpoint else "")


class Run:
    """A few steps of a model that is known by its configuration, to be called within a recording."""

    def __init__(
        self, config: PretrainedConfig, way: Way, steps: int, cut: tuple[layers.Depth, int] | None = None
    ) -> None:
        if steps < 1:
            raise ValueError(f"steps is {steps}: at least one is recorded")
        self.config, self.way, self.steps = config, way, steps
        self.optimizer = tuned_optimizer(way.optimizer)
        self.model, self.task = build(config, way, cut)
        try:
            self.inputs = tasks.inputs(config, self.task[0], way.batch, way.seq, way.mode == "train")
        except AttributeError as error:
            raise ValueError(f"{line(error)}: build the model yourself and call memestimate.estimate") from error

    def __call__(self, recorder: Recorder) -> None:
        way = self.way
        if way.mode != "train":
            self._infer(recorder)
        elif way.gpus > 1:
            with together.join(way, _library) as wrap:
                joined = wrap(*self._trained(recorder))
                self._train(recorder, joined.model, joined.backward, joined.step)
        else:
            model, optimizer = self._trained(recorder)
            scaler = torch.amp.grad_scaler.GradScaler("cuda", enabled=way.precision == "amp-fp16")

            def step() -> None:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()

            called: Callable[..., Any] = torch.compile(model) if way.compile else model
            self._train(recorder, called, lambda loss: scaler.scale(loss).backward(), step)

    def _placed(self, recorder: Recorder) -> nn.Module:
        """The model with its adapters; on the host where FSDP takes it from there, as the Trainer leaves it."""
        way = self.way
        sharded = way.parallel == "fsdp" and way.qlora is None
        model = together.on_host(self.model) if sharded else self.model.to("cuda")
        if way.qlora is not None:
            model = _prepared(model, way)
        adapters = way.lora if way.qlora is None else way.qlora
        if adapters is not None:
            model = _adapt(model, adapters, self.task[1], recorder)
        return model.train(way.mode == "train")

    def _trained(self, recorder: Recorder) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = self._placed(recorder)
        optimizer = self.optimizer([p for p in model.parameters() if p.requires_grad])
        _keep_embeddings(optimizer, model)
        return model, optimizer

    def _infer(self, recorder: Recorder) -> None:
        model = self._placed(recorder)
        called: Callable[..., Any] = torch.compile(model) if self.way.compile else model
        for _ in range(self.steps):
            with torch.no_grad(), self._autocast():
                called(**self._batch())
            recorder.step()

    def _train(
        self,
        recorder: Recorder,
        called: Callable[..., Any],
        backward: Callable[[torch.Tensor], None],
        step: Callable[[], None],
    ) -> None:
        for _ in range(self.steps):
            batch = self._batch()
            backward(self._loss(called, batch))
            step()
            recorder.step()

    def _loss(self, called: Callable[..., Any], batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss alone: as of the Trainer's compute_loss, nothing else of the output lives on."""
        with self._autocast():
            loss: torch.Tensor = called(**batch).loss
        return loss

    def _batch(self) -> dict[str, torch.Tensor]:
        """A batch on the GPU, whose values nobody knows; a causal model's labels are its tokens."""
        stored = _STORED.get(self.way.precision)
        made: dict[str, torch.Tensor] = {}
        for name, like in self.inputs.items():
            if like.is_floating_point():
                made[name] = torch.rand(like.shape, dtype=stored or like.dtype, device="cuda")
            elif name == "labels" and self.task[0].__name__ == "AutoModelForCausalLM":
                made[name] = made["input_ids"]
            else:
                made[name] = torch.randint(0, 2, like.shape, device="cuda")
        return made

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        dtype = _AUTOCAST.get(self.way.precision)
        return contextlib.nullcontext() if dtype is None else torch.autocast("cuda", dtype=dtype)


def build(
    config: PretrainedConfig, way: Way, cut: tuple[layers.Depth, int] | None = None
) -> tuple[nn.Module, tuple[Any, str]]:
    """Build the model on the meta device, without adapters, and say what it is for: see `tasks.find`.

    Where `cut` says how its layers repeat, so many of them are left.
    """
    _bounded(config)
    task = tasks.find(config)
    options: dict[str, Any] = {} if way.attention is None else {"attn_implementation": way.attention}
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0  # which a default configuration lacks: labels are shifted behind it
    # The type that the file names is that of its weights; here the weights have the one that was asked for.
    named = "dtype" if hasattr(config, "dtype") else "torch_dtype"  # since transformers 4.56, and before
    options[named] = _STORED.get(way.precision, torch.float32)
    try:
        with torch.device("meta"):
            model: nn.Module = task[0].from_config(config, trust_remote_code=False, **options)
            if cut is not None:
                layers.cut(model, *cut)
            if way.qlora is not None:
                computed = _STORED.get(way.precision, torch.bfloat16)
                # FSDP shards no integers: bnb_4bit_quant_storage, as PEFT's guide to FSDP has it.
                _quantize(model, computed, computed if way.parallel == "fsdp" else torch.uint8)
    except (ArithmeticError, AttributeError, IndexError, KeyError, MemoryError, RuntimeError, TypeError) as error:
        raise ValueError(
            f"{shown(config.name_or_path or 'the configuration')} makes no model: {line(error)}"
        ) from error
    if way.mode == "train":
        model.config.use_cache = False  # type: ignore[union-attr]
    if way.checkpoint and way.qlora is None:
        model.gradient_checkpointing_enable()  # type: ignore[operator]
        if way.lora is not None:
            model.enable_input_require_grads()  # type: ignore[operator]
    return model, task


def _library(name: str) -> Any:
    """Import a library that has no types.

    `torch.compile` imports the compiler, for seconds. bitsandbytes decorates functions for the host with it, which are
    not called.
    """
    compiles = torch.compile
    torch.compile = _later  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        torch.compile = compiles


def _later(function: Callable[..., Any] | None = None, **options: Any) -> Callable[..., Any]:
    """Compile a function when it is first called."""
    if function is None:
        return functools.partial(_later, **options)

    @functools.wraps(function)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return made()(*args, **kwargs)

    made = functools.cache(lambda: torch.compile(function, **options))
    return compiled


def _bounded(config: PretrainedConfig) -> None:
    """Refuse numbers that no model has: a million layers are hours and gigabytes on the meta device as well."""
    for name, least, most in (
        ("num_hidden_layers", 0, _MOST_LAYERS),
        ("hidden_size", 1, None),
        ("num_attention_heads", 1, None),
        ("vocab_size", 0, None),
    ):
        value = getattr(config, name, None)
        if isinstance(value, int) and (value < least or (most is not None and value > most)):
            wanted = f"{least} or more" if most is None else f"{least} to {most}"
            raise ValueError(f"{name} of the configuration is {value}, wanted {wanted}")


def _quantize(module: nn.Module, compute: torch.dtype, storage: torch.dtype) -> None:
    """Put bitsandbytes' 4-bit layers in the places of linear ones, as `BitsAndBytesConfig(load_in_4bit=True)` does."""
    from transformers.pytorch_utils import Conv1D  # a linear layer of GPT-2, whose weight is transposed

    bnb = _library("bitsandbytes")
    for name, child in module.named_children():
        transposed = isinstance(child, Conv1D)
        if (transposed or type(child) is nn.Linear) and name not in ("lm_head", "output_projection", "classifier"):
            weight: torch.Tensor = child.weight.data  # type: ignore[assignment]
            weight = weight.T.contiguous() if transposed else weight
            layer = bnb.nn.Linear4bit(
                weight.shape[1],
                weight.shape[0],
                bias=child.bias is not None,
                compute_dtype=compute,
                quant_type="nf4",
                compress_statistics=True,
                quant_storage=storage,
            )
            layer.weight = bnb.nn.Params4bit(
                weight,
                requires_grad=False,
                quant_type="nf4",
                compress_statistics=True,
                quant_storage=storage,
                module=layer,  # which has to know how its weight is quantized where FSDP shards that
            )
            layer.bias = child.bias
            setattr(module, name, layer)
        else:
            _quantize(child, compute, storage)


def _prepared(model: nn.Module, way: Way) -> nn.Module:
    model.is_loaded_in_4bit = True  # type: ignore[assignment]
    prepare = _library("peft").prepare_model_for_kbit_training
    prepared: nn.Module = prepare(model, use_gradient_checkpointing=way.checkpoint)
    return prepared


def _adapt(model: nn.Module, adapters: int | Mapping[str, Any], task: str, recorder: Recorder) -> nn.Module:
    """Add PEFT's adapters: to all linear layers but the head where it has no layers of its own choice for a family."""
    peft = _library("peft")
    settings: dict[str, Any] = {"task_type": task} if task else {}
    settings.update({"r": adapters} if isinstance(adapters, int) else adapters)
    targets = settings.get("target_modules")
    if isinstance(targets, Sequence) and not isinstance(targets, str):
        settings["target_modules"] = list(targets)
    try:
        adapted: nn.Module = peft.get_peft_model(model, peft.LoraConfig(**settings))
    except ValueError as error:
        if targets is not None or "target_modules" not in str(error):
            raise
        settings["target_modules"] = "all-linear"
        adapted = peft.get_peft_model(model, peft.LoraConfig(**settings))
        kind, rank = model.config.model_type, settings.get("r", 8)  # type: ignore[union-attr]
        recorder.note(
            "targets",
            f"PEFT has no default layers for {kind}: adapters are beside all linear ones but the head, as by "
            f"r={rank},targets=all-linear",
        )
    return adapted


# Optimizers of bitsandbytes by the words of the Trainer and by their own names, in lower case without - and _.
_BITSANDBYTES = {
    "adamw8bit": "AdamW8bit",
    "adamwbnb8bit": "AdamW8bit",
    "pagedadamw": "PagedAdamW32bit",
    "pagedadamw32bit": "PagedAdamW32bit",
    "pagedadamw8bit": "PagedAdamW8bit",
    "adam8bit": "Adam8bit",
    "lion": "Lion32bit",
    "lion32bit": "Lion32bit",
    "lion8bit": "Lion8bit",
    "pagedlion": "PagedLion32bit",
    "pagedlion32bit": "PagedLion32bit",
    "pagedlion8bit": "PagedLion8bit",
    "ademamix": "AdEMAMix32bit",
    "ademamix8bit": "AdEMAMix8bit",
    "rmspropbnb8bit": "RMSprop8bit",
    "rmsprop8bit": "RMSprop8bit",
}


def tuned_optimizer(typed: spelling.MakeOptimizer | str) -> Callable[[Iterable[nn.Parameter]], Any]:
    """Return what makes an optimizer, of PyTorch or of bitsandbytes."""
    if isinstance(typed, str):
        key = typed.strip().lower().removeprefix("bnb.optim.").removeprefix("bitsandbytes.optim.")
        name = _BITSANDBYTES.get(key.replace("-", "").replace("_", ""))
        if name is not None:
            made: Callable[[Iterable[nn.Parameter]], Any] = getattr(_library("bitsandbytes").optim, name)
            return made
    return spelling.optimizer(typed)


def _keep_embeddings(optimizer: Any, model: nn.Module) -> None:
    """Keep the states of embeddings in 32 bits, as the Trainer does where an optimizer has states of 8."""
    if not type(optimizer).__module__.startswith("bitsandbytes") or "8bit" not in type(optimizer).__name__:
        return
    manager = _library("bitsandbytes").optim.GlobalOptimManager.get_instance()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            manager.register_module_override(module, "weight", {"optim_bits": 32})

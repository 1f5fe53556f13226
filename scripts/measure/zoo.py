"""The models whose memory was measured: how each is built, a batch of its inputs, and its labels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torchvision.models as vision  # type: ignore[import-untyped]
from torch import Tensor, nn


class Model(NamedTuple):
    """A measured model.

    Attributes
    ----------
    build
        Makes it, with the weights that its library starts from.
    inputs
        A batch of so many samples.
    labels
        Of so many samples, for an output; None where the loss is the output's mean.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    labels: Callable[[int, Tensor], Tensor] | None = None


class Of(nn.Module):
    """One tensor of what a model answers."""

    def __init__(self, model: nn.Module, key: str, **settings: Any) -> None:
        super().__init__()
        self.m, self.key, self.settings = model, key, settings

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.m(x, **self.settings)[self.key]
        return out


class UNet(nn.Module):
    """Four steps down and up again, with batch norms."""

    def __init__(self, classes: int = 2, width: int = 64) -> None:
        super().__init__()
        sizes = [width << i for i in range(5)]
        self.down = nn.ModuleList(self._block(a, b) for a, b in zip([3, *sizes], sizes[:4], strict=False))
        self.pool = nn.MaxPool2d(2)
        self.mid = self._block(sizes[3], sizes[4])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in reversed(sizes[:4]))
        self.joined = nn.ModuleList(self._block(2 * n, n) for n in reversed(sizes[:4]))
        self.out = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _block(channels: int, out: int) -> nn.Sequential:
        pairs = [(nn.Conv2d(n, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True)) for n in (channels, out)]
        return nn.Sequential(*(layer for pair in pairs for layer in pair))

    def forward(self, x: Tensor) -> Tensor:
        a = self.down[0](x)
        b = self.down[1](self.pool(a))
        c = self.down[2](self.pool(b))
        d = self.down[3](self.pool(c))
        m = self.mid(self.pool(d))
        # Each `x` lives until the next one is there, as in a loop written by hand.
        x = self.joined[0](torch.cat([self.up[0](m), d], 1))
        x = self.joined[1](torch.cat([self.up[1](x), c], 1))
        x = self.joined[2](torch.cat([self.up[2](x), b], 1))
        x = self.joined[3](torch.cat([self.up[3](x), a], 1))
        out: Tensor = self.out(x)
        return out


class WordLSTM(nn.Module):
    """Two recurrent layers between an embedding and a classifier of every token."""

    def __init__(self, words: int = 10000, width: int = 650) -> None:
        super().__init__()
        self.e = nn.Embedding(words, width)
        self.r = nn.LSTM(width, width, 2, batch_first=True)
        self.o = nn.Linear(width, words)
        self.drop = nn.Dropout(0.5)

    def forward(self, ids: Tensor) -> Tensor:
        y, _ = self.r(self.drop(self.e(ids)))
        out: Tensor = self.o(self.drop(y))
        return out


class MLP(nn.Module):
    """Six wide layers."""

    def __init__(self, width: int = 4096, classes: int = 1000) -> None:
        super().__init__()
        hidden = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1))]
        self.f = nn.Sequential(*hidden, nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.f(x)
        return out


class TorchEncoder(nn.Module):
    """PyTorch's own encoder over embeddings, which classifies by the first token."""

    def __init__(self, words: int = 30000, width: int = 512, classes: int = 1000) -> None:
        super().__init__()
        self.e = nn.Embedding(words, width)
        self.t = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(width, 8, 2048, batch_first=True, activation="gelu"), 6
        )
        self.o = nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.o(self.t(self.e(ids))[:, 0])
        return out


class DLRM(nn.Module):
    """Recommendation: a dense tower, 26 tables, and the products of all pairs."""

    def __init__(self, tables: int = 26, rows: int = 100000, width: int = 64) -> None:
        super().__init__()
        self.e = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bot = self._tower(13, 512, 256, width)
        n = tables + 1
        pairs = torch.triu_indices(n, n, 1, device="cpu")
        self.iu: Tensor
        self.register_buffer("iu", pairs[0] * n + pairs[1])
        self.top = nn.Sequential(*self._tower(width + n * (n - 1) // 2, 1024, 512), nn.Linear(512, 2))

    @staticmethod
    def _tower(*sizes: int) -> nn.Sequential:
        pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
        return nn.Sequential(*(layer for pair in pairs for layer in pair))

    def forward(self, x: Tensor) -> Tensor:
        dense, ids = x[:, :13], x[:, 13:].long()
        b = self.bot(dense)
        t = torch.stack([b] + [e(ids[:, i]) for i, e in enumerate(self.e)], 1)
        z = torch.bmm(t, t.transpose(1, 2)).flatten(1)[:, self.iu]
        out: Tensor = self.top(torch.cat([b, z], 1))
        return out


class T5(nn.Module):
    """T5 whose decoder reads the tokens that its encoder reads."""

    def __init__(self) -> None:
        super().__init__()
        import transformers

        config = transformers.T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8)
        config.decoder_start_token_id = 0
        self.m = transformers.T5ForConditionalGeneration(config)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.m(input_ids=ids, decoder_input_ids=ids, use_cache=False).logits
        return out


def _of_torchvision(name: str, **settings: Any) -> Callable[[], nn.Module]:
    return lambda: getattr(vision, name)(weights=None, **settings)


def _of_timm(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import timm

        model: nn.Module = timm.create_model(name, pretrained=False)
        return model

    return build


def _of_transformers(name: str, config: str, **sizes: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import transformers

        settings = {} if name.endswith("MaskedLM") else {"use_cache": False}
        return Of(getattr(transformers, name)(getattr(transformers, config)(**sizes)), "logits", **settings)

    return build


def _fcn() -> nn.Module:
    return Of(vision.segmentation.fcn_resnet50(weights=None, weights_backbone=None), "out")


def _image(size: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randn(batch, 3, size, size)


def _tokens(length: int, words: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randint(0, words, (batch, length))


def _clicks(batch: int) -> Tensor:
    return torch.cat([torch.randn(batch, 13), torch.randint(0, 100000, (batch, 26)).float()], 1)


def _class(count: int) -> Callable[[int, Tensor], Tensor]:
    return lambda batch, _: torch.randint(0, count, (batch,))


def _words(count: int) -> Callable[[int, Tensor], Tensor]:
    return lambda _, out: torch.randint(0, count, out.shape[:2])


def _pixels(count: int) -> Callable[[int, Tensor], Tensor]:
    return lambda batch, out: torch.randint(0, count, (batch, *out.shape[2:]))


def _images(build: Callable[[], nn.Module], size: int = 224) -> Model:
    return Model(build, _image(size), _class(1000))


def _language(build: Callable[[], nn.Module], length: int, words: int) -> Model:
    return Model(build, _tokens(length, words), _words(words))


_LLAMA = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "max_position_embeddings": 2048,
}
_QWEN = {
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "max_position_embeddings": 2048,
}
_OF_TORCHVISION = (
    *("alexnet", "vgg16", "resnet18", "resnet50", "resnext50_32x4d", "densenet121", "mobilenet_v2"),
    *("mobilenet_v3_large", "efficientnet_b0", "squeezenet1_1", "shufflenet_v2_x1_0", "convnext_tiny"),
    *("vit_b_16", "swin_t"),
)

ZOO: dict[str, Model] = {
    **{name: _images(_of_torchvision(name)) for name in _OF_TORCHVISION},
    "vgg19_features": Model(lambda: vision.vgg19(weights=None).features, _image(224)),
    "inception_v3": _images(_of_torchvision("inception_v3", aux_logits=False, init_weights=False), 299),
    "fcn_resnet50": Model(_fcn, _image(256), _pixels(21)),
    "unet": Model(UNet, _image(256), _pixels(2)),
    "r3d_18": Model(
        lambda: vision.video.r3d_18(weights=None), lambda batch: torch.randn(batch, 3, 16, 112, 112), _class(400)
    ),
    "mlp": Model(MLP, lambda batch: torch.randn(batch, 4096), _class(1000)),
    "lstm_lm": _language(WordLSTM, 128, 10000),
    "dlrm": Model(DLRM, _clicks, _class(2)),
    "torch_encoder": Model(TorchEncoder, _tokens(128, 30000), _class(1000)),
    "bert_base": _language(_of_transformers("BertForMaskedLM", "BertConfig"), 128, 30522),
    "distilbert": _language(_of_transformers("DistilBertForMaskedLM", "DistilBertConfig"), 128, 30522),
    "gpt2": _language(_of_transformers("GPT2LMHeadModel", "GPT2Config"), 512, 50257),
    "llama_160m": _language(_of_transformers("LlamaForCausalLM", "LlamaConfig", **_LLAMA), 512, 32000),
    "qwen2_0_5b": _language(_of_transformers("Qwen2ForCausalLM", "Qwen2Config", **_QWEN), 512, 151936),
    "t5_small": _language(T5, 128, 32128),
    "mixer_b16": _images(_of_timm("mixer_b16_224")),
    "mobilevit_s": _images(_of_timm("mobilevit_s"), 256),
    "regnety_016_timm": _images(_of_timm("regnety_016")),
}

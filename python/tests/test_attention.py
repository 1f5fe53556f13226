"""Which kernel attention takes, by GPU, and what that leaves in a recording."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import memestimate
from memestimate.api.gpus import find
from memestimate.pretend.attention_rules import Libraries, choose, query
from memestimate.pretend.host import cudnn_version
from recording import Recording

CUDNN = 91900
CASES = [
    ("h200", torch.bfloat16, 64, {}, "cudnn"),
    ("h200", torch.bfloat16, 64, {"dropout": 0.1}, "cudnn"),
    ("h200", torch.bfloat16, 64, {"mask": True}, "cudnn"),
    ("h200", torch.bfloat16, 160, {}, "cudnn"),
    ("h200", torch.bfloat16, 264, {"mask": True}, "efficient"),
    ("b200", torch.bfloat16, 160, {}, "flash"),
    ("h200", torch.float32, 64, {"causal": True}, "efficient"),
    ("h200", torch.float32, 66, {}, "math"),
    ("a100-80gb", torch.float16, 64, {}, "flash"),
    ("a100-80gb", torch.float16, 64, {"mask": True}, "efficient"),
    ("a100-80gb", torch.bfloat16, 200, {}, "flash"),
    ("rtx-4090", torch.bfloat16, 200, {"training": True}, "efficient"),
    ("t4", torch.float16, 64, {}, "efficient"),
    ("t4", torch.bfloat16, 64, {}, "math"),
    ("t4", torch.float32, 66, {}, "efficient"),
]


@pytest.mark.parametrize(("gpu", "dtype", "width", "kind", "kernel"), CASES)
def test_rules(gpu: str, dtype: torch.dtype, width: int, kind: dict[str, object], kernel: str) -> None:
    q = torch.empty(2, 4, 128, width, dtype=dtype, device="meta", requires_grad="training" in kind)
    mask = torch.empty(2, 1, 128, 128, dtype=dtype, device="meta") if "mask" in kind else None
    asked = query(q, q, q, mask, 0.1 if "dropout" in kind else 0.0, "causal" in kind, False)
    assert choose(asked, Libraries(find(gpu).capability, CUDNN, (2, 11))) == kernel


GROUPED = {"heads": (8, 2, 2), "gqa": True}
BY_VERSION: list[tuple[str, tuple[int, int], int, int, dict[str, object], str]] = [
    ("h200", (2, 6), 90100, 64, {}, "flash"),
    ("h200", (2, 9), 91300, 64, {}, "flash"),
    ("h200", (2, 10), 91002, 64, {}, "flash"),  # the wheel of CUDA 12.8
    ("h200", (2, 10), 91501, 64, {}, "cudnn"),  # and that of CUDA 13
    ("a100-80gb", (2, 15), 92600, 64, {}, "flash"),
    ("h200", (2, 15), 92600, 64, {"dropout": 0.1}, "flash"),  # in sixteenths alone
    ("h200", (2, 15), 92600, 64, {"dropout": 0.125}, "cudnn"),
    ("h200", (2, 11), 91900, 64, {"dropout": 0.1}, "cudnn"),
    ("h200", (2, 15), 92600, 256, {"training": True}, "cudnn"),
    ("h200", (2, 15), 92600, 160, {"training": True}, "flash"),  # which cuDNN has no gradient for
    ("h200", (2, 15), 92600, 160, {"training": False}, "cudnn"),
    ("b200", (2, 15), 92600, 256, {"training": True}, "cudnn"),
    ("b200", (2, 11), 91900, 256, {"training": True}, "flash"),
    ("b200", (2, 15), 92401, 64, {"lengths": (1, 128)}, "cudnn"),
    ("b200", (2, 15), 92300, 64, {"lengths": (1, 128)}, "flash"),
    ("h200", (2, 15), 92500, 64, {"training": True, "lengths": (64, 192)}, "flash"),
    ("h200", (2, 15), 92600, 64, {"training": True, "lengths": (64, 192)}, "cudnn"),
    ("a100-80gb", (2, 11), 91900, 64, {**GROUPED, "mask": True}, "math"),
    ("a100-80gb", (2, 15), 92600, 64, {**GROUPED, "mask": True}, "efficient"),
    ("a100-80gb", (2, 15), 92600, 64, {"heads": (8, 1, 1)}, "flash"),  # nobody asked for it
    ("a100-80gb", (2, 11), 91900, 64, {"heads": (8, 1, 1)}, "math"),
    ("a100-80gb", (2, 15), 92600, 64, {"mask": True, "offsets": (0, 4, 0)}, "math"),
    ("a100-80gb", (2, 11), 91900, 64, {"mask": True, "offsets": (0, 4, 0)}, "efficient"),
]


@pytest.mark.parametrize(("gpu", "version", "cudnn", "width", "kind", "kernel"), BY_VERSION)
def test_rules_by_version(
    gpu: str, version: tuple[int, int], cudnn: int, width: int, kind: dict[str, Any], kernel: str
) -> None:
    q = torch.empty(2, 8, 128, width, dtype=torch.bfloat16, device="meta")
    asked = dataclasses.replace(query(q, q, q, None, 0.0, False, False), **kind)
    assert choose(asked, Libraries(find(gpu).capability, cudnn, version)) == kernel


def test_a_mask_whose_rows_are_not_dense_takes_math() -> None:
    """check_last_dim_stride_equals_1_dense looks at the mask, too: T5's biases have the heads moved to the front."""
    q = torch.empty(2, 4, 128, 64, device="meta")
    mask = torch.empty(128, 128, 4, device="meta").permute(2, 0, 1)[None]
    assert choose(query(q, q, q, mask, 0.0, False, False), Libraries((9, 0), CUDNN, (2, 11))) == "math"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keys_of_one_batch_for_many_queries_take_math(tmp_path: Path, dtype: torch.dtype) -> None:
    """check_batch_size_and_num_heads_dense: no kernel spreads them, as states of a recurrent transformer ask for."""
    with memestimate.record(tmp_path / "x.mrec", gpu="h200") as rec:
        q, k = (torch.ones(n, 4, 128, 64, device="cuda", dtype=dtype, requires_grad=True) for n in (8, 1))
        before = rec.storages.highest
        out = F.scaled_dot_product_attention(q, k, k)
        assert out.shape == q.shape
        assert rec.storages.highest - before > 2 * 8 * 4 * 128 * 128 * q.element_size()
        out.sum().backward()
        assert k.grad is not None
        assert k.grad.shape == k.shape
    names = [call[0] for call in Recording(tmp_path / "x.mrec").calls()]
    assert "_safe_softmax" in names
    assert not [name for name in names if "attention" in name]


def attention_calls(path: Path, precision: torch.dtype | None, gpu: str) -> list[str]:
    with memestimate.record(path, gpu=gpu):
        layer = nn.MultiheadAttention(64, 4, batch_first=True).cuda()
        x = torch.randn(2, 16, 64, device="cuda")
        with torch.autocast("cuda", dtype=precision or torch.float16, enabled=precision is not None):
            y, _ = layer(x, x, x, need_weights=False)
            y = y + F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], dropout_p=0.125)[:, 0]
        y.float().sum().backward()
    return [call[0] for call in Recording(path).calls() if "attention" in call[0] and "_backward" not in call[0]]


def test_autocast_and_modules_reach_the_kernel(tmp_path: Path) -> None:
    efficient, flash = "_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention"
    newer = torch.__version__ >= (2, 10) and cudnn_version() > 91500
    preferred = "_scaled_dot_product_cudnn_attention" if newer else flash
    assert attention_calls(tmp_path / "a", None, "h200") == [efficient] * 2
    assert attention_calls(tmp_path / "b", torch.bfloat16, "h200") == [preferred] * 2
    assert attention_calls(tmp_path / "c", torch.bfloat16, "a100-80gb") == [flash] * 2


def test_flash_attention_has_seeds_where_its_version_has_them(tmp_path: Path) -> None:
    """On the GPU, but up to PyTorch 2.6 on the host."""
    with memestimate.record(tmp_path / "x.mrec", gpu="a100-80gb"):
        q = torch.randn(2, 4, 16, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        F.scaled_dot_product_attention(q, q, q, dropout_p=0.5).sum().backward()
    recording = Recording(tmp_path / "x.mrec")
    ((_, _, results, *_),) = recording.calls("_scaled_dot_product_flash_attention")
    places = [
        (recording.tables["meta"][int(meta)][0], storage) for storage, meta in (t.split(":") for t in results if t)
    ]
    seeds = [(dtype, storage == "c") for dtype, storage in places if dtype in ("int64", "uint64")]
    assert seeds == ([("uint64", False)] * 2 if torch.__version__ >= (2, 7) else [("int64", True)] * 2)


def test_gradients_of_shared_keys_are_first_made_for_each_head(tmp_path: Path) -> None:
    q = torch.empty(2, 8, 16, 64)
    asked = dataclasses.replace(query(q, q, q, None, 0.0, False, True), heads=(8, 2, 2))
    version = tuple(int(n) for n in torch.__version__.split(".")[:2])
    if choose(asked, Libraries((8, 0), cudnn_version(), (version[0], version[1]))) != "efficient":
        pytest.skip("this version of PyTorch writes scores out where float32 queries share keys")
    with memestimate.record(tmp_path / "x.mrec", gpu="a100-80gb") as rec:
        q = torch.randn(2, 8, 512, 64, device="cuda", requires_grad=True)
        k = torch.randn(2, 2, 512, 64, device="cuda", requires_grad=True)
        out = F.scaled_dot_product_attention(q, k, k, enable_gqa=True).sum()
        rec.storages.highest = before = rec.storages.allocated
        out.backward()
        assert rec.storages.highest - before >= 3 * q.nbytes + 2 * k.nbytes


def test_inference_mode_shows_what_composites_are_made_of(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec"), torch.inference_mode():
        q = torch.randn(2, 4, 16, 64, device="cuda")
        F.scaled_dot_product_attention(q, q, q)
        F.linear(q, q[0, 0])
    names = [call[0] for call in Recording(tmp_path / "x.mrec").calls()]
    assert "_scaled_dot_product_efficient_attention" in names
    assert "mm" in names
    assert not {"scaled_dot_product_attention", "linear", "matmul"} & set(names)


def test_compiled_flex_attention_holds_no_scores(tmp_path: Path) -> None:
    """With grouped keys and a trained bias."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    with memestimate.record(tmp_path / "x.mrec") as rec:
        run = torch.compile(flex_attention)
        mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 512, 512, device="cuda")
        bias = nn.Parameter(torch.zeros(1023, device="cuda"))
        q = torch.randn(2, 512, 8, 64, device="cuda", requires_grad=True)
        k = torch.randn(2, 512, 4, 64, device="cuda", requires_grad=True)
        out = run(
            *(t.transpose(1, 2) for t in (q, k, k)),
            score_mod=lambda score, b, h, i, j: score + bias[i - j + 511],
            block_mask=mask,
            enable_gqa=True,
        )
        assert isinstance(out, torch.Tensor)
        assert out.shape == (2, 8, 512, 64)
        assert out.stride() == q.transpose(1, 2).stride()
        out.square().mean().backward()
        assert q.grad is not None
        assert k.grad is not None
        assert k.grad.shape == k.shape
        assert bias.grad is not None
        scores = 8 * q.nbytes  # 2 x 8 x 512 x 512 in float32
    assert not {"eager", "flex"} & {code for code, _ in rec.notes}
    recording = Recording(tmp_path / "x.mrec")
    assert scores not in [size for _, size, *_ in recording.of("alloc")]
    names = [call[0] for call in recording.calls()]
    assert sum(name.startswith("triton::triton_tem_fused_flex_attention") for name in names) == 2


def test_flex_attention_that_is_not_compiled_holds_all_scores(tmp_path: Path) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    with memestimate.record(tmp_path / "x.mrec") as rec:
        q = torch.randn(2, 8, 512, 64, device="cuda")
        before = rec.storages.highest
        flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score * 2)
        assert rec.storages.highest - before > 8 * q.nbytes
    assert "flex" not in [code for code, _ in rec.notes]

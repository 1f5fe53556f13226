"""Operators that PyTorch puts together of others below autograd."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

import memestimate
from recording import Recording


def names(path: Path) -> list[str]:
    return [call[0] for call in Recording(path).calls()]


@pytest.mark.parametrize("real", [False, True])
def test_distances_are_a_product_of_longer_rows(tmp_path: Path, real: bool) -> None:
    with memestimate.record(tmp_path / "x.mrec", real=real) as recorder:
        a, b = (torch.arange(n * 3.0).view(n, 3).cuda() for n in (40, 30))
        distances = torch.cdist(a.requires_grad_(), b)
        distances.sum().backward()
        if real:
            known = recorder.values.get(distances)
            assert known is not None
            assert torch.allclose(known, torch.cdist(torch.arange(120.0).view(40, 3), torch.arange(90.0).view(30, 3)))
    assert a.grad is not None
    ran = names(tmp_path / "x.mrec")
    assert ran.count("cat") >= 2
    assert {"mm", "clamp_min_", "sqrt_"} <= set(ran)
    assert "_euclidean_dist" not in ran


def test_whether_all_are_true_is_a_reduction(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        x = torch.randn(8, device="cuda")
        assert torch._is_all_true(torch.isfinite(x))
        assert not torch._is_any_true(torch.isnan(x))
        torch.distributions.Categorical(logits=x)
        assert recorder.decisions.places == {}
    assert {"all", "any"} <= set(names(tmp_path / "x.mrec"))


@pytest.mark.parametrize("real", [False, True])
def test_a_choice_by_bytes_or_among_two_types_copies_first(tmp_path: Path, real: bool) -> None:
    x = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float16)
    with memestimate.record(tmp_path / "x.mrec", real=real) as recorder:
        given = x.cuda().requires_grad_()
        condition = (given > 0).prod(-1, keepdim=True, dtype=torch.uint8)
        rows = (given.detach() > 0).byte()
        torch.where(condition, torch.zeros(1, dtype=torch.float16, device="cuda"), given).sum().backward()
        both = torch.where(rows, given.detach(), torch.ones(3, device="cuda"))
        assert both.dtype == torch.float32
        plain = torch.where(rows.bool(), both, both + 1)
        if real:
            known = recorder.values.get(plain)
            assert known is not None
            assert known.tolist() == [1.0, 2.0, 3.0]
    ran = names(tmp_path / "x.mrec")
    places = [i for i, name in enumerate(ran) if name == "where"]
    assert [ran[i - 1] for i in places] == ["_to_copy", "_to_copy", "_to_copy", "add"]
    assert ran[places[2] - 2] == "_to_copy", "the bytes as bool, then the half numbers as float32"
    assert given.grad is not None


@pytest.mark.parametrize("real", [False, True])
def test_the_gradient_of_what_is_scattered_is_chosen_and_filled_up(tmp_path: Path, real: bool) -> None:
    rows, weights = torch.arange(24.0).view(4, 6), torch.arange(24.0).view(4, 6) + 1

    def gradient(device: str) -> torch.Tensor:
        source = torch.zeros(5, 6, device=device, requires_grad=True)
        mask = rows.to(device) % 3 == 0
        (torch.zeros(4, 6, device=device).masked_scatter(mask, source) * weights.to(device)).sum().backward()
        assert source.grad is not None
        return source.grad

    with memestimate.record(tmp_path / "x.mrec", real=real) as recorder:
        found = gradient("cuda")
        known = recorder.values.get(found) if real else None
    assert found.shape == (5, 6)
    if real:
        assert known is not None
        assert torch.equal(known, gradient("cpu"))
        assert "cat" in names(tmp_path / "x.mrec"), "8 of 24 are scattered, of 30 that there are"
    assert "masked_select" in names(tmp_path / "x.mrec")
    assert "masked_scatter_backward" not in names(tmp_path / "x.mrec")


def test_a_packed_batch_is_joined_of_pieces(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec", real=True) as recorder:
        x = torch.arange(30.0).view(3, 5, 2)
        packed = pack_padded_sequence(x.cuda(), torch.tensor([5, 3, 1]), batch_first=True)
        wanted = pack_padded_sequence(x, torch.tensor([5, 3, 1]), batch_first=True)
        assert packed.batch_sizes.tolist() == wanted.batch_sizes.tolist() == [3, 2, 2, 1, 1]
        known = recorder.values.get(packed.data)
        assert known is not None
        assert torch.equal(known, wanted.data)
    assert names(tmp_path / "x.mrec")[-1] == "cat"


@pytest.mark.parametrize("real", [False, True])
def test_lengths_on_the_gpu_are_refused_as_a_gpu_refuses_them(tmp_path: Path, real: bool) -> None:
    with memestimate.record(tmp_path / "x.mrec", real=real):
        x = torch.randn(3, 5, 2).cuda()
        with pytest.raises(RuntimeError, match="should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"):
            pack_padded_sequence(x, torch.tensor([5, 3, 1]).cuda(), batch_first=True)
        assert pack_padded_sequence(x, torch.tensor([5, 3, 1]), batch_first=True).data.shape == (9, 2)


def test_whether_values_are_finite_is_no_question(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        loss, x = torch.randn(100, device="cuda").sum(), torch.randn(100, device="cuda")
        for value in (loss, x):
            assert torch.isfinite(value).all()
            assert not torch.isnan(value).any()
            assert not torch.isinf(value).any()
        if not torch.isfinite(loss):
            x = x[:1]
        assert x[torch.isfinite(x)].shape == (100,)
        assert x[torch.isinf(x)].shape == (0,)
        assert recorder.decisions.places == {}
        if loss > 0:
            x = x[:1]
        assert len(recorder.decisions.places) == 1


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers_and_their_gradients_have_real_values(
    tmp_path: Path, kind: type[nn.RNNBase], packed: bool
) -> None:
    torch.manual_seed(0)
    layer, x = kind(4, 8, 2, bidirectional=True), torch.randn(5, 3, 4)
    lengths = torch.tensor([5, 3, 1])

    def run(layer: nn.RNNBase, x: torch.Tensor) -> torch.Tensor:
        given = pack_padded_sequence(x, lengths) if packed else x
        out, state = layer(given)
        last = state[0] if isinstance(state, tuple) else state
        return ((out.data if packed else out).sin().sum() + last.sum()).square()

    wanted = run(layer, x)
    wanted.backward()
    gradients = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
    layer.zero_grad()
    with memestimate.record(tmp_path / "x.mrec", real=True) as recorder:
        on_gpu = layer.cuda()
        loss = run(on_gpu, x.cuda())
        loss.backward()
        assert loss.item() == pytest.approx(wanted.item(), rel=1e-4)
        for parameter, gradient in zip(on_gpu.parameters(), gradients, strict=True):
            assert parameter.grad is not None
            known = recorder.values.get(parameter.grad)
            assert known is not None
            assert torch.allclose(known, gradient, rtol=1e-3, atol=1e-5)
        assert recorder.notes == []


def test_the_state_of_dropout_has_no_values(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec", real=True) as recorder:
        out, _ = nn.LSTM(4, 8, 2, dropout=0.5).cuda()(torch.randn(5, 3, 4).cuda())
        out.sum().backward()
        assert recorder.notes == []


@pytest.mark.parametrize("real", [False, True])
def test_how_often_elements_are_repeated_is_summed_up(tmp_path: Path, real: bool) -> None:
    with memestimate.record(tmp_path / "x.mrec", real=real) as recorder:
        counts = torch.tensor([2, 0, 3]).cuda()
        ids = torch.repeat_interleave(torch.arange(3, device="cuda"), counts)
        known = recorder.values.get(ids)
        assert known is not None
        assert known.tolist() == [0, 0, 2, 2, 2]
        assert torch.repeat_interleave(counts, 4, output_size=12).shape == (12,)
    assert {"cumsum", "all"} <= set(names(tmp_path / "x.mrec"))


@pytest.mark.parametrize("by_row", [False, True])
def test_what_is_fake_quantized_is_looked_through_first(tmp_path: Path, by_row: bool) -> None:
    from torch.ao import quantization

    kinds = quantization.default_fused_per_channel_wt_fake_quant, quantization.default_fused_act_fake_quant
    with memestimate.record(tmp_path / "x.mrec"):
        layer = kinds[not by_row]().cuda()
        x = torch.randn(16, 3, 5, 5, device="cuda", requires_grad=True)
        layer(x).sum().backward()
        assert x.grad is not None
    ranges = Recording(tmp_path / "x.mrec").calls("aminmax")
    metas = Recording(tmp_path / "x.mrec").tables["meta"]
    assert [metas[int(call[2][0].split(":")[1])][1] for call in ranges] == [[16] if by_row else []]


def test_tensors_of_two_shapes_are_not_equal(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        x = torch.randn(200, 400, device="cuda")
        assert not torch.equal(x, x[:100])
        assert not torch.equal(x.cpu(), x[:100].cpu())
        assert torch.equal(x, x.view(200, 400))
        assert not recorder.decisions.places
        assert torch.equal(x, x.clone())
    assert {"eq", "all"} <= set(names(tmp_path / "x.mrec"))


@pytest.mark.filterwarnings("ignore")
def test_the_function_of_scores_has_real_values_where_it_is_looked_at(tmp_path: Path) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    with memestimate.record(tmp_path / "x.mrec", real=True) as recorder:
        x = torch.randn(1, 2, 128, 16, device="cuda", requires_grad=True)

        def slopes(score: torch.Tensor, b: object, head: torch.Tensor, i: object, j: object) -> torch.Tensor:
            return score * torch.exp2(-((head + 1) * 4.0))

        torch.compile(flex_attention)(x, x, x, score_mod=slopes).sum().backward()
        assert not [text for code, text in recorder.notes if code == "real" and "taken to be zero" in text]

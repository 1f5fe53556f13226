"""Values of tensors on the pretended GPU."""

from __future__ import annotations

import copy
import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import memestimate
from memestimate.values.decisions import Change
from memestimate.values.usage import Usage
from recording import Recording


@pytest.fixture
def rec(tmp_path: Path) -> memestimate.Recorder:
    with memestimate.record(tmp_path / "x.mrec") as recorder:
        yield recorder


def codes(rec: memestimate.Recorder) -> list[str]:
    return [code for code, _ in rec.notes]


def test_small_values_from_the_host_are_known(rec: memestimate.Recorder) -> None:
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]]).cuda()
    assert mask.sum().item() == 3
    assert not bool((mask == 1).all())
    assert mask.bool().nonzero().shape == (3, 2)
    assert torch.ones(2, 3, 5, device="cuda")[mask.bool()].shape == (3, 5)
    assert torch.arange(7, device="cuda").max().item() == 6
    assert (mask.cumsum(1)[:, -1]).tolist() == [2, 1]
    assert codes(rec) == []


def test_a_mask_of_floats_chooses_what_it_has(rec: memestimate.Recorder) -> None:
    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.block_diag(*[torch.ones(10, 1)] * 43))  # more than floats are followed

    mask, x = Blocks().cuda().mask, torch.ones(430, 43, device="cuda")
    assert x[mask.bool()].view(1, 43, 10, 1).shape == (1, 43, 10, 1)
    mask[0] = 1
    assert x[mask.bool()].shape == (430 + 42,)


def test_a_mask_is_known_however_often_it_is_seen(rec: memestimate.Recorder) -> None:
    mask = torch.zeros(256, 8, dtype=torch.bool)
    mask[::7] = True
    chosen, x = mask.cuda(), torch.ones(256, 8, 512, device="cuda")
    wide = chosen[..., None].expand_as(x)  # of a million elements
    assert x[wide].view(-1, 512).shape == (int(mask.sum()), 512)
    assert torch.masked_select(x, wide).shape == wide.nonzero().shape[:1] == (int(mask.sum()) * 512,)
    assert codes(rec) == []
    chosen.copy_(torch.rand(256, 8, device="cuda") > torch.randn(256, 8, device="cuda"))
    assert x[wide].shape == (x.numel(),)
    assert codes(rec) == ["nonzero"]


def test_tensors_are_made_on_the_gpu_where_the_default_type_is_there(rec: memestimate.Recorder) -> None:
    try:
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        drawn = torch.rand(4, 1)
        assert drawn.is_cuda
        assert 0 <= (drawn > 0.5).float().sum().item() <= 4
        assert torch.ones(3)[torch.randn(3) > 0].shape == (3,)
        assert torch.linspace(0, 1, 5).tolist()[-1] == 1
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")


def test_sparse_gradients_that_meet_are_put_one_after_the_other(rec: memestimate.Recorder) -> None:
    embedding = nn.Embedding(100, 8, sparse=True).cuda()
    x = torch.arange(12, device="cuda")
    (embedding(x).sum() + embedding(x[:5]).mul(2).sum()).backward()
    gradient = embedding.weight.grad
    assert gradient is not None
    assert gradient._values().shape == (17, 8)
    assert gradient._indices().shape == (1, 17)
    assert not gradient.is_coalesced()


@pytest.mark.parametrize("real", [False, True])
def test_sparse_gradients_of_several_passes_are_put_one_after_the_other(tmp_path: Path, real: bool) -> None:
    with memestimate.record(tmp_path / "x", real=real) as recorder:
        embedding = nn.Embedding(100, 8, sparse=True).cuda()
        optimizer = torch.optim.Adagrad(embedding.parameters())
        x = torch.arange(12, device="cuda")
        for rows in (x, x[:5]):
            embedding(rows).sum().backward()
        gradient = embedding.weight.grad
        assert gradient is not None
        assert (gradient._values().shape, gradient._indices().shape) == ((17, 8), (1, 17))
        optimizer.step()
        if real:
            known = recorder.values.get(gradient.coalesce()._values())
            assert known is not None
            assert known.tolist() == [[2.0] * 8] * 5 + [[1.0] * 8] * 7
    assert len(Recording(tmp_path / "x").calls("cat")) == 2


def test_what_is_written_over_is_forgotten(rec: memestimate.Recorder) -> None:
    x = torch.zeros(4, device="cuda")
    view = x[:2]
    assert x.sum().item() == 0
    view.normal_()
    x.sum().item()
    assert codes(rec) == ["item"]


def test_unknown_values_are_answered_and_noted(rec: memestimate.Recorder) -> None:
    x = torch.randn(10, device="cuda")
    assert x.sum().item() == 1.0
    assert f"{x.mean():.2f}" == "1.00"
    assert bool(torch.isfinite(x).all())
    assert not bool(torch.isnan(x).any())
    assert x[x > 0].shape == (10,)
    assert torch.unique(x).shape == (10,)
    assert {"item", "nonzero", "unique"} <= set(codes(rec))


def test_a_gradient_scaler_steps(tmp_path: Path) -> None:
    with memestimate.record(tmp_path / "y.mrec") as rec:
        net = nn.Linear(8, 8).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.randn(2, 8, device="cuda")).float().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert rec.steps == 1
    names = [call[0] for call in Recording(tmp_path / "y.mrec").calls()]
    assert "_amp_foreach_non_finite_check_and_unscale_" in names
    assert "_foreach_norm" in names
    assert "_foreach_add_" in names
    assert "addmm" in names


def test_to_the_host_and_back(rec: memestimate.Recorder) -> None:
    net = nn.Linear(4, 4).cuda()
    copied = copy.deepcopy(net)
    assert isinstance(copied.weight, nn.Parameter)
    assert copied.weight.is_cuda
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location="cuda")
    assert state["weight"].is_cuda
    net.load_state_dict(state)
    assert net(torch.ones(2, 4, device="cuda")).detach().cpu().numpy().shape == (2, 4)
    assert net.cpu().weight.device.type == "cpu"


def test_ties_survive_the_move(rec: memestimate.Recorder) -> None:
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    net = nn.Sequential(first, second)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.cuda()
    assert first.weight is second.weight
    assert optimizer.param_groups[0]["params"][0] is first.weight
    assert rec.storages.allocated == 512


def test_operators_without_a_rule_of_shapes_are_tried_on_the_host(rec: memestimate.Recorder) -> None:
    data = torch.ones(4, 3, device="cuda")
    packed = nn.utils.rnn.pack_padded_sequence(data[..., None], torch.tensor([3, 2, 2, 1]), batch_first=True)
    assert packed.data.shape == (8, 1)
    assert packed.batch_sizes.tolist() == [4, 3, 1]


def test_devices_are_answered(rec: memestimate.Recorder) -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties(0).total_memory == rec.gpu.memory
    assert torch.accelerator.is_available()
    kept = torch.empty(1000, device="cuda")
    assert torch.cuda.memory_allocated() == 4096
    del kept
    assert torch.cuda.memory_allocated() == 0
    assert torch.cuda.max_memory_allocated() == 4096
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
    torch.cuda.synchronize()
    assert torch.get_rng_state().numel() > 0
    assert torch.cuda.get_rng_state().dtype is torch.uint8


def test_checks_that_a_sane_program_passes(rec: memestimate.Recorder) -> None:
    x = torch.randn(16, 6, device="cuda")
    assert bool((x == x).all(-1).all() & torch.isfinite(x).all())
    assert bool(~torch.isnan(x).any())
    assert not torch.isnan(x).any().logical_not().logical_not()
    assert torch.isnan(x).sum().item() == 0
    assert torch.distributions.Categorical(logits=x).log_prob(x.argmax(1)).shape == (16,)
    assert torch.distributions.Normal(x, x.exp()).cdf(x).shape == (16, 6)


def test_a_mask_has_one_count(rec: memestimate.Recorder) -> None:
    labels = torch.arange(2 * 300).reshape(2, 300).cuda() % 7
    kept = torch.ones(2, 300, dtype=torch.bool).cuda()
    kept[1, 200:] = False
    x = torch.randn(2, 300, 4, device="cuda")
    chosen = (labels > 4)[kept]
    assert chosen.shape == (500,)
    assert x[kept][chosen].shape[0] == chosen.sum().item() == chosen.nonzero().shape[0]
    assert x[kept].shape[0] + x[~kept].shape[0] == 600
    assert codes(rec) == []
    unknown = torch.randn(20, 10, device="cuda") > 0
    counts = {int(unknown.sum()), len(unknown.flatten().nonzero()), len(torch.ones(20, 10, device="cuda")[unknown])}
    assert counts == {200}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_a_mask_of_numbers_has_the_count_of_the_mask(rec: memestimate.Recorder, dtype: torch.dtype) -> None:
    x = torch.randn(2, 1, 40, 50, device="cuda")
    inside, darker = (x.abs().max(1, keepdim=True)[0] <= 1).to(dtype), x < x.roll(1)
    both = darker.to(dtype) * inside
    for mask in (inside, both, darker * inside, 1.0 * darker, torch.cat([both, inside])[:2]):
        wide = mask.expand(2, 3, 40, 50)
        assert wide.sum() > 11999
        assert not wide.sum() > 12000
    assert not (both * x).sum() > 2, "what is masked is no mask"
    assert not (both + 1).sum() > 2
    both.add_(1)
    assert not both.sum() > 2
    drawn = (torch.rand(1000, 1000, device="cuda") < 0.25).to(dtype)
    assert drawn.sum() > 250000
    assert not drawn.sum() > 260000
    assert {place.kind for place in rec.decisions.places.values()} == {"truth"}


def test_routing_is_balanced(rec: memestimate.Recorder) -> None:
    experts, tokens, k = 8, 100, 2
    _, chosen = torch.randn(tokens, experts, device="cuda").softmax(-1).topk(k)
    share = tokens * k // experts
    assert len(torch.where(chosen == 3)[0]) == share
    one_hot = torch.nn.functional.one_hot(chosen, num_classes=experts).permute(2, 1, 0)
    assert len(one_hot.sum((-1, -2)).greater(0).nonzero()) == experts
    assert len(torch.where(one_hot[5])[0]) == share
    assert torch.bincount(chosen.flatten(), minlength=experts).tolist() == [share] * experts
    gates = torch.zeros(tokens, experts, device="cuda").scatter(1, chosen, torch.rand(tokens, k, device="cuda"))
    assert (gates > 0).sum(0).tolist() == [share] * experts
    assert len(gates.nonzero()) == tokens * k
    assert set(codes(rec)) == {"routing"}


def test_slices_are_as_long_as_what_is_added_to_their_begin(rec: memestimate.Recorder) -> None:
    where = torch.zeros(4, 2, device="cuda", requires_grad=True).sigmoid().mul(28).long()
    x, end = torch.zeros(4, 1, 28, 28, device="cuda"), where + 8
    rec.values.written(where, None)  # nobody knows it, nor what is made of it
    end = where + 8
    assert x[0, :, where[0, 1] : end[0, 1], where[0, 0] : end[0, 0]].shape == (1, 8, 8)


def test_a_mask_that_is_repeated_keeps_its_share(rec: memestimate.Recorder) -> None:
    ids = torch.rand(4, 49, device="cuda").argsort(1).argsort(1)
    kept = (torch.arange(49, device="cuda") < 19).repeat(4, 1).gather(1, ids)
    tokens = torch.zeros(4, 49 * 64, 256, device="cuda")
    assert tokens.view(4, 49, 64, 256)[kept].shape == (4 * 19, 64, 256)
    assert tokens[kept[..., None].tile(1, 64, 256)].shape == (4 * 19 * 64 * 256,)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_fused_step_of_sgd_makes_nothing(tmp_path: Path, momentum: float) -> None:
    """Fake tensors have no rule of shapes for it, and it is too large to be tried on the host."""
    weight = nn.Parameter(torch.empty(2048, 2048, device="meta"))
    with memestimate.record(tmp_path / "x.mrec") as rec:
        parameter = nn.Parameter(torch.empty_like(weight, device="cuda"))
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=momentum, fused=True)
        rec.seen = []
        (parameter * 2).sum().backward()
        optimizer.step()
        assert rec.seen.count("_fused_sgd_") == 1
        assert bool(optimizer.state[parameter].get("momentum_buffer") is not None) == bool(momentum)


def test_parts_of_a_routing_add_up(rec: memestimate.Recorder) -> None:
    experts, tokens, k = 8, 100, 2
    scores = torch.randn(tokens, experts, device="cuda")
    chosen = torch.zeros(tokens, experts, device="cuda").scatter(1, scores.topk(k, dim=1).indices, 1)
    assert chosen.long().sum(0).tolist() == [tokens * k // experts] * experts
    x = torch.randn(10, 4, device="cuda")
    lengths = scores.sum(0).long().tolist()  # nobody knows these
    assert [len(part) for part in x.split(lengths)] == [2, 2, 1, 1, 1, 1, 1, 1]
    assert "10 elements were taken to be split evenly into 8 parts" in dict(rec.notes).values()
    with pytest.raises(RuntimeError, match="sum exactly"):
        x.split([5, 4])


@pytest.mark.parametrize(
    ("gpu", "dtype", "products"),
    [("h200", torch.bfloat16, 0), ("h200", torch.float32, 3 * 4), ("a100-80gb", torch.bfloat16, 3 * 4)],
)
def test_experts_without_a_kernel_have_a_product_each(
    tmp_path: Path, gpu: str, dtype: torch.dtype, products: int
) -> None:
    """The kernel is for bfloat16 on Hopper and Blackwell; PyTorch 2.9 and newer go through the groups elsewhere."""
    if not hasattr(torch, "_grouped_mm") or (products and torch.__version__ < (2, 9)):
        pytest.skip("this version of PyTorch has no grouped products there")
    with memestimate.record(tmp_path / "x.mrec", gpu=gpu) as rec:
        x = torch.randn(100, 64, device="cuda", dtype=dtype, requires_grad=True)
        experts = torch.randn(4, 64, 48, device="cuda", dtype=dtype, requires_grad=True)
        ends = torch.randn(100, 4, device="cuda").sum(0).int()
        rec.seen = []
        y = torch._grouped_mm(x, experts, offs=ends)
        assert (y.shape, y.stride()) == ((100, 48), (48, 1))
        (y * y).sum().backward()
        assert [t.grad.shape for t in (x, experts) if t.grad is not None] == [x.shape, experts.shape]
        assert rec.seen.count("_grouped_mm") == 3
        assert rec.seen.count("mm") == products
    assert ("routing" in codes(rec)) == bool(products)


@pytest.mark.skipif(
    not hasattr(torch, "_grouped_mm") or torch.__version__ >= (2, 9), reason="every GPU has grouped products"
)
def test_experts_without_a_kernel_are_refused(tmp_path: Path) -> None:
    """As PyTorch up to 2.8 refuses them everywhere but on Hopper."""
    with memestimate.record(tmp_path / "x.mrec", gpu="a100-80gb"):
        x = torch.randn(8, 64, device="cuda", dtype=torch.bfloat16)
        ends = torch.tensor([4, 8], dtype=torch.int32, device="cuda")
        with pytest.raises(RuntimeError, match=r"compute capability = 9\.0"):
            torch._grouped_mm(x, torch.randn(2, 64, 64, device="cuda", dtype=torch.bfloat16), offs=ends)


@pytest.mark.parametrize("additive", [False, True])
def test_masks_of_attention_are_followed(rec: memestimate.Recorder, additive: bool) -> None:
    kept = torch.ones(2, 512, dtype=torch.long, device="cuda")
    kept[:, 300:] = 0
    if additive:
        floats = kept[:, None, None].expand(2, 1, 512, 512).to(torch.bfloat16)
        scores = (1 - floats) * torch.finfo(torch.bfloat16).min
    else:
        both = (torch.arange(512, device="cuda") >= 0)[None, None, :, None] & kept[:, None, None].bool()
        zero, least = (torch.tensor(v, device="cuda", dtype=torch.bfloat16) for v in (0, -torch.inf))
        scores = torch.where(both.expand(2, 1, 512, 512), zero, least)
    row = scores[:, 0, 0]
    assert not (row > 0).any().item()
    assert (row < 0).nonzero().shape == (2 * 212, 2)
    assert codes(rec) == []


def test_what_is_filled_with_an_unknown_value_is_unknown(rec: memestimate.Recorder) -> None:
    ids = torch.zeros(2, 8, dtype=torch.long, device="cuda")
    ids[:, 0].fill_(torch.randn(5, device="cuda").argmax())
    assert rec.values.get(ids) is None


def test_writes_through_views_are_followed(rec: memestimate.Recorder) -> None:
    mask = torch.zeros(4, 10, dtype=torch.bool).cuda()
    flat, copied = mask.view(-1), mask.clone()
    for row in range(4):
        mask[row].narrow(0, row, 10 - row).fill_(1)
    assert mask.sum().item() == flat.sum().item() == 34
    assert copied.sum().item() == 0
    assert codes(rec) == []
    mask[0].bernoulli_()
    flat.sum().item()
    assert codes(rec) == ["item"]


def test_an_element_that_is_not_known_leaves_the_others(rec: memestimate.Recorder) -> None:
    held = torch.tensor([3.0, 0.5, -1.0, 7.0]).cuda()
    view = held[1:3]
    held[2] = torch.randn(5, device="cuda").mean()
    assert (int(held[0].item()), held[1].item(), int(held[-1])) == (3, 0.5, 7)
    assert codes(rec) == []
    assert held[2].item() != -1.0  # a plausible value, of which a note tells
    assert len(codes(rec)) == 1
    held[2:].fill_(2.0)  # over what is not known, and some that is
    assert view[0].item() == 0.5
    held.zero_()
    assert held.tolist() == [0.0] * 4
    assert len(codes(rec)) == 1
    for i in range(4):
        held[i] = torch.randn(5, device="cuda").mean()
    assert all(value.item() != 0.0 for value in held)


def test_those_chosen_of_known_numbers_reach_as_far(rec: memestimate.Recorder) -> None:
    """Nodes of graphs, of which a pooling keeps some: there are as many graphs afterwards."""
    graphs = torch.arange(2, 6, device="cuda").repeat_interleave(10)
    kept = torch.rand(40, device="cuda").topk(20).indices
    assert int(graphs[kept].max()) + 1 == int(graphs.index_select(0, kept).view(4, 5).amax()) + 1 == 6
    assert int(graphs.gather(0, kept).min()) == 2
    assert int(graphs[torch.rand(40, device="cuda") > 0.5].max()) == 5


def test_factorizations_succeed(rec: memestimate.Recorder) -> None:
    matrix = torch.randn(3, 4, 4, device="cuda")
    for info in (
        torch.linalg.cholesky_ex(matrix).info,
        torch.linalg.inv_ex(matrix).info,
        torch.linalg.lu_factor_ex(matrix).info,
        torch.linalg.ldl_factor_ex(matrix).info,
    ):
        assert info.shape == (3,)
        assert not torch.any(info)
        assert int(info[0]) == 0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_an_exception_says_that_values_were_taken(tmp_path: Path) -> None:
    def search() -> None:
        found = {"largest": torch.randn(3, device="cuda").max().item()}  # whose source does not say what is asserted
        if found["largest"] < 100:
            raise AssertionError

    def solve(real: bool) -> list[str]:
        with pytest.raises(AssertionError) as caught, memestimate.record(tmp_path / "x.mrec", real=real):
            search()
        return getattr(caught.value, "__notes__", [])

    (said,) = solve(real=False)
    assert "test_values.py:" in said
    assert "real=True" in said
    assert solve(real=True) == []
    with pytest.raises(ValueError, match="of its own") as caught, memestimate.record(tmp_path / "x.mrec"):
        raise ValueError("of its own")
    assert not hasattr(caught.value, "__notes__")


def test_windows_of_an_inverse_transform_do_overlap(rec: memestimate.Recorder) -> None:
    """istft asks whether the lowest value of the windows' sum is zero, which it is not in a sane program."""
    spectrum = torch.randn(2, 33, 9, device="cuda", dtype=torch.complex64)
    assert torch.istft(spectrum, 64, 16, window=torch.randn(64, device="cuda").abs(), length=128).shape == (2, 128)
    without_rule = {"fallback"} if torch.__version__ < (2, 7) else set()  # of its shapes
    assert [code for code in codes(rec) if code not in without_rule] == ["item"]


def test_lists_of_values_become_tensors(tmp_path: Path) -> None:
    """PyTorch reads tensors in a list where they lie; lengths that a program keeps on the GPU are packed so."""
    with memestimate.record(tmp_path / "x"):
        lengths = torch.tensor([4, 3, 1]).cuda()
        packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 4, 8).cuda(), list(lengths), batch_first=True)
        assert packed.data.shape == (8, 8)
        assert torch.jit.script(_scripted)(torch.ones(2).cuda()).shape == (2,)


def _scripted(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor(1.0)


def test_what_is_drawn_is_likely(rec: memestimate.Recorder) -> None:
    """Coins and indices come from a generator here; the program's own gives what it always gives."""
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    coins = torch.rand(1000, device="cuda") < 0.2
    assert torch.equal(torch.rand(3), wanted)
    assert 150 < int(coins.sum()) < 250
    assert len(torch.ones(1000, device="cuda")[coins]) == int(coins.sum())
    assert torch.randperm(5, device="cuda").sort().values.tolist() == [0, 1, 2, 3, 4]
    assert 0 <= torch.randint(3, (7,), device="cuda").max().item() < 3
    place = next(place for place in rec.decisions.places.values() if place.kind == "size")
    assert place.taken.endswith("elements of a mask are set: random numbers")


def test_copies_on_the_host_are_asked_when_they_decide(rec: memestimate.Recorder) -> None:
    x = torch.randn(20, 4, device="cuda")
    kept = [x.cpu()]
    print(x.mean().cpu().item(), x.cpu().numpy().shape, x.cpu())
    assert rec.notes == [] or codes(rec) == ["host"]
    rec.notes.clear()
    buffer = torch.zeros(3, 20, 4)
    buffer[1] = kept[0]
    scores = (buffer * 2).sum(-1)
    rows = int(scores.max())
    assert torch.ones(20, device="cuda")[:rows].shape == (8,)
    assert codes(rec) == ["host"]
    assert (buffer > 0).nonzero().shape == (80, 3)
    assert [p.kind for p in rec.decisions.places.values() if p.usage >= Usage.SIZE] == ["number", "size"]
    assert x.numpy(force=True).shape == (20, 4)
    back = buffer.cuda()
    assert rec.values.get(back) is None
    assert torch.zeros(2).sum().item() == 0


def test_arrays_are_changed_in_another_recording(tmp_path: Path) -> None:
    def loop(x: torch.Tensor) -> int:
        return int(x.cpu().numpy().sum())

    place = f"{__file__}:{loop.__code__.co_firstlineno + 1}"
    found = []
    for places in ((), (place,)):
        change = Change(places=frozenset(places))
        with memestimate.Recorder(tmp_path / "x.mrec", change=change):
            found.append(loop(torch.randn(6, device="cuda")))
    assert found == [6, 0]


def test_as_many_values_are_different_as_there_are_choices(rec: memestimate.Recorder) -> None:
    assert torch.unique(torch.randn(64, 4, device="cuda").argmax(1)).shape == (4,)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_better_points(rec: memestimate.Recorder, search: str | None) -> None:
    """So that its history fills; with losses that are all alike it stops at once, or searches as long as it may."""
    net = nn.Linear(512, 8).cuda()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=6, history_size=4, line_search_fn=search)
    x = torch.randn(4, 512, device="cuda")
    evaluations = 0

    def closure() -> torch.Tensor:
        nonlocal evaluations
        evaluations += 1
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    for step in range(1, 3):
        assert isinstance(optimizer.step(closure).item(), float)
        assert 6 * step <= evaluations <= 7 * step
    state = optimizer.state[net.weight]
    assert state["n_iter"] == 12
    assert [len(state[name]) for name in ("old_dirs", "old_stps")] == [4, 4]
    assert "search" in codes(rec)


def test_tensors_of_lists_are_on_the_default_device(rec: memestimate.Recorder) -> None:
    try:
        torch.set_default_device("cuda")
        assert torch.tensor([10.0]).is_cuda
        assert torch.as_tensor([1, 2]).sum().item() == 3
        assert torch.tensor(7, device="cpu").device.type == "cpu"
    finally:
        torch.set_default_device(None)
    with torch.device("cuda"):
        assert torch.tensor([10.0]).is_cuda
    assert not torch.tensor([10.0]).is_cuda
    assert codes(rec) == []


def test_indices_that_are_copied_are_different_and_within_range(rec: memestimate.Recorder) -> None:
    scores = torch.randn(3, 49, device="cuda")
    found = scores.topk(5, dim=-1)[1]
    for kept in (found.cpu().numpy(), np.array(found.detach().cpu().tolist())):
        assert kept.shape == (3, 5)
        assert kept.min() > 0
        assert kept.max() < 49
        assert all(len(set(row)) == 5 for row in kept)
    order = torch.randn(7, 4, device="cuda").argsort(dim=0).cpu().numpy()
    assert [sorted(column) for column in order.T] == [list(range(7))] * 4
    assert len(set(torch.rand(9, device="cuda").multinomial(4).cpu().tolist())) == 4
    first, second = (int(found[0][i]) for i in range(2))
    assert first != second
    assert 0 < min(first, second) <= max(first, second) < 49
    lengths = (torch.randn(6, device="cuda") > 0).int().cumsum(0).cpu().tolist()
    assert lengths == sorted(lengths)
    rows = torch.randn(2, 4, device="cuda").softmax(-1).cpu()
    assert torch.equal(rows.sum(-1), torch.ones(2))


def test_another_draw_differs_in_what_divides_and_in_order(tmp_path: Path) -> None:
    def periods(x: torch.Tensor) -> list[int]:
        return [96 // int(i) for i in x.topk(5)[1].cpu().numpy()]

    place = f"{__file__}:{periods.__code__.co_firstlineno + 1}"
    found = []
    for places in ((), (place,)):
        with memestimate.Recorder(tmp_path / "x.mrec", change=Change(places=frozenset(places))):
            found.append(periods(torch.randn(49, device="cuda")))
    assert found[0] != found[1]
    assert sum(96 % n == 0 for n in found[0]) > sum(96 % n == 0 for n in found[1])


def test_periods_that_decide_are_said(tmp_path: Path, program: Path) -> None:
    """As TimesNet has it: lengths are padded to periods that the strongest frequencies give."""

    def step(x: torch.Tensor) -> torch.Tensor:
        top = torch.fft.rfft(x, dim=1).abs().mean(0).mean(-1).topk(3)[1].detach().cpu().numpy()
        out = x
        for i in top:
            period = x.shape[1] // int(i)
            length = -(-x.shape[1] // period) * period
            padded = torch.cat([x, x.new_zeros(x.shape[0], length - x.shape[1], x.shape[2])], 1)
            out = out + padded.reshape(x.shape[0], length // period, period, -1).relu().reshape(padded.shape)[:, :96]
        return out.sum()

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return step(x * 1)

    answer = memestimate.estimate(Net(), torch.randn(64, 96, 512), mode="infer", recording=tmp_path / "x.mrec")
    said = next(note for note in answer.notes if note.startswith("3 values copied from the GPU were drawn"))
    assert said.endswith(": the peak hangs on which")
    assert answer.depends_on_data

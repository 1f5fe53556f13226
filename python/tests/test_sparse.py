"""Sparse tensors in other shapes and layouts, and products of batches of them, beside what PyTorch gives on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import memestimate
from recording import Recording

_Change = Callable[[torch.Tensor], torch.Tensor]
_CHANGES: dict[str, _Change] = {
    "unsqueeze": lambda g: g.unsqueeze(0),
    "unsqueeze behind": lambda g: g.unsqueeze(-1),
    "select": lambda g: g.unsqueeze(0)[0],
    "row": lambda g: g[1],
    "element": lambda g: g[1][2],
    "transpose": lambda g: g.unsqueeze(0).transpose(1, 2),
    "permute": lambda g: g.T,
    "cat": lambda g: torch.cat([g, 2 * g], 1),
    "stack": lambda g: torch.stack([g, g]),
    "to_dense": lambda g: g.to_dense(),
    "from dense": lambda g: g.to_dense().to_sparse(),
    "half": lambda g: g.half(),
    "zeros_like": torch.zeros_like,
    "clone": lambda g: g.detach().clone(),
    "add": lambda g: torch.ones(3, 4, device=g.device) + g,
    "sum": lambda g: torch.sparse.sum(g, 1),
    "sum of all": lambda g: torch.sparse.sum(torch.stack([g, g]), (0, 1, 2)),
    "sum of a batch": lambda g: torch.stack([g, g]).sum(0, keepdim=True),
    "neg": lambda g: -g,
    "pow": lambda g: g.pow(2),
    "relu": torch.relu,
    "isnan": torch.isnan,
    "any": lambda g: g.isnan().any(),
    "bmm": lambda g: torch.bmm(torch.stack([g, -g]), torch.ones(2, 4, 5, device=g.device)),
}


def _graph() -> torch.Tensor:
    places = torch.tensor([[0, 1, 1, 2], [3, 0, 2, 1]])
    return torch.sparse_coo_tensor(places, torch.tensor([1.0, -2.0, 3.0, 4.0]), (3, 4)).coalesce()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_sparse_tensors_are_seen_otherwise(tmp_path: Path, change: _Change, real: bool) -> None:
    wanted = change(_graph())
    with memestimate.record(tmp_path / "x", real=real) as recorder:
        found = change(_graph().cuda())
        assert found.layout is wanted.layout
        assert found.shape == wanted.shape
        assert found.dtype is wanted.dtype
        if found.layout is torch.sparse_coo and (real or wanted.numel() > 12):
            assert found._nnz() == wanted._nnz()
            assert found.is_coalesced() == wanted.is_coalesced()
        if recorder.values.real is not None:
            assert torch.equal(_dense(recorder.values.real.of(found)), _dense(wanted))
    assert "fallback" not in dict(recorder.notes)


def test_a_matrix_of_a_batch_is_multiplied(tmp_path: Path) -> None:
    """select_sparse gives a tensor whose order nobody knows: each product sorts it anew, and so does backward."""
    nodes, edges, width = 5000, 30_000, 64
    places = torch.stack([torch.arange(edges) % nodes, torch.arange(edges) // nodes])
    graph = torch.sparse_coo_tensor(places, torch.rand(edges), (nodes, nodes)).coalesce()
    with memestimate.record(tmp_path / "x") as recorder:
        batch = graph.cuda().unsqueeze(0)
        x = torch.randn(1, nodes, width, device="cuda", requires_grad=True)
        before = recorder.storages.allocated
        torch.mm(batch[0, ...], x[0]).sum().backward()
        assert recorder.storages.allocated - before == x.numel() * 4  # its gradient
    recording = Recording(tmp_path / "x")
    assert len(recording.calls("nonzero")) == 2  # which values there are, and which rows of the indices
    keys = [event for event in recording.of("alloc") if event[1] == edges * 8]
    assert len(keys) >= 2 * 5  # keys, places and buffers of each of two sorts
    assert list(recording.of("depends")) == []


def test_what_has_no_rule_is_refused(tmp_path: Path) -> None:
    """A run on the host would take it for a dense tensor."""
    with memestimate.record(tmp_path / "x"):
        graph = _graph().cuda()
        for function in (lambda g: torch.sparse.softmax(g, 1), lambda g: g.index_select(0, torch.arange(2).cuda())):
            with pytest.raises(RuntimeError, match="of a tensor of layout sparse_coo cannot be recorded"):
                function(graph)
        with pytest.raises(RuntimeError, match="in its sparse dimensions alone"):
            torch.sparse_coo_tensor(torch.zeros(1, 2, dtype=torch.int64).cuda(), torch.ones(2, 3).cuda()).transpose(
                0, 1
            )


def test_parts_are_asked_for_twice_and_end_with_the_tensor(tmp_path: Path) -> None:
    """Autograd makes a view of what `values()` gives; of one tensor it can do so once."""
    with memestimate.record(tmp_path / "x") as recorder:
        for graph in (_graph().cuda(), _graph().cuda().to_sparse_csr()):
            before = recorder.storages.live
            parts = (
                ["values", "indices"] if graph.layout is torch.sparse_coo else ["values", "crow_indices", "col_indices"]
            )
            for name in parts:
                assert torch.equal(getattr(graph, name)(), getattr(graph, name)())
            assert recorder.storages.live == before
        del graph
        assert recorder.storages.live == 0

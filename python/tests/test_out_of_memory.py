"""Programs that try batches until one does not fit: what they are told is what the answer says."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import memestimate
from memestimate.api import program as answers
from recording import Recording


def find_batch(model: nn.Module, batch: int = 40_000, width: int = 1024) -> int:
    while True:
        try:
            for _ in range(2):
                model(torch.ones(batch, width, device="cuda")).square().mean().backward()
            return batch
        except torch.cuda.OutOfMemoryError:
            batch = int(batch * 0.9)


def test_what_fits_by_the_program_fits_by_the_answer(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mrec"
    with memestimate.record(path, gpu="t4"):
        layers = [nn.Sequential(nn.Linear(1024, 8192), nn.GELU(), nn.Linear(8192, 1024)) for _ in range(6)]
        found = find_batch(nn.Sequential(*layers).cuda())
    assert found < 40_000
    assert len(list(Recording(path).of("out_of_memory"))) > 0
    answer = answers.ask([str(path), "--gpu", "t4"])
    assert not [note for note in answer["notes"] if "runs out of memory" in note["text"]]
    assert all(fit["fits"] for fit in answer["fits"])


def test_what_the_program_asks_of_the_allocator_is_the_answers(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mrec"
    with memestimate.record(path):
        model = nn.Linear(1024, 1024, device="cuda")
        model(torch.ones(1 << 14, 1024, device="cuda")).sum().backward()
        reserved, allocated = torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()
        free, total = torch.cuda.mem_get_info()
        torch.cuda.reset_peak_memory_stats()
        torch.ones(1024, device="cuda")
        assert torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated() + 4096
        assert "reserved" in torch.cuda.memory_summary().lower()
        torch.cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    answer = answers.ask([str(path)])
    assert answer["peak"]["reserved_bytes"] == reserved
    assert answer["peak"]["allocated_bytes"] == allocated
    assert total - free == reserved + answer["context_bytes"]
    assert reserved % (2 << 20) == 0
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert sum(segment["total_size"] for segment in snapshot["segments"]) == reserved


@pytest.mark.parametrize("compiled", [False, True])
def test_what_kernels_hold_is_in_what_the_program_is_told(compiled: bool, program: Path, tmp_path: Path) -> None:
    if compiled:
        pytest.importorskip("triton")
    path = tmp_path / "a.mrec"
    told: list[tuple[int, int]] = []
    torch._dynamo.reset()
    with memestimate.record(path):
        model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
        run = torch.compile(model) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = torch.cuda.memory_allocated()
        for _ in range(2):
            torch.cuda.reset_peak_memory_stats()
            run(torch.ones(512, 256, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            told.append((torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()))
        reserved = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        assert reserved > torch.cuda.memory_reserved() >= told[-1][0]
        assert torch.cuda.max_memory_reserved() == reserved
    assert all(now - before >= 32 << 20 for now, _ in told), "cuBLAS keeps its workspaces"
    answer = answers.ask([str(path)])
    peaks = [max(p["peak_bytes"] for p in answer["phases"] if p["step"] == step) for step in (1, 2)]
    assert max(peak for _, peak in told) == answer["peak"]["allocated_bytes"]
    assert told[0][1] == peaks[0]


def test_an_attempt_that_failed_is_not_the_one_that_is_judged(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.mrec"
    with memestimate.record(path, gpu="t4"):
        layers = [nn.Sequential(nn.Linear(1024, 8192), nn.GELU(), nn.Linear(8192, 1024)) for _ in range(6)]
        find_batch(nn.Sequential(*layers).cuda())
    failed = len(list(Recording(path).of("out_of_memory")))
    answer = answers.ask([str(path), "--gpu", "t4"])
    assert "oom" not in answer
    (note,) = [note["text"] for note in answer["notes"] if "ran out of memory, which it caught" in note["text"]]
    assert note.startswith(f"{failed} attempt")


def test_a_search_asks_the_replay_a_few_times_an_attempt(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def counted(arguments: list[str]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return ask(arguments)

    ask = answers.ask
    monkeypatch.setattr(answers, "ask", counted)
    path = tmp_path / "a.mrec"
    with memestimate.record(path, gpu="t4"):
        layers = [nn.Sequential(*(nn.Linear(256, 256) for _ in range(20))).cuda() for _ in range(10)]
        find_batch(nn.Sequential(*layers), 160_000, 256)
    attempts = 1 + len(list(Recording(path).of("out_of_memory")))
    assert attempts > 3
    assert 0 < asked <= 20 * attempts, "of some 600 requests for memory each"

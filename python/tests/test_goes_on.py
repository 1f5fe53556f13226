"""A script is recorded until it ends: without the steps that repeat others, and past its long loops."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from memestimate.api.recorder import Recorder
from memestimate.core.recording import Enough
from memestimate.pretend import shorter
from recording import Recording

Step = Callable[[int], torch.Tensor]


def trainer(*, width: int = 64) -> tuple[nn.Module, Step]:
    net = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 1)).cuda()
    optimizer = torch.optim.Adam(net.parameters())

    def step(batch: int) -> torch.Tensor:
        loss: torch.Tensor = net(torch.ones(batch, 32, device="cuda")).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return net, step


def record(path: Path, run: Callable[[], object], **settings: Any) -> tuple[Recorder, Recording]:
    recorder = Recorder(path, **{"steps": None, **settings})
    with recorder:
        run()
    return recorder, Recording(path)


def numbered(recording: Recording) -> bool:
    """Whether storages have the numbers that a reader expects, and die once."""
    live, known = set(), 0
    for word, *rest in recording.events:
        if word == "alloc":
            assert rest[0] == known
            live.add(rest[0])
            known += 1
        elif word == "free":
            live.remove(rest[0])
        elif word == "call":
            for value in [*rest[1], *rest[2]]:
                if isinstance(value, str) and value[0].isdigit() and value not in rest[2]:
                    assert int(value.partition(":")[0]) in live
    return True


def trains_and_evaluates(steps: int) -> None:
    net, step = trainer()
    for _ in range(steps):
        step(16)
    with torch.no_grad():
        net(torch.ones(1 << 16, 32, device="cuda"))


def test_steps_that_are_like_others_are_left_out(tmp_path: Path) -> None:
    recorder, recording = record(tmp_path / "a.mrec", lambda: trains_and_evaluates(40))
    whole, all_of_it = record(tmp_path / "b.mrec", lambda: trains_and_evaluates(40), steps=0)
    assert (recorder.steps, whole.steps) == (40, 40)
    assert recorder.alike.left_out >= 34
    assert whole.alike.left_out == 0
    assert numbered(recording)
    assert len(recording.events) < len(all_of_it.events) / 4
    assert recording.peak() == all_of_it.peak() == whole.storages.highest
    assert recording.phases()[-1][1] == all_of_it.phases()[-1][1]  # what lives in the end
    assert not recorder.notes


def test_steps_that_leave_something_behind_are_kept(tmp_path: Path) -> None:
    def run() -> None:
        _, step = trainer()
        losses = [step(16) for _ in range(12)]
        del losses

    recorder, recording = record(tmp_path / "a.mrec", run)
    assert recorder.alike.left_out == 0
    assert numbered(recording)
    assert sum(1 for _ in recording.of("step")) == 12


def test_a_longer_batch_is_kept(tmp_path: Path) -> None:
    def run() -> None:
        _, step = trainer()
        for i in range(30):
            step(4096 if i == 20 else 16)

    recorder, recording = record(tmp_path / "a.mrec", run)
    whole, _ = record(tmp_path / "b.mrec", run, steps=0)
    assert numbered(recording)
    assert 15 < recorder.alike.left_out < 26
    assert recording.peak() == whole.storages.highest


def test_what_lives_on_may_die_later(tmp_path: Path) -> None:
    """The last loss of each step lives until the next, and after the loop."""

    def run() -> None:
        _, step = trainer()
        kept = step(16)
        for _ in range(20):
            kept = step(16)
        torch.ones(1000, device="cuda").add_(kept)
        del kept
        torch.ones(1000, device="cuda")

    recorder, recording = record(tmp_path / "a.mrec", run)
    assert recorder.alike.left_out > 10
    assert numbered(recording)


class Endless(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Any:
        while True:
            yield torch.ones(32)


def loops(data: Any, sizes: list[int], *, accumulate: int = 1, workers: int = 0) -> Any:
    net = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 1)).cuda()
    optimizer = torch.optim.SGD(net.parameters())
    for i, batch in enumerate(DataLoader(data, batch_size=8, num_workers=workers)):
        net(batch.cuda()).sum().backward()
        sizes.append(len(batch))
        if (i + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return net


@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_long_loop_goes_on_with_its_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accumulate: int
) -> None:
    monkeypatch.setattr(shorter, "_CALLS", 200)
    data: Sized = torch.ones(8 * 200 - 3, 32)
    sizes: list[int] = []
    evaluated: list[int] = []

    def run() -> None:
        net = loops(data, sizes, accumulate=accumulate)
        with torch.no_grad():
            for batch in DataLoader(torch.ones(8 * 100 + 1, 32), batch_size=8):  # type: ignore[arg-type]
                net(batch.cuda())
                evaluated.append(len(batch))

    recorder, recording = record(tmp_path / "a.mrec", run)
    assert numbered(recording)
    assert len(sizes) < 10 * accumulate
    assert len(sizes) % accumulate == 0
    assert sizes[-1] == 5
    assert len(evaluated) < 6
    assert evaluated[-1] == 1
    assert [code for code, _ in recorder.notes] == ["cut"]
    assert "batches of a loader were left out" in recorder.notes[0][1]


def test_what_workers_have_begun_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shorter, "_CALLS", 200)
    data: Sized = torch.ones(8 * 200 - 3, 32)
    sizes: list[int] = []
    recorder, recording = record(tmp_path / "a.mrec", lambda: loops(data, sizes, workers=2))
    assert numbered(recording)
    assert len(sizes) < 30
    assert sizes[-1] == 5
    assert [code for code, _ in recorder.notes] == ["cut"]


class Rows(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 800

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"x": torch.ones(32)}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.layer(x)
        return {"loss": y.square().mean(), "y": y}


@pytest.mark.parametrize("workers", [0, 2])
def test_trainer_ends_early_with_its_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    transformers = pytest.importorskip("transformers")
    monkeypatch.setattr(shorter, "_CALLS", 2000)

    def run() -> None:
        settings = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"),
            num_train_epochs=50,
            eval_strategy="epoch",
            save_strategy="epoch",
            report_to=[],
            disable_tqdm=True,
            dataloader_num_workers=workers,
        )
        trainer = transformers.Trainer(Net(), settings, train_dataset=Rows(), eval_dataset=Rows())
        trainer.train()
        assert trainer.state.global_step < 30
        assert len(trainer.state.log_history) > 1

    recorder, recording = record(tmp_path / "a.mrec", run)
    assert numbered(recording)
    assert recorder.phases.evaluated
    assert [p.name for p in (tmp_path / "out").iterdir()] == [f"checkpoint-{recorder.steps}"]
    assert "steps of Trainer were left out" in dict(recorder.notes)["cut"]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_lightning_ends_early_with_its_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accumulate: int
) -> None:
    lightning = pytest.importorskip("lightning")
    monkeypatch.setattr(shorter, "_CALLS", 2000)

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return self.net(**batch)["loss"]  # type: ignore[no-any-return]

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("loss", self.net(**batch)["loss"])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters())

    def run() -> None:
        trainer = lightning.Trainer(
            max_epochs=50,
            accelerator="gpu",
            devices=1,
            accumulate_grad_batches=accumulate,
            logger=False,
            enable_progress_bar=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(Module(), DataLoader(Rows(), 8), DataLoader(Rows(), 8))
        assert trainer.global_step < 30
        assert trainer.callback_metrics

    recorder, recording = record(tmp_path / "a.mrec", run)
    assert numbered(recording)
    assert recorder.phases.evaluated
    assert list((tmp_path / "checkpoints").iterdir())
    assert "steps of Lightning were left out" in dict(recorder.notes)["cut"]


def test_a_loop_without_end_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shorter, "_CALLS", 500)
    sizes: list[int] = []
    recorder, _ = record(tmp_path / "a.mrec", lambda: loops(Endless(), sizes))
    assert len(sizes) < 20
    assert recorder.notes[0][1].startswith("all further batches of a loader were left out")


def test_results_that_are_kept_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where predictions stay on the GPU: the more batches, the more they take."""
    monkeypatch.setattr(shorter, "_CALLS", 100)
    kept: list[torch.Tensor] = []

    def run() -> None:
        net = nn.Linear(32, 1000).cuda()
        with torch.no_grad():
            for batch in DataLoader(torch.ones(8 * 50, 32), batch_size=8):  # type: ignore[arg-type]
                kept.append(net(batch.cuda()))

    recorder, _ = record(tmp_path / "a.mrec", run)
    assert len(kept) == 50
    assert not recorder.notes


def test_a_script_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    def run() -> None:
        _, step = trainer()
        while True:
            step(16)

    recorder = Recorder(tmp_path / "a.mrec", steps=None, seconds=2)
    recorder.start()
    began = time.monotonic()
    with pytest.raises(Enough):
        run()
    recorder.stop()
    assert time.monotonic() - began < 20
    assert [code for code, _ in recorder.notes] == ["ended"]
    assert "training steps and no evaluation; --seconds" in recorder.notes[0][1]
    assert numbered(Recording(tmp_path / "a.mrec"))

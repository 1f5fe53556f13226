"""Callbacks of Trainer and Lightning say before the first step what the script will take, and change nothing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from forks import PYTHON

SOURCE = Path(__file__).parents[1] / "src"

_TRAINER = """
import memestimate, tempfile, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

rows = [{"input_ids": torch.arange(16), "labels": torch.arange(16)}] * 16
for callbacks in [memestimate.TrainerCallback(gpu="t4", seconds=300)], []:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=64, n_head=2, vocab_size=1000, n_positions=32))
    arguments = TrainingArguments(
        tempfile.mkdtemp(), max_steps=4, per_device_train_batch_size=4, save_strategy="no", report_to=[], use_cpu=HOST,
        disable_tqdm=True, seed=1)
    done = Trainer(model, arguments, train_dataset=rows, callbacks=callbacks).train()
    print("LOSS", repr(done.training_loss), float(torch.rand(1)))
"""
# The training itself runs on the CPU here; the recording on the pretended GPU.
_HOST = "__import__('torch').cuda.is_available() is False"

_LIGHTNING = """
import lightning, memestimate, torch
from torch import nn

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(256, 256)
    def training_step(self, batch, index):
        return self.net(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

if __name__ == "__main__":
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 256)), batch_size=16)
    callback = memestimate.LightningCallback(gpu=GPU, seconds=300, must_fit=True)
    trainer = lightning.Trainer(max_steps=4, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, callbacks=[callback])
    trainer.fit(Net(), data)
    print("TRAINED", callback.estimate.peak.safe)
"""


def run(program: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "MEMESTIMATE": str(program), "HF_HUB_OFFLINE": "1"}
    return subprocess.run([PYTHON, *words], cwd=folder, env=environment, capture_output=True, text=True)


def test_trainer_says_it_and_trains_as_without(program: Path, tmp_path: Path) -> None:
    (tmp_path / "fine.py").write_text(_TRAINER.replace("HOST", _HOST))
    done = run(program, tmp_path, "-W", "ignore", "fine.py")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^fine: fits Tesla T4: 0\.75 of", done.stderr, re.MULTILINE), done.stderr
    assert done.stderr.count("on the GPU") == 1
    lines = re.findall("^LOSS .*", done.stdout, re.MULTILINE)
    assert len(lines) == 2, "the recording's own lines are not shown"
    assert lines[0] == lines[1], "the same loss, and the same random number after it"


def test_lightning_ends_where_it_does_not_fit(program: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(_LIGHTNING.replace("GPU", "'100MiB'"))
    done = run(program, tmp_path, "-m", "net")
    assert done.returncode == 1
    assert re.search(r"^MemoryError: net(, batch 16)?: does not fit 100MiB", done.stderr, re.MULTILINE), done.stderr
    assert "TRAINED" not in done.stdout


def test_lightning_trains_where_it_fits(program: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(_LIGHTNING.replace("GPU", "'t4'"))
    done = run(program, tmp_path, "net.py")
    assert done.returncode == 0, done.stderr
    assert int(re.findall(r"TRAINED (\d+)", done.stdout)[0]) > 100 << 20


@pytest.mark.parametrize(
    ("words", "stdin"),
    [(("-c", "CODE"), ""), (("-",), "CODE")],
    ids=["-c", "standard input"],
)
def test_without_a_script_one_line_says_so(words: tuple[str, ...], stdin: str, tmp_path: Path) -> None:
    code = "from memestimate.api.callbacks import Asks; Asks('t4')._ask(); print('goes on')"
    done = subprocess.run(
        [PYTHON, *(word.replace("CODE", code) for word in words)],
        input=stdin.replace("CODE", code),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    assert re.fullmatch("memestimate: no answer before the first step: there is no script to record: .*\n", done.stderr)


def test_a_script_that_fails_or_takes_too_long_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import os, sys, time\n"
        "from memestimate.api.callbacks import Asks, Recorder\n"
        "if Recorder._under_way is not None:\n"
        "    if sys.argv[1] == 'fails': raise SystemExit('no data here')\n"
        "    time.sleep(600)\n"
        "Asks('t4', seconds=float(sys.argv[2]))._ask()\n"
        "print('goes on')\n"
    )
    for words, said in (
        (("fails", "300"), "recording the script failed: no data here"),
        (("slow", "3"), "the script had not come to its third step after 3 s"),
    ):
        done = subprocess.run(
            [PYTHON, script, *words],
            env=os.environ | {"PYTHONPATH": str(SOURCE)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr
        assert done.stderr.splitlines()[-1] == f"memestimate: no answer before the first step: {said}"

"""docs/start.md and the README's first answer, typed into a terminal of 80 x 24 as a person does."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pyte: Any = pytest.importorskip("pyte")

ROOT = Path(__file__).parents[2]
ROWS, COLUMNS = 24, 80
LONGEST = 300  # seconds, on a machine that does much else
PROMPT = "$ "
END = "\x04"  # Ctrl-D


class Terminal:
    """A shell on a pseudo-terminal."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.paper = pyte.HistoryScreen(2000, ROWS, history=10_000, ratio=0.5)  # whose lines are not broken
        self.streams = [pyte.ByteStream(self.screen), pyte.ByteStream(self.paper)]
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env={**environ, "PS1": PROMPT, "TERM": "xterm", "BASH_SILENCE_DEPRECATION_WARNING": "1"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.wait(PROMPT)

    def wait(self, prompt: str) -> float:
        """Read until a prompt waits for words, and return how many seconds that took."""
        begun = time.monotonic()
        while time.monotonic() - begun < LONGEST:
            if select.select([self.master], [], [], 0.3)[0]:
                data = os.read(self.master, 1 << 16)
                for stream in self.streams:
                    stream.feed(data)
            elif self.screen.display[self.screen.cursor.y][: self.screen.cursor.x] == prompt:
                return time.monotonic() - begun
        raise AssertionError("\n".join(("no prompt", *self.screen.display)))

    def type(self, *texts: str, prompt: str = PROMPT) -> float:
        for text in texts:
            os.write(self.master, text.encode())
            time.sleep(0.5)  # until it is read: the prompt that stands there is not the next one
        return self.wait(prompt)

    def lines(self) -> list[str]:
        """All that was ever shown, in lines as the programs wrote them."""
        above = ["".join(line[x].data for x in range(2000)).rstrip() for line in self.paper.history.top]
        return above + [line.rstrip() for line in self.paper.display[: self.paper.cursor.y]]

    def close(self) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self.master)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Path:
    """A folder with what people have: a script, an ONNX file."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "bin").mkdir()
    (folder / "bin" / "memestimate").symlink_to(program)
    shutil.copy(ROOT / "python" / "examples" / "hf_trainer.py", folder / "train.py")
    model = pytest.importorskip("torchvision").models.resnet18()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.train(),
            (torch.rand(2, 3, 224, 224),),
            folder / "model.onnx",
            dynamo=False,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            input_names=["input"],
            dynamic_axes={"input": {0: "batch"}},
        )
    return folder


@pytest.fixture
def open_terminal(desk: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def terminal(**environ: str) -> Terminal:
        path = os.pathsep.join((str(desk / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
        base = {**os.environ, "PATH": path, "VIRTUAL_ENV": sys.prefix, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        base["XDG_CACHE_HOME"] = str(desk / "cache")
        for name in ("PYTHONPATH", "COLUMNS", "LINES"):
            base.pop(name, None)
        opened.append(Terminal(desk, base | environ))
        return opened[-1]

    yield terminal
    for each in opened:
        each.close()


def blocks(page: Path, language: str) -> list[list[str]]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)\n```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [block.splitlines() for block in found]


def is_shown(wanted: list[str], lines: list[str]) -> bool:
    """Whether lines are as a page shows them; three dots stand for any."""
    if not wanted:
        return not lines
    if wanted[0] == "...":
        return any(is_shown(wanted[1:], lines[i:]) for i in range(len(lines) + 1))
    return bool(lines) and wanted[0] == lines[0] and is_shown(wanted[1:], lines[1:])


def check(printed: list[str], wanted: list[str]) -> None:
    printed = [line for line in printed if not line.startswith("memestimate: recording ")]
    assert is_shown(wanted, printed), "\n".join(printed)
    first = next((line for line in wanted if line != "..."), printed[0])
    answer = printed[printed.index(first) :]  # behind what the script and its libraries print
    # A table that follows may move the answer up: a way to train the model is a line.
    screen = next((i for i, line in enumerate(answer) if line.startswith("ways to train it")), len(answer))
    assert screen <= ROWS - 2, "more than a screen"
    too_wide = [line for line in answer if len(line) > COLUMNS and not line.startswith("torch.OutOfMemoryError")]
    assert not too_wide, too_wide


STARTS = blocks(ROOT / "docs" / "start.md", "console")


def question(block: list[str]) -> str:
    return " ".join(line for line in block if line.startswith(PROMPT))[:70]


@pytest.mark.parametrize("block", [*STARTS, *blocks(ROOT / "README.md", "text")], ids=question)
def test_what_the_page_shows(
    block: list[str], open_terminal: Callable[..., Terminal], record_property: Callable[[str, object], None]
) -> None:
    for flag, library in (("--lora", "peft"), ("--qlora", "bitsandbytes")):
        if any(flag in line for line in block):
            pytest.importorskip(library)
    terminal = open_terminal()
    starts = [i for i, line in enumerate(block) if line.startswith(PROMPT)]
    assert len(starts) <= 3, "commands"
    for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
        command, wanted = block[start].removeprefix(PROMPT), block[start + 1 : end]
        before = len(terminal.lines())
        pasted = (wanted[0] + "\n", END) if command == "memestimate explain" else ()
        seconds = terminal.type(command + "\n", *pasted)
        record_property("seconds", round(seconds, 1))
        print(f"{seconds:6.1f} s  {command}")
        assert terminal.screen.display[terminal.screen.cursor.y].rstrip() == PROMPT.rstrip()
        check(terminal.lines()[before + 1 :], wanted)


def test_a_notebook(open_terminal: Callable[..., Terminal]) -> None:
    pytest.importorskip("IPython")
    terminal = open_terminal(PYTHONPATH=str(ROOT / "python" / "src"))
    terminal.type("python -m IPython --simple-prompt --no-banner --colors=NoColor\n", prompt="In [1]: ")
    (block,) = blocks(ROOT / "docs" / "start.md", "ipython")
    cells = [line for line in block if line.startswith("In [")]
    assert len(cells) <= 3
    for i, cell in enumerate(cells):
        before = len(terminal.lines())
        seconds = terminal.type(cell.partition(": ")[2] + "\n", prompt=f"In [{i + 2}]: ")
        print(f"{seconds:6.1f} s  {cell}")
    assert "\n".join(block[:3]) == "\n".join(cells)
    check([line for line in terminal.lines()[before + 1 :] if line], [line for line in block[3:] if line])

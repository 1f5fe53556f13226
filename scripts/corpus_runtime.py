"""Have ONNX Runtime judge what memestimate said of the files that corpus.py asked it about.

    python scripts/corpus_runtime.py FOLDER ./memestimate rows.json --table docs/corpus.md

``rows.json`` is what ``corpus.py ask --rows`` wrote of FOLDER. Of a refused file ONNX Runtime is asked whether it runs
it; of one that is read, whether each output has the shape that memestimate infers. Inputs are zeros, and halves where
they are floats, of the shapes that memestimate gives them. Each file has a process and eight seconds. It needs
onnxruntime (1.32 was taken); files of over 20 MB are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

SECONDS = 8
LARGEST = 20_000_000
OPEN = 4  # of a dimension that a refused file leaves open
AS_RUN = {"float": "float32", "double": "float64"}  # ONNX Runtime's words for types that NumPy calls otherwise


def session(file: Path) -> Any:
    """Load a file without rewriting its graph."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def filled(dtype: str, shape: list[int]) -> Any:
    """Make an input."""
    if dtype == "string":
        return np.full(shape, "a", dtype=object)
    return np.full(shape, 0.5 if dtype.startswith("float") else 0, np.dtype(dtype))


def refused(file: Path) -> Counter[str]:
    """Tell whether ONNX Runtime runs a file that memestimate refuses."""
    try:
        s = session(file)
        feed = {}
        for i in s.get_inputs():
            word = i.type.removeprefix("tensor(").removesuffix(")")
            feed[i.name] = filled(AS_RUN.get(word, word), [d if isinstance(d, int) else OPEN for d in i.shape])
        s.run(None, feed)
    except Exception:  # noqa: BLE001 - what it raises has no class in common
        return Counter(["refused files that ONNX Runtime does not run either"])
    print("it runs", file, file=sys.stderr)
    return Counter(["refused files that ONNX Runtime runs"])


def read(file: Path, program: str, flags: list[str]) -> Counter[str]:
    """Compare the shapes of a file's outputs."""
    command = [program, "shapes", str(file), *(f for f in flags if not f.startswith("--format")), "--format", "json"]
    values = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["values"]
    try:
        s = session(file)
        feed = {i.name: filled(values[i.name]["dtype"], values[i.name]["shape"]) for i in s.get_inputs()}
        outputs = s.run(None, feed)
    except Exception:  # noqa: BLE001 - what it raises has no class in common
        return Counter(["files that are read and that ONNX Runtime does not run"])
    found = Counter(["files that are read and that ONNX Runtime runs"])
    for described, output in zip(s.get_outputs(), outputs, strict=True):
        shape = values.get(described.name, {}).get("shape")
        if not isinstance(output, np.ndarray) or shape is None or any(not isinstance(d, int) for d in shape):
            found["outputs without a shape in numbers"] += 1
        elif tuple(shape) == output.shape:
            found["outputs of the same shape"] += 1
        elif described.shape == shape:
            found["outputs of another shape, where memestimate has what the file declares"] += 1
        else:
            print("another shape", file, described.name, output.shape, shape, file=sys.stderr)
            found["outputs of another shape, which the file does not declare"] += 1
    return found


def apart(file: Path, program: str, row: dict[str, Any]) -> Counter[str]:
    """Ask about a file in a process of its own: ONNX Runtime may take long over what is refused, or end."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        answer = read(file, program, row["flags"]) if row["code"] in (0, 1) else refused(file)
        os.write(there, json.dumps(answer).encode())
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if text:
        return Counter(json.loads(text))
    what = "files that are read and that ONNX Runtime does not run"
    return Counter([what if row["code"] in (0, 1) else "refused files that ONNX Runtime does not run either"])


def main() -> int:
    """Judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("program")
    parser.add_argument("rows", type=Path)
    parser.add_argument("--table", type=Path, help="the Markdown file that holds the table between two comments")
    given = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    found: Counter[str] = Counter()
    for row in json.loads(given.rows.read_text()):
        file = given.folder / row["file"]
        if file.stat().st_size > LARGEST:
            found["files of over 20 MB"] += 1
        else:
            found += apart(file, given.program, row)
    lines = ["| what ONNX Runtime says | |", "|---|---:|", *(f"| {k} | {n:,} |" for k, n in sorted(found.items()))]
    made = "\n".join(lines) + "\n"
    if given.table:
        begin, end = "<!-- runtime: scripts/corpus_runtime.py writes it -->\n", "<!-- end of runtime -->"
        text = given.table.read_text()
        head, _, rest = text.partition(begin)
        given.table.write_text(head + begin + "\n" + made + end + rest.partition(end)[2])
    else:
        print(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())

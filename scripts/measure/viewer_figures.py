"""What PyTorch's own viewers say of snapshots, in numbers.

    python3 viewer_figures.py MemoryViz.js FILE.pickle.gz ... > viewers.json

The figures are those that ``python -m torch.cuda._memory_viz`` prints (``stats``, ``memory``), with sizes in bytes, and
those that pytorch.org/memory_viz draws: MemoryViz.js is torch/utils/viz/MemoryViz.js of PyTorch's repository, whose
functions run in Node.
"""

import collections
import gzip
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch.cuda import _memory_viz

# What the page computes before it draws: all elements, none summarized.
PLOTS = """
const fs = require('fs');
const script = fs.readFileSync(process.argv[1], 'utf8').replace(/^import .*$/gm, '').replace(/^export .*$/gm, '');
const viewer = new Function(script + '; return {annotate_snapshot, process_alloc_data}')();
const snapshot = JSON.parse(fs.readFileSync(0, 'utf8'));
viewer.annotate_snapshot(snapshot);
const out = {};
for (const [name, segments] of [['active_memory_timeline', false], ['active_cached_segment_timeline', true]]) {
  const plot = viewer.process_alloc_data(snapshot, 0, segments, Infinity);
  out[name] = {max_size: plot.max_size, elements: plot.elements_length};
}
console.log(JSON.stringify(out));
"""


def command_line(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Give what ``stats`` and ``memory`` print."""
    _memory_viz._format_size = str  # bytes instead of "1.3GiB"
    stats = dict(re.findall(r"^(\w+): (\d+)", _memory_viz.segsum(snapshot), re.MULTILINE))
    states: collections.Counter[str] = collections.Counter()
    for line in _memory_viz.memory(snapshot, format_flamegraph=lambda lines: lines).splitlines():
        stack, size = line.rsplit(" ", 1)
        states["gaps" if stack.endswith(";<gaps>") else stack.split(";")[1]] += int(size)
    return {"stats": {k: int(v) for k, v in stats.items()}, "memory": dict(states)}


def main(script: str, paths: list[str]) -> None:
    """Print the figures of all files."""
    out: dict[str, Any] = {"torch": torch.__version__, "files": {}}
    for path in paths:
        snapshot = pickle.loads(gzip.decompress(Path(path).read_bytes()))
        plots = subprocess.run(
            ["node", "-e", PLOTS, script], input=json.dumps(snapshot), capture_output=True, text=True, check=True
        )
        name = Path(path).name.removesuffix(".pickle.gz")
        out["files"][name] = command_line(snapshot) | json.loads(plots.stdout)
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

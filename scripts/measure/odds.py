"""Grow how likely engines run that cuDNN does not offer without a GPU: simulate/kernels/conv_odds.bin.

    go test ./simulate/kernels -run TestConvOdds -odds.figures FIGURES
    python3 odds.py FIGURES simulate/kernels/conv_odds.bin                 with lightgbm, which pip installs

FIGURES has of each pass its kind, whether such an engine ran, and of each figure the first limit that it is within,
a byte each. The trees are gradient boosted ones; their format is that of conv_forest.go, from whose file limits come.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np

KINDS, FIGURES = 12, 61
FORESTS = "simulate/kernels/conv_forest.bin"
UNITS = 32  # to a natural logarithm of the odds
FEWEST = 40  # passes of the rarer outcome, without which no trees are grown
SETTINGS = {
    "objective": "binary",
    "num_leaves": 48,
    "learning_rate": 0.12,
    "min_data_in_leaf": 8,
    "lambda_l2": 2.0,
    "boost_from_average": False,
    "min_data_in_bin": 1,
    "max_bin": 64,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}
TREES = 120


class Node(NamedTuple):
    """A node of a tree: a question and its two children, or what the odds are raised by."""

    figure: int
    limit: int
    children: tuple[Any, ...]
    units: int


def node_of(tree: dict[str, Any]) -> Node:
    """Read a node of LightGBM's."""
    if "leaf_value" in tree:
        return Node(0, 0, (), max(-127, min(127, round(tree["leaf_value"] * UNITS))))
    children = node_of(tree["left_child"]), node_of(tree["right_child"])
    return Node(tree["split_feature"], int(tree["threshold"]), children, 0)


def encoded(trees: list[Node]) -> bytes:
    """Write a forest: its nodes by depth, as conv_forest.go says."""
    nodes = list(trees)
    for node in nodes:
        nodes.extend(node.children)
    shape = bytearray((len(nodes) + 63) // 64 * 8)
    for at, node in enumerate(nodes):
        if not node.children:
            shape[at // 8] |= 0x80 >> at % 8
    branches = [node for node in nodes if node.children]
    leaves = bytes(node.units & 0xFF for node in nodes if not node.children)
    questions = bytes(node.figure for node in branches) + bytes(node.limit for node in branches)
    return struct.pack("<BBI", 0, len(trees), len(nodes)) + bytes(shape) + questions + leaves + bytes(4)


def grown(rows: Any) -> list[Node]:
    """Grow the trees of one kind."""
    runs, figures = rows[:, 1], rows[:, 2:]
    if min(np.sum(runs == 0), np.sum(runs == 1)) < FEWEST:
        return []
    model = lightgbm.train(SETTINGS, lightgbm.Dataset(figures.astype(np.float64), runs), TREES)
    return [node_of(tree["tree_structure"]) for tree in model.dump_model()["tree_info"]]


def main() -> None:
    """Grow, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--forests", type=Path, default=Path(FORESTS))
    args = parser.parse_args()
    rows = np.fromfile(args.figures, np.uint8).reshape(-1, 2 + FIGURES)
    forests = args.forests.read_bytes()
    end = start = 4 + 4 * KINDS
    for _ in range(FIGURES):
        end += 1 + 4 * forests[end]
    limits, parts, starts = forests[start:end], b"", []
    for kind in range(KINDS):
        starts.append(end + len(parts))
        parts += encoded(grown(rows[rows[:, 0] == kind]))
    args.out.write_bytes(bytes(4) + struct.pack(f"<{KINDS}I", *starts) + limits + parts)


if __name__ == "__main__":
    main()

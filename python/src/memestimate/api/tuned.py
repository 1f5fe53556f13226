"""Recordings of a model that is known by its configuration, trained in one way or in several."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.shape_cache import Shared
from . import gpus, layers, tasks
from .layers import Depth, Rule, Unlike
from .recorder import Recorder
from .tuning import Run, Way, build

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["Recordings"]


class Recordings:
    """Makes the recordings of a model's ways to be trained, from as few layers as say all of them.

    What was learned of a way holds for other batches and sequences.
    """

    def __init__(self, config: PretrainedConfig, gpu: str, steps: int) -> None:
        self.config, self.steps = config, steps
        self._gpu, self._shared = gpus.find(gpu), Shared()
        self._depths: dict[tuple[int, int | None], Depth | None] = {}
        self._rules: list[tuple[Way, Rule]] = []

    def make(self, way: Way, path: Path) -> None:
        """Write the recording of a way."""
        try:
            self.extended(way, path)
        except Unlike:  # whatever it is that a few layers do not tell
            self.whole(way, path)

    def whole(self, way: Way, path: Path) -> None:
        """Record all layers."""
        self._record(way, path, None)

    def extended(self, way: Way, path: Path) -> None:
        """Record a few layers, and write what they say of all.

        Raises
        ------
        Unlike
            They do not say it.
        """
        depth = None if way.compile else self._depth(way)
        if depth is None:
            raise Unlike("no layers that repeat")
        with tempfile.TemporaryDirectory(prefix="memestimate-") as folder:
            self._extend(way, depth, Path(folder), path)

    def _record(self, way: Way, path: Path, cut: tuple[Depth, int] | None) -> None:
        # DDP puts gradients into other buckets behind the first backward pass (Reducer::rebuild_buckets), so what the
        # second step leaves free is not yet what later ones find.
        run = Run(self.config, way, self.steps + (way.parallel == "ddp"), cut)
        with Recorder(path, gpu=self._gpu, world_size=way.gpus, shared=self._shared) as recorder:
            run(recorder)

    def _depth(self, way: Way) -> Depth | None:
        sizes = way.batch, way.seq
        if sizes not in self._depths:
            plain = Way(batch=way.batch, seq=way.seq, precision=way.precision, attention=way.attention)
            model, task = build(self.config, plain)
            inputs = tasks.inputs(self.config, task[0], way.batch, way.seq, True)
            self._depths[sizes] = layers.find(model, inputs)
        return self._depths[sizes]

    def _extend(self, way: Way, depth: Depth, folder: Path, path: Path) -> None:
        few, more = depth.few
        small, large = folder / "small.mrec", folder / "large.mrec"
        self._record(way, small, (depth, few))
        repetitions = (depth.layers - few) // depth.period
        like = dataclasses.replace(way, batch=1, seq=None)
        for other, rule in self._rules:
            if other == like:
                try:
                    rule.of(small).write(path, repetitions)
                    return
                except Unlike:
                    break
        self._record(way, large, (depth, more))
        rule = layers.learn(small, large)
        rule.write(path, repetitions)
        self._rules.append((like, rule))

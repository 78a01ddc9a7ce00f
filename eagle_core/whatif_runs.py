"""Runs of the same prompts with trees of several sizes, and how far what-if answers are off them.

The runs are recorded by `python tests/record_walks.py`: of each step only what it kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from eagle_core import reading
from eagle_core.errors import TraceError
from eagle_core.reading import Record
from eagle_core.tree import ranks_of
from eagle_core.whatif import Walk, WhatIf, fixed_plan


@dataclass(frozen=True)
class TreeRun:
    """One prompt's greedy run with one tree."""

    prompt: str
    tree: str
    walks: tuple[Walk, ...]

    @property
    def tau(self) -> float:
        return sum(walk.num_committed for walk in self.walks) / len(self.walks)


@dataclass(frozen=True)
class TreeRuns:
    """All recorded runs, and what they were made with: `about`, for people."""

    about: str
    runs: tuple[TreeRun, ...]

    def errors(self, recorded: str, asked: str) -> tuple[float, ...]:
        """Per prompt: what the run with tree `recorded` says of tree `asked`, less that tree's real
        τ. Empty where no prompt was run with both."""
        real = {run.prompt: run.tau for run in self.runs if run.tree == asked}
        plan = fixed_plan(asked)
        return tuple(
            WhatIf(run.walks, "greedy", 0.0).with_tree(plan).tau - real[run.prompt]
            for run in self.runs
            if run.tree == recorded and run.prompt in real and recorded != asked
        )


def load_runs(path: Path) -> TreeRuns:
    """Raises `TraceError` where the file is damaged, `OSError` where it cannot be read."""
    try:
        record = Record(json.loads(path.read_text("utf-8")), "runs")
    except ValueError as error:
        raise TraceError(f"{path.name} is not JSON") from error
    environment = Record(record.get("environment", reading.mapping), "environment")
    target, head = (environment.get(name, reading.text) for name in ("target", "head"))
    runs = tuple(_run(data) for data in record.get("runs", reading.sequence))
    return TreeRuns(f"{target}, head {head}, greedy", runs)


def _run(data: object) -> TreeRun:
    record = Record(data, "run")
    tree = record.get("tree", reading.text)
    drafted = frozenset(ranks_of(fixed_plan(tree).parents))
    kept = record.each("kept", _ranks)
    committed = record.each("committed", reading.whole, length=len(kept))
    return TreeRun(
        record.get("prompt", reading.text),
        tree,
        tuple(Walk(drafted, *step) for step in zip(kept, committed, strict=True)),
    )


def _ranks(value: object) -> tuple[int, ...]:
    return tuple(reading.whole(rank) for rank in reading.sequence(value))

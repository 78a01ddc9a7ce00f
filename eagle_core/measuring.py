"""Measure a machine's profile: passes of the target and of the head over more and more rows.

    target   one pass over a root with 0, 1, 3, … children, after a shorter and a longer text
    head     a draft of one level, and of two: the difference is what a level takes

Sizes take turns, round by round, so that whatever else the machine does hits all alike; medians
count. Knows the contracts of targets and drafters. Knows nothing of how a profile is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import torch

from eagle_core.cost import Curve, Kept, Profile
from eagle_core.decoding import Stopwatch
from eagle_core.options import RunOptions
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.trace import Step
from eagle_core.tree import DraftTree, TreePlan
from eagle_core.verify import Acceptance

if TYPE_CHECKING:
    from eagle_core.drafters.base import Drafter
    from eagle_core.progress import Progress
    from eagle_core.targets.base import Target, TargetRead, TargetRun

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
LEVEL_ROWS = (1, 2, 4, 8)
CONTEXTS = (128, 1024)
NUM_ROUNDS = 3  # after one that warms up
DEAREST = 16  # times one row: no tree is worth a pass that takes longer
STAGE = "measuring how long passes take here, once"

Answer = Callable[[Sequence[int]], Iterable[Step]]
"""A prompt to the steps of its answer, drafted with a wide tree."""


@dataclass(frozen=True, eq=False)
class Measuring:
    """What is measured: a target, drafters for it, and prompts that were encoded for it."""

    target: Target
    open_drafter: Callable[[], Drafter]
    prompts: Sequence[Sequence[int]]
    answer: Answer
    progress: Progress

    def profile(self) -> Profile:
        few, many = self._contexts()
        self._report(0)
        short = self.verify_curve(few)
        self._report(1)
        long = self.verify_curve(many)
        self._report(2)
        first_ms, level = self._draft_costs(few)
        self._report(3)
        steps = [step for prompt in self.prompts for step in self.answer(prompt)]
        return Profile(
            contexts=(few, many),
            verify=(short, long),
            level=level,
            first_ms=first_ms,
            other_ms=median(step.commit_ms for step in steps) if steps else 0.0,
            kept_by_rank=kept_by_rank(steps),
        )

    def _report(self, num_done: int) -> None:
        self.progress(STAGE, num_done / 4)

    def _contexts(self) -> tuple[int, int]:
        """Within half of what target and head can read."""
        limits = [self.target.spec.max_positions, self.open_drafter().max_positions]
        limit = min(limit for limit in limits if limit is not None)
        few, many = CONTEXTS
        return min(few, limit // 4), min(many, limit // 2)

    def _text(self, num_tokens: int) -> torch.Tensor:
        tokens = [token for prompt in self.prompts for token in prompt]
        repeated = tokens * (num_tokens // len(tokens) + 1)
        return torch.tensor(repeated[:num_tokens], device=self.target.spec.device)

    def _opened(self, context: int) -> tuple[TargetRun, Drafter, TargetRead]:
        run, drafter = self.target.open(), self.open_drafter()
        return run, drafter, run.prefill(self._text(context), taps=drafter.taps)

    def verify_curve(self, context: int) -> Curve:
        """A pass of the target over more and more rows after a text of so many tokens."""
        run, drafter, _ = self._opened(context)
        watch = Stopwatch(self.target.spec.device)
        times: dict[int, list[float]] = {rows: [] for rows in ROWS}
        for _ in range(1 + NUM_ROUNDS):
            for rows in list(times):
                tree = _star(rows)
                watch.restart()
                run.score_tree(tree, taps=drafter.taps)
                times[rows].append(watch.lap())
                if times[rows][0] > DEAREST * times[1][0]:
                    del times[rows]
        return Curve.measured({rows: median(each[1:]) for rows, each in times.items()})

    def _draft_costs(self, context: int) -> tuple[float, Curve]:
        """Of the first level, and of a further one by its rows."""
        drafts = _Drafts(*self._opened(context), text=self._text(context))
        for rows in LEVEL_ROWS:  # warms up
            drafts.level_ms(rows)
        rounds = [[drafts.level_ms(rows) for rows in LEVEL_ROWS] for _ in range(NUM_ROUNDS)]
        by_rows = dict(zip(LEVEL_ROWS, map(median, zip(*rounds, strict=True)), strict=True))
        first_ms = median(drafts.draft_ms(TreePlan((None, 0))) for _ in range(NUM_ROUNDS))
        least = first_ms / 10  # where noise makes a level cheaper than nothing
        return first_ms, Curve.measured({rows: max(ms, least) for rows, ms in by_rows.items()})


class _Drafts:
    """Drafts one tree after another, none of which is kept."""

    def __init__(
        self, run: TargetRun, drafter: Drafter, read: TargetRead, *, text: torch.Tensor
    ) -> None:
        self._drafter = drafter
        self._watch = Stopwatch(text.device)
        self._token = int(text[-1])
        self._of_root = run.score_tree(DraftTree.root_only(self._token), taps=drafter.taps)
        self._laws, self._chance = LawMaker(RunOptions()), SeededChance(0)
        drafter.begin(text, read)

    def level_ms(self, num_rows: int) -> float:
        """A level of so many nodes, each with a child, beyond the level that they stand on."""
        star = (None, *[0] * num_rows)
        combed = (*star, *range(1, num_rows + 1))
        return self.draft_ms(TreePlan(combed)) - self.draft_ms(TreePlan(star))

    def draft_ms(self, plan: TreePlan) -> float:
        self._watch.restart()
        tree = self._drafter.grow_tree(self._token, plan=plan, laws=self._laws, chance=self._chance)
        drafted_ms = self._watch.lap()
        nothing = Acceptance(tree, (0,), self._token, (None,) * len(tree))
        self._drafter.observe(nothing, self._of_root)
        return drafted_ms


def kept_by_rank(steps: Sequence[Step]) -> tuple[tuple[Kept, ...], ...]:
    """Per depth from 1 on, per child rank: how often there was one, and was the one kept."""
    trials = [trial for step in steps for trial in step.trials]
    deepest = max((trial.depth for trial in trials), default=0)
    at_depths = [[t for t in trials if t.depth == depth] for depth in range(1, deepest + 1)]
    return tuple(
        tuple(
            (sum(t.num_children > rank for t in at), sum(t.kept_rank == rank for t in at))
            for rank in range(max(t.num_children for t in at))
        )
        for at in at_depths
        if at
    ) or (((0, 0),),)


def _star(num_rows: int) -> DraftTree:
    """A root and its children; which tokens they are costs nothing."""
    return DraftTree((0,) * num_rows, (None, *[0] * (num_rows - 1)), (0.0,) * num_rows)

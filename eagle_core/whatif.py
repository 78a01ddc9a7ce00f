"""What a run would have been with another tree, from its trace alone.

    drafted  ● ─┬─ a ── b ── c        kept a, b, and the bonus token: three tokens
                └─ d
    a chain of one  ● ── a            from the same root: kept a, and b is the bonus: two tokens

Inside what was drafted this is exact **for each recorded step**: same root, same drafts, same
decisions, for every rule that tries one child after the other. It is not exact for a whole run:
after a shorter step the next one begins where nothing was recorded. At temperature 0, where the
text is given, the run can still be held between bounds. Outside of what was drafted there is an
estimate, from how often children of each depth and rank were kept (`eagle_core.expected`).

Knows traces and plans. Knows nothing of clocks; `eagle_core.latency` adds those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, cast

from eagle_core.errors import OptionError
from eagle_core.expected import RankRates
from eagle_core.plans import plan_named
from eagle_core.rules import FACTS
from eagle_core.shapes import Ranks
from eagle_core.trace import Lane, Step, Trace, Trial
from eagle_core.tree import TreePlan, ranks_of

if TYPE_CHECKING:
    from eagle_core.rules import Rule


@dataclass(frozen=True)
class Walk:
    """One step of a run: the places that it drafted, the choices it kept, and what it committed."""

    drafted: frozenset[Ranks]
    kept: Ranks
    num_committed: int

    @property
    def trials(self) -> Iterator[Trial]:
        """The walk at each node that it kept and that had children."""
        ends: list[int | None] = [*self.kept]
        if self.num_committed > len(self.kept):  # else a stop cut the walk off
            ends.append(None)
        for depth, kept_rank in enumerate(ends):
            here = self.kept[:depth]
            num_children = sum(node[:-1] == here for node in self.drafted if node)
            if num_children:
                yield Trial(depth + 1, num_children, kept_rank)


@dataclass(frozen=True)
class Bounds:
    """Between which a figure of the whole run must lie."""

    low: float
    high: float


@dataclass(frozen=True)
class Answer:
    """τ with another tree.

    basis: `exact` at the recorded roots, or an `estimate` where the tree has nodes that were never
        drafted. bounds: of the whole run, where its text is given and the tree was drafted.
    """

    tau: float
    basis: Literal["exact", "estimate"]
    bounds: Bounds | None = None


@dataclass(frozen=True)
class WhatIf:
    """A run to ask questions of. Raises `OptionError` where nothing could be answered."""

    walks: tuple[Walk, ...]
    rule: str
    temperature: float

    def __post_init__(self) -> None:
        if not any(len(walk.drafted) > 1 for walk in self.walks):
            raise OptionError("a run in which nothing was drafted", hint="a longer one")
        if self.rule in FACTS and FACTS[cast("Rule", self.rule)].is_for_chains:
            raise OptionError(
                f"a run under rule {self.rule}, which judges a chain as a whole",
                expected="a rule that tries one child after the other",
            )

    @classmethod
    def of(cls, trace: Trace) -> WhatIf:
        return cls(walks_of(trace.lane("eagle")), trace.settings.rule, trace.settings.temperature)

    def with_tree(self, plan: TreePlan) -> Answer:
        """τ as it would have been with `plan`.

        An estimate as soon as a node of the plan that was not drafted could have been kept.
        """
        nodes = sorted(ranks_of(plan.parents)[1:], key=len)
        inside = tau_inside(self.walks, {(), *nodes})
        chances = [_undrafted(walk, nodes, self._rates) for walk in self.walks[:-1]]
        if any(chances):  # the last step ended the text: no tree could have kept more
            extra = sum(sum(chance.values()) for chance in chances) / len(self.walks)
            return Answer(inside + extra, "estimate")
        is_given = self.temperature == 0
        return Answer(inside, "exact", tau_bounds(self.walks, {(), *nodes}) if is_given else None)

    @cached_property
    def _rates(self) -> RankRates:
        return RankRates.of_trials(trial for walk in self.walks for trial in walk.trials)


def walks_of(lane: Lane) -> tuple[Walk, ...]:
    return tuple(_walk(step) for step in lane.steps)


def _walk(step: Step) -> Walk:
    ranks = ranks_of(step.parents)
    return Walk(frozenset(ranks), ranks[step.path[-1]], step.num_committed)


def tau_inside(walks: Sequence[Walk], nodes: Collection[Ranks]) -> float:
    """Tokens per recorded step if only `nodes` had been drafted there: Σ committed ÷ steps."""
    return sum(committed_inside(walk, nodes) for walk in walks) / len(walks)


def committed_inside(walk: Walk, nodes: Collection[Ranks]) -> int:
    """The kept choices up to the first that is not among `nodes`, and the target's own token.

    A step that a stop rule cut short committed no more than the cut left.
    """
    depth = 0
    while depth < len(walk.kept) and walk.kept[: depth + 1] in nodes:
        depth += 1
    return min(depth + 1, walk.num_committed)


def tau_bounds(walks: Sequence[Walk], nodes: Collection[Ranks]) -> Bounds:
    """Where the τ of a whole greedy run lies, whatever the head drafts at places not recorded.

    The text is the same with any tree, so a run is a way through its positions. From a recorded
    root the step is known; from any other it commits between one token and a full path's.
    """
    known: dict[int, int] = {}
    end = 0
    for walk in walks:
        known[end] = committed_inside(walk, nodes)
        end += walk.num_committed
    longest = 1 + max(map(len, nodes))
    fewest, most = [0] * (end + 1), [0] * (end + 1)
    for place in reversed(range(end)):
        sizes = [known[place]] if place in known else range(1, longest + 1)
        nexts = [min(place + size, end) for size in sizes]
        fewest[place] = 1 + min(fewest[after] for after in nexts)
        most[place] = 1 + max(most[after] for after in nexts)
    return Bounds(end / most[0], end / fewest[0])


def _undrafted(walk: Walk, nodes: Sequence[Ranks], rates: RankRates) -> dict[Ranks, float]:
    """Those of `nodes`, parents first, that the step did not draft though it came past their
    parent, each with its chance to be kept: the parent's times how often such a child was kept.
    Of a rank that no step drafted nothing is known: 0."""
    chances: dict[Ranks, float] = {}
    for node in nodes:
        parent = node[:-1]
        if node not in walk.drafted and (parent == walk.kept or parent in chances):
            chances[node] = chances.get(parent, 1.0) * (rates.share(len(node), node[-1]) or 0.0)
    return chances


def fixed_plan(name: str) -> TreePlan:
    """The plan of a tree that is the same at every step; raises `OptionError` for another."""
    plan = plan_named(name, siblings="one_hot")
    if not isinstance(plan, TreePlan):
        raise OptionError(f"tree {name:.40}", expected="one that is the same at every step")
    return plan

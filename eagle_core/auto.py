"""The tree that pays: grow while the next node's chance of being kept is worth its time.

A step of `n` rows and its draft takes C milliseconds and commits 1 + S tokens, S being the sum of
the nodes' chances of being kept. Of all trees the best one gains most over what the run commits
in that time anyway:

    gain = 1 + S - rate · C        rate: committed tokens per millisecond of this run so far

since a step that gains nothing is as good as none. Where no tree gains, steps are plain ones, and
a short chain now and then finds out whether that has changed.

Chances come from past outcomes and times from curves measured once, so that the same seed gives the
same trees. Knows prices and chances. Knows nothing of laws or models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_core.calibration import Calibration
from eagle_core.dynamic import best_nodes
from eagle_core.planning import Candidates
from eagle_core.tree import ROOT, TreePlan

if TYPE_CHECKING:
    from eagle_core.cost import Prices, Profile
    from eagle_core.planning import Plan
    from eagle_core.tree import SiblingKind
    from eagle_core.verify import Acceptance

MAX_DEPTH = 8
MAX_CHILDREN = 8
MAX_FRONTIER = 8
TRIAL = (None, 0, 1)  # the chain that is drafted now and then where drafting does not pay
FIRST_WAIT, LONGEST_WAIT = 32, 256  # plain steps before a trial; a vain one doubles the next wait
MEMORY = 0.97  # of the rate: a step thirty steps ago counts for 40 % of the last one
FIRST_STEPS = 8  # that the first guess of the rate is worth


@dataclass(frozen=True, eq=False)
class AutoPlan:
    """The plan of one step: its prices, the rate to beat, and the chances as known by now."""

    siblings: SiblingKind
    prices: Prices
    rate: float  # tokens per millisecond
    chances: Calibration
    depth: int = MAX_DEPTH
    max_children: int = MAX_CHILDREN

    def within(self, depth: int) -> AutoPlan:
        return replace(self, depth=max(min(depth, self.depth), 0))

    def chance_kept(self, depth: int, prob: float) -> float:
        return self.chances.chance_kept(depth, prob)

    @property
    def pays(self) -> bool:
        """Whether to draft at all."""
        return bool(self.frontier(Candidates(ROOT), [ROOT]))

    def num_children(self, made: Candidates, node: int) -> int:
        """All that could be worth it; drawn ones, which cannot be dropped, by their rank alone."""
        if self.siblings == "one_hot":
            return self.max_children
        worth = self.rate * self._row_ms(len(made)) / made.values[node]
        depth = made.depths[node] + 1
        ranks = range(1, self.max_children)
        too_dear = (r for r in ranks if self.chances.chance_of_rank(depth, r) <= worth)
        return next(too_dear, self.max_children)

    def frontier(self, made: Candidates, newest: Sequence[int]) -> list[int]:
        """The nodes to go on from, if drafting a chain of some length below them gains tokens."""
        if not newest:
            return []
        depth = made.depths[newest[0]]
        best = best_nodes(made.values, newest, MAX_FRONTIER)
        row_ms = self._row_ms(len(self.kept(made)))
        top_gain, chosen, reached, going_on = 0.0, list[int](), 0.0, 1.0
        for num_levels in range(1, self.depth - depth + 1):
            going_on *= self.chances.chance_going_on(depth + num_levels)
            reached += going_on  # drafts kept below a node that is kept
            dues = self.rate * num_levels * row_ms
            gains = {node: made.values[node] * reached - dues for node in best}
            worthy = [node for node in best if gains[node] > 0]
            gain = sum(gains[node] for node in worthy)
            gain -= self.rate * self._levels_ms(depth, num_levels, len(worthy))
            if gain > top_gain:
                top_gain, chosen = gain, worthy
        return chosen

    def kept(self, made: Candidates) -> Sequence[int]:
        """The nodes of largest chance, as many as gain most; all where siblings were drawn."""
        if self.siblings != "one_hot":
            return range(len(made))
        values = made.values
        best = sorted(range(1, len(made)), key=lambda node: (-values[node], node))
        count, gain, top_gain = 0, 0.0, 0.0
        for index, node in enumerate(best, start=1):
            gain += values[node] - self.rate * self._rows_ms(index, index + 1)
            if gain > top_gain:
                count, top_gain = index, gain
        return [ROOT, *sorted(best[:count])]

    def _rows_ms(self, few: int, many: int) -> float:
        return self.prices.verify(many) - self.prices.verify(few)

    def _row_ms(self, num_rows: int) -> float:
        """Of a further row, over the next few: a curve has steps."""
        return self._rows_ms(num_rows, num_rows + MAX_FRONTIER) / MAX_FRONTIER

    def _levels_ms(self, depth: int, num_levels: int, num_rows: int) -> float:
        """Of drafting so many levels below nodes at `depth`."""
        if depth:
            return num_levels * self.prices.level(num_rows)
        return self.prices.first_ms + (num_levels - 1) * self.prices.level(num_rows)


class AutoPlanner:
    """Plans the steps of one run and learns from each; the same past gives the same plan.

    rate: tokens per millisecond to begin with. is_chain: for rules that judge chains alone.
    """

    def __init__(
        self, profile: Profile, *, rate: float, siblings: SiblingKind, is_chain: bool = False
    ) -> None:
        self._profile = profile
        self._siblings: SiblingKind = siblings
        self._max_children = 1 if is_chain else MAX_CHILDREN
        self._chances = Calibration(profile.kept_by_rank, is_drawn=siblings != "one_hot")
        self._ms = FIRST_STEPS * profile.prices(profile.contexts[0]).plain_ms
        self._tokens = rate * self._ms
        self._num_plain = 0  # steps in a row without a draft
        self._wait = FIRST_WAIT
        self._prices = profile.prices(0)

    def next_plan(self, num_cached: int) -> Plan:
        self._prices = self._profile.prices(num_cached)
        plan = AutoPlan(
            siblings=self._siblings,
            prices=self._prices,
            rate=max(self._tokens / self._ms, 1 / self._prices.plain_ms),
            chances=self._chances,
            max_children=self._max_children,
        )
        if plan.pays:
            self._wait = FIRST_WAIT
            return plan
        if self._num_plain < self._wait:
            return plan.within(0)
        self._wait = min(2 * self._wait, LONGEST_WAIT)
        return TreePlan(TRIAL, self._siblings)

    def learn(self, taken: Acceptance) -> None:
        tree = taken.tree
        self._chances.learn(taken)
        self._num_plain = 0 if tree.draft_rows else self._num_plain + 1
        spent_ms = self._prices.step_ms(len(tree), tree.draft_rows)
        self._ms = MEMORY * self._ms + spent_ms
        self._tokens = MEMORY * self._tokens + len(taken.committed)

"""EAGLE-2's dynamic tree: grow where the head is confident, then keep the best of all candidates.

    expand   the `top_k` best nodes of a level, `top_k` children each, `depth` levels deep
    rerank   of all that was drafted, the `num_drafts` best (EAGLE-2, sections 4.1 and 4.2)

A node's worth is the product of the draft probabilities on its path. It never rises along a path,
and of equals the shallower one is taken, so what is kept hangs together.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_core.planning import Unchanging

if TYPE_CHECKING:
    from eagle_core.planning import Candidates
    from eagle_core.tree import SiblingKind

DEPTH = 6  # the paper's, with ten nodes a level (EAGLE-2, appendix A)
TOP_K = 10


@dataclass(frozen=True)
class DynamicPlan(Unchanging):
    """`num_drafts` nodes below the root, the root not counted: the papers' 60 are 59 here."""

    num_drafts: int
    depth: int = DEPTH
    top_k: int = TOP_K

    @property
    def siblings(self) -> SiblingKind:
        """Always the head's best: what was drawn must not be dropped for its value."""
        return "one_hot"

    @property
    def is_chain(self) -> bool:
        return self.top_k == 1

    def within(self, depth: int) -> DynamicPlan:
        return replace(self, depth=max(min(depth, self.depth), 0))

    def num_children(self, made: Candidates, node: int) -> int:
        return self.top_k

    def frontier(self, made: Candidates, newest: Sequence[int]) -> list[int]:
        """The best of the level, without those whose children could not be among the kept."""
        if not newest or made.depths[newest[0]] >= self.depth:
            return []
        values = made.values
        best = best_nodes(values, newest, self.top_k)
        if len(made) - 1 < self.num_drafts:
            return best
        least = min(values[node] for node in self.kept(made))
        return [node for node in best if values[node] > least]

    def kept(self, made: Candidates) -> Sequence[int]:
        return [0, *best_nodes(made.values, range(1, len(made)), self.num_drafts)]


def best_nodes(values: Sequence[float], nodes: Sequence[int], count: int) -> list[int]:
    """The `count` nodes of largest value, rising; of equals the first, which is the shallower."""
    return sorted(heapq.nsmallest(count, nodes, key=lambda node: (-values[node], node)))

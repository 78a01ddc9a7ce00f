"""The best fixed tree for a machine, by dynamic programming (Sequoia, arXiv 2402.12374, section 3).

With a(d, r) the chance that the child of rank r at depth d is the one kept, the best subtree of n
nodes below a node at depth d keeps

    F(d, n) = 1 + max over splits n - 1 = Σ m(r)  of  Σ a(d + 1, r) · F(d + 1, m(r))

Of all sizes and depth limits the tree is taken that commits most tokens per millisecond.
Knows rates and prices. Knows nothing of tokens, models or single drafts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from typing import TYPE_CHECKING

from eagle_core.calibration import rank_rates
from eagle_core.shapes import Ranks, plan_of
from eagle_core.tree import TreePlan

if TYPE_CHECKING:
    from eagle_core.cost import Prices, Profile

MAX_NODES = 33  # root included
MAX_DEPTH = 8
USUAL_TEXT = 512  # tokens in the cache that the tree is meant for


@dataclass(frozen=True)
class Optimum:
    """tau: tokens that a step is expected to commit."""

    plan: TreePlan
    tau: float
    step_ms: float

    @property
    def rate(self) -> float:
        """Tokens per millisecond."""
        return self.tau / self.step_ms


def best_tree(profile: Profile, *, is_chain: bool = False, max_nodes: int = MAX_NODES) -> Optimum:
    """Plain decoding, the tree that is a root alone, is among those compared."""
    rates, prices = rank_rates(profile.kept_by_rank), profile.prices(USUAL_TEXT)
    found = joined.from_iterable(
        _trees(Splits(rates, depth, max_nodes, width=1 if is_chain else None), prices)
        for depth in range(MAX_DEPTH + 1)
    )
    return max(found, key=lambda optimum: optimum.rate)


def _trees(splits: Splits, prices: Prices) -> Iterator[Optimum]:
    for num_nodes in range(1, splits.max_nodes + 1):
        if splits.tau(num_nodes) <= 0:
            continue  # so many nodes do not fit
        plan = plan_of(splits.nodes(num_nodes))
        yield Optimum(plan, splits.tau(num_nodes), prices.step_ms(num_nodes, draft_rows(plan)))


def draft_rows(plan: TreePlan) -> tuple[int, ...]:
    """How many rows the head reads for each level of a fixed tree."""
    inner = (sum(bool(plan.children[node]) for node in level) for level in plan.levels)
    return tuple(count for count in inner if count)


class Splits:
    """All best trees of one depth limit: what they keep, and which child gets how many nodes.

    rates: per depth from 1 on, per child rank; the last depth stands for all below it.
    """

    def __init__(
        self,
        rates: Sequence[Sequence[float]],
        depth: int,
        max_nodes: int,
        *,
        width: int | None = None,
    ) -> None:
        self.max_nodes = max_nodes
        self._rates = [rates[min(d, len(rates) - 1)][:width] for d in range(depth)]
        below = [_IMPOSSIBLE, 1.0, *[_IMPOSSIBLE] * (max_nodes - 1)]  # a leaf is one node
        self._kept = [below]  # per depth from the deepest up: F by number of nodes
        self._sizes: list[list[list[int]]] = []  # per depth, rank and nodes left: that child's
        for of_rank in reversed(self._rates):
            kept, sizes = _shared_out(of_rank, below, max_nodes)
            below = [_IMPOSSIBLE, *(1.0 + most for most in kept[:max_nodes])]
            self._kept.append(below)
            self._sizes.append(sizes)

    def tau(self, num_nodes: int) -> float:
        """Of the whole tree, the root standing for the bonus token; below 0 where it cannot be."""
        return self._kept[-1][num_nodes]

    def nodes(self, num_nodes: int) -> list[Ranks]:
        """The best tree of that size, without its root."""
        return list(self._below((), num_nodes))

    def _below(self, parent: Ranks, num_nodes: int) -> Iterator[Ranks]:
        left, rank = num_nodes - 1, 0
        while left:
            size = self._sizes[len(self._rates) - 1 - len(parent)][rank][left]
            child = (*parent, rank)
            yield child
            yield from self._below(child, size)
            left, rank = left - size, rank + 1


_IMPOSSIBLE = -1e9


def _shared_out(
    rates: Sequence[float], below: Sequence[float], max_nodes: int
) -> tuple[list[float], list[list[int]]]:
    """The most that 0, 1, … nodes keep shared among the children of ranks 0, 1, … in order.

    below: what a child keeps by the number of its nodes. Also per rank and number of nodes left
    how many of them that child gets; a child without nodes ends the row of children.
    """
    most = [0.0, *[_IMPOSSIBLE] * (max_nodes - 1)]
    sizes: list[list[int]] = []
    for rate in reversed(rates):
        options = [
            [
                (rate * below[size] + most[left - size], size)
                for size in range(1, left + 1)
                if below[size] > 0 and most[left - size] >= 0
            ]
            for left in range(max_nodes)
        ]
        best = [(0.0, 0), *(max(row, default=(_IMPOSSIBLE, 0)) for row in options[1:])]
        most = [kept for kept, _ in best]
        sizes.insert(0, [size for _, size in best])
    return most, sizes

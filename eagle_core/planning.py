"""How a draft tree's size is decided: the contract, and what a plan may look at.

    level by level:  num_children (before a node's law is looked at) ─▶ candidates ─▶ frontier
    at the end:      kept, of all candidates those that the target shall check

A `Planner` hands out a plan for every step of a run and learns from what became of its trees.
Siblings that were drawn are all kept: dropping one because of its value would bias the survivors.
How many to draw, and where to go on, may depend on whatever was drawn before.

Knows tokens, parents and draft probabilities. Knows nothing of laws, models or clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from eagle_core.tree import SiblingKind
    from eagle_core.verify import Acceptance

PlanType = TypeVar("PlanType")


class Candidates:
    """Drafted nodes, level by level, the root first; `add` is the only thing that changes them.

    log_probs: of each node's token given its path. values: the plan's chance that the whole path is
    kept, never above the parent's. ranks: a node's place among its siblings, as they were chosen.
    """

    def __init__(self, root: int) -> None:
        self.tokens = [root]
        self.parents: list[int | None] = [None]
        self.log_probs = [0.0]
        self.values = [1.0]
        self.ranks = [0]
        self.depths = [0]

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, *, rank: int, log_prob: float, chance: float) -> None:
        """chance: the plan's, that it is kept where its parent is."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.log_probs.append(log_prob)
        self.values.append(self.values[parent] * chance)
        self.ranks.append(rank)
        self.depths.append(self.depths[parent] + 1)


@dataclass(frozen=True, eq=False)
class Choice:
    """All that was drafted, and which of it makes the tree: `kept`, rising, the root first."""

    made: Candidates
    kept: Sequence[int]

    @property
    def dropped(self) -> list[int]:
        kept = {*self.kept}
        return [node for node in range(len(self.made)) if node not in kept]


class Plan(Protocol):
    """How one tree shall be grown."""

    @property
    def siblings(self) -> SiblingKind: ...

    @property
    def depth(self) -> int:
        """Levels below the root that the tree may have; 0 drafts nothing."""
        ...

    def within(self, depth: int) -> Plan:
        """This plan without the nodes deeper than `depth`."""
        ...

    def chance_kept(self, depth: int, prob: float) -> float:
        """What the plan thinks of a candidate with this draft probability, its parent kept."""
        ...

    def num_children(self, made: Candidates, node: int) -> int:
        """How many children a frontier node shall have, fewer where its law runs out of tokens."""
        ...

    def frontier(self, made: Candidates, newest: Sequence[int]) -> list[int]:
        """Which of the newest level's nodes get children, in order; none ends the growth."""
        ...

    def kept(self, made: Candidates) -> Sequence[int]:
        """The nodes of the tree, rising, each with its parent; all of them for drawn siblings."""
        ...


class Planner(Protocol):
    """Hands out the plans of one run; what it decides by is in its past, never on a clock."""

    def next_plan(self, num_cached: int) -> Plan:
        """The plan of a step whose root is at position `num_cached`."""
        ...

    def learn(self, taken: Acceptance) -> None:
        """Take note of what the step kept of its tree."""
        ...


class Unchanging:
    """A plan that serves every step of a run alike, and so is its own planner."""

    def next_plan(self: PlanType, num_cached: int) -> PlanType:
        return self

    def learn(self, taken: Acceptance) -> None:
        """It stays what it is."""

    def chance_kept(self, depth: int, prob: float) -> float:
        """The head is taken at its word."""
        return prob

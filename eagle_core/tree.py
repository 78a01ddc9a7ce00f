"""Draft trees and the plans they are grown from.

    root ── the ─┬─ cat ── sat        tokens   (root, the, a, cat, dog, sat)
         └─ a    └─ dog               parents  (None, 0, 0, 1, 1, 3)

Knows tokens, parents and draft laws. Knows nothing of models, caches or text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

from eagle_core.errors import TreeError
from eagle_core.planning import Unchanging

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.planning import Candidates, Choice

SiblingKind = Literal["one_hot", "without_replacement", "iid"]
SIBLING_KINDS: tuple[SiblingKind, ...] = get_args(SiblingKind)

ROOT = 0


@dataclass(frozen=True, eq=False)
class DraftTree:
    """One drafted tree; node 0 is the root, the last committed token, in no cache yet.

    Children of a node stand in the order in which they were chosen. `log_probs` holds each node's
    draft log-probability given its path, never given its earlier siblings (0.0 at the root).
    `laws` maps an inner node to its full draft law, (V,), where its children were drawn from one.
    `draft_rows` says how many rows the head read for each level: what drafting it took. `choice`
    is what the tree was chosen from, where it was chosen.
    """

    tokens: tuple[int, ...]
    parents: tuple[int | None, ...]
    log_probs: tuple[float, ...]
    siblings: SiblingKind = "one_hot"
    laws: Mapping[int, Tensor] = field(default_factory=dict)
    draft_rows: tuple[int, ...] = ()
    choice: Choice | None = None

    def __post_init__(self) -> None:
        if not self.tokens:
            raise TreeError("a draft tree without nodes", expected="at least the root")
        if not len(self.tokens) == len(self.parents) == len(self.log_probs):
            raise TreeError(
                f"{len(self.tokens)} tokens, {len(self.parents)} parents and "
                f"{len(self.log_probs)} log-probabilities",
                expected="one of each for every node",
            )
        _check_parents(self.parents)
        if self.siblings != "one_hot":
            undrawn = [node for node in self.inner_nodes if node not in self.laws]
            if undrawn:
                raise TreeError(
                    f"inner nodes {undrawn} have {self.siblings} children and no draft law"
                )

    @classmethod
    def root_only(cls, root: int) -> DraftTree:
        """The tree of plain decoding: nothing drafted."""
        return cls(tokens=(root,), parents=(None,), log_probs=(0.0,))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def num_drafts(self) -> int:
        return len(self.tokens) - 1

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Per node its children, in the order in which they were chosen."""
        return children_of(self.parents)

    @cached_property
    def inner_nodes(self) -> tuple[int, ...]:
        return tuple(node for node, children in enumerate(self.children) if children)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        return depths_of(self.parents)

    def path_to(self, node: int) -> tuple[int, ...]:
        """Nodes from the root down to `node`, both included."""
        return path_in(self.parents, node)

    def tokens_on(self, path: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.tokens[node] for node in path)

    def prob(self, node: int) -> float:
        """Draft probability of `node` given its path."""
        return math.exp(self.log_probs[node])


@dataclass(frozen=True)
class TreePlan(Unchanging):
    """The shape a drafter shall grow, and how it shall choose siblings.

    `parents` as in a draft tree; the children of a node take its first, second, … choice. A choice
    that does not exist (fewer tokens than slots have a probability) leaves its subtree out.
    """

    parents: tuple[int | None, ...]
    siblings: SiblingKind = "one_hot"

    def __post_init__(self) -> None:
        _check_parents(self.parents)
        depths = depths_of(self.parents)
        if any(later < earlier for earlier, later in pairwise(depths)):
            raise TreeError(f"plan with depths {depths}", expected="nodes ordered level by level")

    @property
    def num_drafts(self) -> int:
        return len(self.parents) - 1

    @cached_property
    def depth(self) -> int:
        return max(depths_of(self.parents))

    @property
    def is_chain(self) -> bool:
        return self.depth == self.num_drafts

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        return children_of(self.parents)

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Plan nodes per depth, the root's level first."""
        depths = depths_of(self.parents)
        return tuple(
            tuple(node for node, depth in enumerate(depths) if depth == level)
            for level in range(self.depth + 1)
        )

    def within(self, depth: int) -> TreePlan:
        """This plan without the nodes deeper than `depth` (0 leaves the root alone)."""
        if depth >= self.depth:
            return self
        depths = depths_of(self.parents)
        kept = tuple(p for p, d in zip(self.parents, depths, strict=True) if d <= max(depth, 0))
        return TreePlan(kept, self.siblings)

    def num_children(self, made: Candidates, node: int) -> int:
        return len(self.children[self._slot(made, node)])

    def frontier(self, made: Candidates, newest: Sequence[int]) -> list[int]:
        return [node for node in newest if self.num_children(made, node)]

    def kept(self, made: Candidates) -> Sequence[int]:
        return range(len(made))

    def _slot(self, made: Candidates, node: int) -> int:
        """The plan node that a drafted one fills."""
        parent = made.parents[node]
        return ROOT if parent is None else self.children[self._slot(made, parent)][made.ranks[node]]


def depths_of(parents: Sequence[int | None]) -> tuple[int, ...]:
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent is None else depths[parent] + 1)
    return tuple(depths)


def children_of(parents: Sequence[int | None]) -> tuple[tuple[int, ...], ...]:
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent is not None:
            children[parent].append(node)
    return tuple(map(tuple, children))


def ranks_of(parents: Sequence[int | None]) -> tuple[tuple[int, ...], ...]:
    """Each node's place: the rank of every choice from the root, (), down to it."""
    children = children_of(parents)
    ranks: list[tuple[int, ...]] = []
    for node, parent in enumerate(parents):
        ranks.append(() if parent is None else (*ranks[parent], children[parent].index(node)))
    return tuple(ranks)


def path_in(parents: Sequence[int | None], node: int) -> tuple[int, ...]:
    path = []
    step: int | None = node
    while step is not None:
        path.append(step)
        step = parents[step]
    return tuple(reversed(path))


def _check_parents(parents: Sequence[int | None]) -> None:
    for node, parent in enumerate(parents):
        if node == ROOT and parent is not None:
            raise TreeError(f"the root has parent {parent}", expected="None")
        if node != ROOT and (parent is None or not 0 <= parent < node):
            raise TreeError(f"node {node} has parent {parent}", expected="parents first")

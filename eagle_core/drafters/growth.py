"""Grow a draft tree level by level along a plan, from whatever gives logits.

    plan   o─┬─o─┬─o        level 1: two choices at the root
             │   └─o        level 2: two choices below the first child
             └─o

A drafter asks for the frontier, runs its head over it once, and hands back the logits of every
frontier node. Knows tokens and draft laws. Knows nothing of heads, features or caches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from eagle_core.sampling import without
from eagle_core.tree import ROOT, DraftTree, path_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from eagle_core.sampling import Chance, LawMaker
    from eagle_core.tree import TreePlan


class Growth:
    """A draft tree in the making; `add_level` is the only thing that changes it.

    vocabulary: (V',) target ids of the drafter's own token numbers, None where they are the same.
    vocab_size: V, the width of the draft laws that the finished tree carries.
    """

    def __init__(
        self,
        root: int,
        *,
        plan: TreePlan,
        laws: LawMaker,
        chance: Chance,
        vocab_size: int,
        vocabulary: Tensor | None = None,
    ) -> None:
        self._plan = plan
        self._laws = laws
        self._chance = chance
        self._vocab_size = vocab_size
        self._vocabulary = vocabulary
        self._target_ids = None if vocabulary is None else vocabulary.tolist()
        self._tokens = [root]
        self._parents: list[int | None] = [None]
        self._log_probs = [0.0]
        self._plan_nodes = [ROOT]
        self._draft_laws: dict[int, Tensor] = {}
        self.frontier = self._with_planned_children([ROOT])

    def token(self, node: int) -> int:
        return self._tokens[node]

    def parent(self, node: int) -> int:
        parent = self._parents[node]
        assert parent is not None, "the root is never drafted"
        return parent

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from the root down to `node`, both included."""
        return path_in(self._parents, node)

    def add_level(self, logits: Tensor) -> None:
        """Choose children from logits (R, V'), row i for frontier node i; moves the frontier on.

        Where they are no numbers, as after an overflow in half precision, nothing is drafted.
        """
        first_new = len(self._tokens)
        logits = self._with_numbers(logits)
        if self.frontier and self._plan.siblings == "one_hot":
            self._add_most_probable(logits)
        elif self.frontier:
            self._add_drawn(logits)
        self.frontier = self._with_planned_children(range(first_new, len(self._tokens)))

    def finish(self) -> DraftTree:
        return DraftTree(
            tokens=tuple(self._tokens),
            parents=tuple(self._parents),
            log_probs=tuple(self._log_probs),
            siblings=self._plan.siblings,
            laws=self._draft_laws,
        )

    def _with_numbers(self, logits: Tensor) -> Tensor:
        """The rows that are all below infinity, which NaN is not; the other nodes are given up."""
        are_numbers = (logits < math.inf).all(-1)
        if bool(are_numbers.all()):
            return logits
        rows = zip(self.frontier, are_numbers.tolist(), strict=True)
        self.frontier = [node for node, is_number in rows if is_number]
        return logits[are_numbers]

    def _with_planned_children(self, nodes: list[int] | range) -> list[int]:
        return [node for node in nodes if self._plan.children[self._plan_nodes[node]]]

    def _slots(self, node: int) -> tuple[int, ...]:
        """Plan nodes that the children of `node` fill."""
        return self._plan.children[self._plan_nodes[node]]

    def _add_most_probable(self, logits: Tensor) -> None:
        """Top-k siblings; their probabilities are the drafter's own, at temperature 1."""
        scores = self._laws.scores(logits, drafted=self._drafted(), vocabulary=self._vocabulary)
        widest = min(max(len(self._slots(node)) for node in self.frontier), scores.shape[-1])
        top = scores.log_softmax(-1).topk(widest, dim=-1)
        rows = zip(self.frontier, top.indices.tolist(), top.values.tolist(), strict=True)
        for node, numbers, log_probs in rows:
            for slot, number, log_prob in zip(self._slots(node), numbers, log_probs, strict=False):
                if log_prob > -math.inf:
                    self._add(node, slot, number, log_prob)

    def _add_drawn(self, logits: Tensor) -> None:
        """Siblings drawn from each node's law, (R, V'), one after the other."""
        laws = self._laws.law(logits, drafted=self._drafted(), vocabulary=self._vocabulary)
        for node, law in zip(self.frontier, laws, strict=True):
            self._draft_laws[node] = self._over_all_tokens(law)
            left, here = law, self._chance.ahead(len(self.path(node)) - 1)
            for slot in self._slots(node):
                if not left.any():
                    break
                number = here.draw(left, tokens=self._vocabulary)
                self._add(node, slot, number, math.log(law[number]))
                if self._plan.siblings == "without_replacement":
                    left = without(left, number)

    def _drafted(self) -> Iterator[tuple[int, ...]]:
        """Per frontier node the tokens on its path, the root's left out; made when asked for."""
        return (tuple(map(self.token, self.path(node)[1:])) for node in self.frontier)

    def _add(self, parent: int, slot: int, number: int, log_prob: float) -> None:
        self._tokens.append(number if self._target_ids is None else self._target_ids[number])
        self._parents.append(parent)
        self._log_probs.append(log_prob)
        self._plan_nodes.append(slot)

    def _over_all_tokens(self, law: Tensor) -> Tensor:
        if self._vocabulary is None:
            return law
        return law.new_zeros(self._vocab_size).index_put((self._vocabulary,), law)  # (V,)

"""Grow a draft tree level by level along a plan, from whatever gives logits.

    plan   o─┬─o─┬─o        level 1: two choices at the root
             │   └─o        level 2: two choices below the first child
             └─o

A drafter asks for the frontier, runs its head over it once, and hands back the logits of every
frontier node. The plan says how many children a node gets, where the growth goes on, and at its
end which of the candidates make the tree. Knows tokens and draft laws. Knows nothing of heads,
features or caches.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from eagle_core.planning import Candidates, Choice
from eagle_core.sampling import without
from eagle_core.tree import ROOT, DraftTree, path_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from eagle_core.planning import Plan
    from eagle_core.sampling import Chance, LawMaker


class Growth:
    """A draft tree in the making; `add_level` is the only thing that changes it.

    vocabulary: (V',) target ids of the drafter's own token numbers, None where they are the same.
    vocab_size: V, the width of the draft laws that the finished tree carries.
    """

    def __init__(
        self,
        root: int,
        *,
        plan: Plan,
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
        self._made = Candidates(root)
        self._draft_laws: dict[int, Tensor] = {}
        self._draft_rows: list[int] = []
        self.frontier = plan.frontier(self._made, [ROOT])

    def token(self, node: int) -> int:
        return self._made.tokens[node]

    def parent(self, node: int) -> int:
        parent = self._made.parents[node]
        assert parent is not None, "the root is never drafted"
        return parent

    def path(self, node: int) -> tuple[int, ...]:
        """Nodes from the root down to `node`, both included."""
        return path_in(self._made.parents, node)

    def add_level(self, logits: Tensor) -> None:
        """Choose children from logits (R, V'), row i for frontier node i; moves the frontier on.

        Where they are no numbers, as after an overflow in half precision, nothing is drafted.
        """
        first_new = len(self._made)
        self._draft_rows.append(len(self.frontier))
        logits = self._with_numbers(logits)
        if self.frontier and self._plan.siblings == "one_hot":
            self._add_most_probable(logits)
        elif self.frontier:
            self._add_drawn(logits)
        self.frontier = self._plan.frontier(self._made, range(first_new, len(self._made)))

    def finish(self) -> DraftTree:
        made, kept = self._made, self._plan.kept(self._made)
        assert self._plan.siblings == "one_hot" or len(kept) == len(made), "drawn nodes are kept"
        place = {node: index for index, node in enumerate(kept)}
        parents = [made.parents[node] for node in kept]
        return DraftTree(
            tokens=tuple(made.tokens[node] for node in kept),
            parents=tuple(None if parent is None else place[parent] for parent in parents),
            log_probs=tuple(made.log_probs[node] for node in kept),
            siblings=self._plan.siblings,
            laws=self._draft_laws,
            draft_rows=tuple(self._draft_rows),
            choice=Choice(made, kept),
        )

    def _with_numbers(self, logits: Tensor) -> Tensor:
        """The rows that are all below infinity, which NaN is not; the other nodes are given up."""
        are_numbers = (logits < math.inf).all(-1)
        if bool(are_numbers.all()):
            return logits
        rows = zip(self.frontier, are_numbers.tolist(), strict=True)
        self.frontier = [node for node, is_number in rows if is_number]
        return logits[are_numbers]

    def _add_most_probable(self, logits: Tensor) -> None:
        """Top-k siblings; their probabilities are the drafter's own, at temperature 1."""
        counts = [self._plan.num_children(self._made, node) for node in self.frontier]
        scores = self._laws.scores(logits, drafted=self._drafted(), vocabulary=self._vocabulary)
        top = scores.log_softmax(-1).topk(min(max(counts), scores.shape[-1]), dim=-1)
        tokens = top.indices if self._vocabulary is None else self._vocabulary[top.indices]
        rows = zip(self.frontier, counts, tokens.tolist(), top.values.tolist(), strict=True)
        for node, count, row, log_probs in rows:
            chance = 1.0
            for rank, (token, log_prob) in enumerate(zip(row[:count], log_probs, strict=False)):
                if log_prob > -math.inf:
                    chance = self._add(node, token, rank, log_prob, at_most=chance)

    def _add_drawn(self, logits: Tensor) -> None:
        """Siblings drawn from each node's law, (R, V'), one after the other."""
        laws = self._laws.law(logits, drafted=self._drafted(), vocabulary=self._vocabulary)
        for node, law in zip(self.frontier, laws, strict=True):
            self._draft_laws[node] = self._over_all_tokens(law)
            left, here = law, self._chance.ahead(len(self.path(node)) - 1)
            for rank in range(self._plan.num_children(self._made, node)):
                if not left.any():
                    break
                number = here.draw(left, tokens=self._vocabulary)
                self._add(node, self._target_id(number), rank, math.log(law[number]))
                if self._plan.siblings == "without_replacement":
                    left = without(left, number)

    def _add(
        self, parent: int, token: int, rank: int, log_prob: float, *, at_most: float = 1.0
    ) -> float:
        """The chance that it is noted with. A choice is never worth more than the better one
        before it: a plan that keeps some of them keeps the first ones, and ranks stay true."""
        depth = self._made.depths[parent] + 1
        chance = min(self._plan.chance_kept(depth, math.exp(log_prob)), at_most)
        self._made.add(parent, token, rank=rank, log_prob=log_prob, chance=chance)
        return chance

    def _drafted(self) -> Iterator[tuple[int, ...]]:
        """Per frontier node the tokens on its path, the root's left out; made when asked for."""
        return (tuple(map(self.token, self.path(node)[1:])) for node in self.frontier)

    def _target_id(self, number: int) -> int:
        return number if self._vocabulary is None else int(self._vocabulary[number])

    def _over_all_tokens(self, law: Tensor) -> Tensor:
        if self._vocabulary is None:
            return law
        return law.new_zeros(self._vocab_size).index_put((self._vocabulary,), law)  # (V,)

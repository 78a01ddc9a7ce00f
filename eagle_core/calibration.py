"""How often drafts of a kind are kept, learnt from what the verifier kept in this run so far.

The head's own probability is the first guess for a child that is the head's best, and not far from
it for one that was drawn; each cell of depth and probability corrects it by what happened there:

    chance = guess · (kept + weight) ÷ (Σ guess + weight)

Knows counts. Knows nothing of trees' costs, laws or clocks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagle_core.cost import Kept
    from eagle_core.verify import Acceptance

PROB_EDGES = (0.05, 0.2, 0.5, 0.8)
NUM_DEPTHS = 3  # the third stands for all below it
WEIGHT = 3.0  # kept drafts that the first guess is worth
MEMORY = 0.97  # of a cell, from one outcome to the next
GUESS_SEEN = 10  # times that a guess counts for as if it had been seen
DRAWN_GUESS = (0.07, 0.75)  # of a drawn token: so much, and so much times its probability


class Ratio:
    """What happened against what was guessed, the guess being worth `WEIGHT` of its own.

    Both fade, so that a text whose drafts are kept more or less often than before is noticed.
    """

    def __init__(self) -> None:
        self._guessed = self._happened = WEIGHT

    def add(self, guess: float, happened: float) -> None:
        self._guessed = MEMORY * self._guessed + guess
        self._happened = MEMORY * self._happened + happened

    def corrected(self, guess: float) -> float:
        return min(guess * self._happened / self._guessed, 1.0)


class Calibration:
    """`learn` is the only thing that changes it; depths count from 1, the root's children.

    kept_by_rank: from earlier measurements, per depth and child rank; first guesses for children
    whose token is not known yet. is_drawn: whether siblings are drawn, not the head's best.
    """

    def __init__(self, kept_by_rank: Sequence[Sequence[Kept]], *, is_drawn: bool) -> None:
        self._guesses = rank_rates(kept_by_rank)
        self._is_drawn = is_drawn
        self._by_prob = [[Ratio() for _ in range(len(PROB_EDGES) + 1)] for _ in range(NUM_DEPTHS)]
        self._by_rank = [[Ratio() for _ in self._guesses[0]] for _ in range(NUM_DEPTHS)]
        self._any = [Ratio() for _ in range(NUM_DEPTHS)]

    def chance_kept(self, depth: int, prob: float) -> float:
        """Of a drafted token of this draft probability, its parent being kept."""
        cell = self._by_prob[_layer(depth)][bisect_right(PROB_EDGES, prob)]
        return cell.corrected(self._guess(prob))

    def chance_of_rank(self, depth: int, rank: int) -> float:
        """Of the child of this rank before its token is drawn, its parent being kept."""
        guesses = self._guesses[min(depth, len(self._guesses)) - 1]
        if rank >= len(guesses):
            return 0.0
        return self._by_rank[_layer(depth)][rank].corrected(guesses[rank])

    def chance_going_on(self, depth: int) -> float:
        """That some child at this depth is kept, its parent being kept."""
        return self._any[_layer(depth)].corrected(self._guess_going_on(depth))

    def learn(self, taken: Acceptance) -> None:
        """From every node of the path whose children stood trial."""
        tree = taken.tree
        ends = [*taken.path[1:], None] if taken.bonus is not None else taken.path[1:]
        for depth, (node, kept) in enumerate(zip(taken.path, ends, strict=False), start=1):
            children = tree.children[node]
            for rank, child in enumerate(children):
                self._note_child(depth, rank, tree.prob(child), child == kept)
            if children:
                guess = self._guess_going_on(depth)
                self._any[_layer(depth)].add(guess, float(kept is not None))

    def _note_child(self, depth: int, rank: int, prob: float, is_kept: bool) -> None:
        layer, happened = _layer(depth), float(is_kept)
        by_prob = self._by_prob[layer][bisect_right(PROB_EDGES, prob)]
        by_prob.add(self._guess(prob), happened)
        guesses = self._guesses[min(depth, len(self._guesses)) - 1]
        if rank < len(guesses):
            self._by_rank[layer][rank].add(guesses[rank], happened)

    def _guess(self, prob: float) -> float:
        least, slope = DRAWN_GUESS if self._is_drawn else (0.0, 1.0)
        return least + slope * prob

    def _guess_going_on(self, depth: int) -> float:
        return min(sum(self._guesses[min(depth, len(self._guesses)) - 1][:2]), 0.95)


def rank_rates(kept_by_rank: Sequence[Sequence[Kept]]) -> tuple[tuple[float, ...], ...]:
    """Per depth and rank the chance of being the child that is kept.

    Where little was seen at a depth, the counts of all depths stand in.
    """
    widest = max(len(ranks) for ranks in kept_by_rank)
    by_rank = [
        [ranks[rank] for ranks in kept_by_rank if rank < len(ranks)] for rank in range(widest)
    ]
    pooled = [_rate(counts, guess=0.0) for counts in by_rank]
    return tuple(
        tuple(_rate(ranks[rank : rank + 1], guess=pooled[rank]) for rank in range(widest))
        for ranks in kept_by_rank
    )


def _rate(counts: Sequence[Kept], *, guess: float) -> float:
    num_reached = sum(reached for reached, _ in counts)
    num_kept = sum(kept for _, kept in counts)
    return (num_kept + GUESS_SEEN * guess) / (num_reached + GUESS_SEEN)


def _layer(depth: int) -> int:
    return min(depth, NUM_DEPTHS) - 1

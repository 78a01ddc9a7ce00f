"""From logits to laws, and from laws to tokens.

Laws are float32, or float64 where the logits are: the proofs by enumeration run in float64.
Knows nothing of trees beyond asking a scored one for the law at a node.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.options import RunOptions
    from eagle_core.targets.base import TargetRead

TargetLaw = Callable[[int], "Tensor"]
"""Node to its processed target law, (V,): the law of the token that follows the node's path."""


class Chance(Protocol):
    """Where a run's randomness comes from; tests put an enumeration here."""

    def uniform(self) -> float:
        """A number in [0, 1)."""
        ...

    def draw(self, law: Tensor) -> int:
        """A token from `law`, (V,), which need not be normalised."""
        ...


class SeededChance:
    """The chance of the product: same seed, same draws."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uniform(self) -> float:
        return self._random.random()

    def draw(self, law: Tensor) -> int:
        """Invert the cumulated law; a token of probability zero is never drawn."""
        cumulated = law.to(torch.float64).cumsum(-1)
        total = cumulated[-1]
        point = total * self._random.random()
        token = int(torch.searchsorted(cumulated, point, right=True))
        if token < len(law) and bool(law[token] > 0):
            return token
        return int(law.nonzero()[-1])  # the point was rounded up to the total


class LawMaker:
    """Processes logits into laws, the same way for target and drafter, node and bonus token.

    Order as in transformers: temperature, top-k, top-p. At temperature 0 the law stays the softmax
    at temperature 1: the greedy rule takes its mode, and shows how probable that was.
    """

    def __init__(self, options: RunOptions) -> None:
        self._temperature = options.temperature if options.temperature > 0 else 1.0
        self._top_k = 0 if options.temperature == 0 else options.top_k
        self._top_p = 1.0 if options.temperature == 0 else options.top_p

    def law(self, logits: Tensor) -> Tensor:
        """Logits (…, V) to laws (…, V)."""
        scores = logits if logits.dtype == torch.float64 else logits.float()
        scores = scores / self._temperature
        if 0 < self._top_k < scores.shape[-1]:
            scores = keep_top_k(scores, self._top_k)
        if self._top_p < 1.0:
            scores = keep_top_p(scores, self._top_p)
        return scores.softmax(-1)

    def of(self, read: TargetRead) -> TargetLaw:
        """The target's law at each node of the tree that `read` scored, made when asked for."""
        made: dict[int, Tensor] = {}

        def law(node: int) -> Tensor:
            if node not in made:
                made[node] = self.law(read.logits[node])
            return made[node]

        return law


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """Scores (…, V) with all below the k-th set to minus infinity; ties with it stay."""
    least = scores.topk(k, dim=-1).values[..., -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def keep_top_p(scores: Tensor, p: float) -> Tensor:
    """The smallest set of tokens, most probable first, whose probabilities reach `p`."""
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    probs = ordered.softmax(-1)
    before = probs.cumsum(-1) - probs  # mass of the tokens ranked higher
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= p)
    return scores.masked_fill(dropped, -torch.inf)

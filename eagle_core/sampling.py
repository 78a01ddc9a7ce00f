"""From logits to laws, and from laws to tokens.

Laws are float32, or float64 where the logits are: the proofs by enumeration run in float64.
Knows nothing of trees beyond asking a scored one for the law at a node.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Tokens
from typing import TYPE_CHECKING, Protocol

import torch

from eagle_core.penalties import PenalisedText, Penalties

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.options import RunOptions
    from eagle_core.sequence import Sequence
    from eagle_core.targets.base import TargetRead
    from eagle_core.tree import DraftTree

FIRST_RANKED = 64  # tokens that top-p ranks at first; most nuclei are smaller

TargetLaw = Callable[[int], "Tensor"]
"""Node to its processed target law, (V,): the law of the token that follows the node's path."""


class Chance(Protocol):
    """Where a run's randomness comes from; tests put an enumeration here."""

    def uniform(self) -> float:
        """A number in [0, 1)."""
        ...

    def draw(self, law: Tensor, *, tokens: Tensor | None = None) -> int:
        """The index of an entry of `law`, (V',), which need not be normalised.

        tokens: (V',) the token of each entry, None where entry i is token i.
        """
        ...

    def ahead(self, num_tokens: int) -> Chance:
        """The chance of a place so many tokens further on in the text."""
        ...


class SeededChance:
    """The chance of most rules: same seed, same numbers, in the order in which they are asked."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uniform(self) -> float:
        return self._random.random()

    def draw(self, law: Tensor, *, tokens: Tensor | None = None) -> int:
        """Invert the cumulated law; an entry of probability zero is never drawn."""
        cumulated = law.to(torch.float64).cumsum(-1)
        total = cumulated[-1]
        point = total * self._random.random()
        drawn = int(torch.searchsorted(cumulated, point, right=True))
        if drawn < len(law) and bool(law[drawn] > 0):
            return drawn
        return int(law.nonzero()[-1])  # the point was rounded up to the total

    def ahead(self, num_tokens: int) -> SeededChance:
        return self


class LawMaker:
    """Processes logits into laws, the same way for target and drafter, node and bonus token.

    Order as in transformers: repetition, presence and frequency penalty, temperature, top-k,
    top-p, min-p. At temperature 0 only the penalties are applied and the law is the softmax at
    temperature 1: the greedy rule takes its mode, and shows how probable that was.

    text: what the laws follow, needed by penalties alone; `after` gives the maker for a text.
    """

    def __init__(self, options: RunOptions, *, text: PenalisedText | None = None) -> None:
        is_greedy = options.temperature == 0
        self._options = options
        self._text = text
        self._temperature = 1.0 if is_greedy else options.temperature
        self._top_k = 0 if is_greedy else options.top_k
        self._top_p = 1.0 if is_greedy else options.top_p
        self._min_p = 0.0 if is_greedy else options.min_p

    def after(self, sequence: Sequence) -> LawMaker:
        """The maker of the laws that follow `sequence` as it is now."""
        penalties = Penalties.of(self._options)
        if penalties.are_none:
            return self
        return LawMaker(self._options, text=penalties.after(sequence))

    def scores(
        self,
        logits: Tensor,
        *,
        drafted: Iterable[Tokens[int]] | None = None,
        vocabulary: Tensor | None = None,
    ) -> Tensor:
        """Logits (…, V') as numbers to compute with, penalised where the run asks for it.

        drafted: for each row of (R, V') its path below the root; None where all rows follow the
            text itself. vocabulary: (V',) the columns' tokens, None where column i is token i.
        """
        scores = logits if logits.dtype == torch.float64 else logits.float()
        if self._text is None:
            return scores
        if drafted is None:
            return self._text.scores(scores, vocabulary=vocabulary)
        rows = zip(scores, drafted, strict=True)
        return torch.stack(
            [self._text.scores(row, drafted=path, vocabulary=vocabulary) for row, path in rows]
        )

    def law(
        self,
        logits: Tensor,
        *,
        drafted: Iterable[Tokens[int]] | None = None,
        vocabulary: Tensor | None = None,
    ) -> Tensor:
        """Logits (…, V') to laws (…, V'); arguments as of `scores`."""
        scores = self.scores(logits, drafted=drafted, vocabulary=vocabulary) / self._temperature
        if 0 < self._top_k < scores.shape[-1]:
            scores = keep_top_k(scores, self._top_k)
        if self._top_p < 1.0:
            scores = keep_top_p(scores, self._top_p)
        if self._min_p > 0.0:
            scores = keep_min_p(scores, self._min_p)
        return scores.softmax(-1)

    def of(self, tree: DraftTree, read: TargetRead) -> TargetLaw:
        """The target's law at each node of `tree`, which `read` scored; made when asked for."""
        made: dict[int, Tensor] = {}

        def law(node: int) -> Tensor:
            if node not in made:
                path = tree.tokens_on(tree.path_to(node)[1:])
                made[node] = self.law(read.logits[node][None], drafted=[path])[0]
            return made[node]

        return law


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """Scores (…, V) with all below the k-th set to minus infinity; ties with it stay."""
    least = scores.topk(k, dim=-1).values[..., -1:]
    return scores.masked_fill(scores < least, -torch.inf)


def keep_top_p(scores: Tensor, p: float) -> Tensor:
    """The smallest set of tokens, most probable first, whose probabilities reach `p`.

    Of equally probable tokens the first ones are taken. Ranks no more tokens than it must: a
    vocabulary is long, and the set mostly short.
    """
    probs = scores.softmax(-1)
    values = _most_probable(probs, p)
    is_needed = values.cumsum(-1) - values < p  # the mass of the tokens ranked higher
    num_needed = is_needed.sum(-1, keepdim=True)
    least = values.gather(-1, num_needed - 1)
    kept = probs >= least
    if bool((kept.sum(-1, keepdim=True) > num_needed).any()):
        tied = probs == least
        num_tied = num_needed - (probs > least).sum(-1, keepdim=True)
        kept = (probs > least) | (tied & (tied.cumsum(-1) <= num_tied))
    return scores.masked_fill(~kept, -torch.inf)


def keep_min_p(scores: Tensor, min_p: float) -> Tensor:
    """Tokens at least `min_p` times as probable as the most probable one."""
    probs = scores.softmax(-1)
    return scores.masked_fill(probs < min_p * probs.amax(-1, keepdim=True), -torch.inf)


def most_probable(law: Tensor) -> int:
    """The token of largest probability in `law`, (V,); of equals the first.

    On a CPU numpy finds it ten times as fast as torch (49,152 tokens: 10 µs against 140).
    """
    return int(law.numpy().argmax() if law.device.type == "cpu" else law.argmax())


def without(law: Tensor, token: int) -> Tensor:
    """`law`, (V,), without `token` and scaled up to 1 again; all zero if nothing is left."""
    rest = law.clone()
    rest[token] = 0.0
    mass = rest.sum()
    return rest / mass if mass > 0 else rest


def _most_probable(probs: Tensor, p: float) -> Tensor:
    """The largest of `probs`, (…, V), in order, at least so many that every row reaches `p`."""
    size = FIRST_RANKED
    while True:
        values = probs.topk(min(size, probs.shape[-1]), dim=-1).values
        if size >= probs.shape[-1] or bool((values.cumsum(-1)[..., -1] >= p).all()):
            return values
        size *= 4

"""n-alpha: how often the n-th self-fed draft is the target's own greedy choice.

    step n, row i     input pair i already holds n estimated features; it drafts token i+2
    it is counted     where token i+2 is part of an answer, the n drafts before it agreed with the
                      target, and the text's last n tokens are the target's own greedy choices
    n-alpha               agreeing ÷ counted

Knows heads, batches and unembeddings. Knows nothing of files or optimisers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eagle_core.drafters.heads import Head
from eagle_core.targets.base import Target
from eagle_core.training.batches import Batch
from eagle_core.training.objectives import Unembedding
from eagle_core.training.unroll import unroll

NUM_ALPHAS = 5
UNEMBEDDING_ROWS = 512  # rows of logits over the whole vocabulary that exist at once


@dataclass(frozen=True)
class Alphas:
    """Agreeing and counted pairs per number of estimated features."""

    agreeing: tuple[int, ...]
    counted: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """0-alpha, 1-alpha, …; 0.0 where nothing was counted."""
        return tuple(a / c if c else 0.0 for a, c in zip(self.agreeing, self.counted, strict=True))

    @property
    def chain_length(self) -> float:
        """1 + 0-alpha + 0-alpha·1-alpha + …: about the τ of a greedy chain of this many drafts."""
        length, reached = 1.0, 1.0
        for share in self.shares:
            reached *= share
            length += reached
        return length


@dataclass(frozen=True, eq=False)
class Examined:
    """A validation batch with the target's greedy choices, which never change."""

    batch: Batch
    choices: Tensor  # (R,) int64, row i: the target's choice for token i+2


class Validator:
    """Held-out batches, examined once; gives the n-alphas of any head."""

    def __init__(self, batches: Iterable[Batch], target: Target, *, vocabulary: Tensor) -> None:
        whole = target.unembedding(dtype=torch.float32)
        self._examined = [Examined(b, greedy(b.next_features, whole)) for b in batches]
        self._embedding = target.embedding()
        self._vocabulary = vocabulary.to(target.spec.device)  # (V',)
        self._unembedding = target.unembedding(self._vocabulary, dtype=torch.float32)

    @torch.inference_mode()
    def alphas(self, head: Head, *, num_alphas: int = NUM_ALPHAS) -> Alphas:
        agreeing, counted = [0] * num_alphas, [0] * num_alphas
        for item in self._examined:
            drafting = item.batch.counts  # this row counts: all drafts before it agreed
            for step, drafts in enumerate(self._drafts(head, item.batch, num_alphas)):
                agrees = drafting & (drafts == item.choices)
                counted[step] += int(drafting.sum())
                agreeing[step] += int(agrees.sum())
                is_greedy = item.batch.follows == item.choices
                drafting = item.batch.counts & one_later(agrees & is_greedy, item.batch.lengths)
        return Alphas(tuple(agreeing), tuple(counted))

    def _drafts(self, head: Head, batch: Batch, num_steps: int) -> list[Tensor]:
        """Per step the head's first choice for token i+2, (R,)."""
        steps = unroll(head, batch, embedding=self._embedding, num_steps=num_steps)
        unembedding = head.lm_head or self._unembedding
        readable = (head.readable(estimates) for estimates in steps)
        return [self._vocabulary[greedy(rows, unembedding)] for rows in readable]


def greedy(features: Tensor, unembedding: Unembedding) -> Tensor:
    """The most probable token of every row, (R,), a few rows of logits at a time."""
    starts = range(0, len(features), UNEMBEDDING_ROWS)
    parts = [features[start : start + UNEMBEDDING_ROWS] for start in starts]
    with torch.inference_mode():
        return torch.cat([unembedding(part).argmax(-1) for part in parts])


def one_later(rows: Tensor, lengths: Sequence[int]) -> Tensor:
    """Row i becomes what row i - 1 of the same conversation was; its first becomes False."""
    later = rows.roll(1)
    starts = torch.tensor([0, *lengths[:-1]], device=rows.device).cumsum(0)
    later[starts] = False
    return later

"""Penalties for tokens that the text already has.

    prompt | answer ── root ── drafted path      repetition counts all of it
             └──── presence, frequency ────┘     the other two count what was answered

Knows logits and token counts. Knows nothing of trees: whoever asks hands in the node's own path.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.options import RunOptions
    from eagle_core.sequence import Sequence


@dataclass(frozen=True)
class Penalties:
    """How much less a token is wanted for having been used before.

    repetition: divides a positive logit and multiplies a negative one (CTRL, section 4.1).
    presence, frequency: subtracted once, and once per occurrence (OpenAI's API).
    """

    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0

    @classmethod
    def of(cls, options: RunOptions) -> Penalties:
        return cls(options.repetition_penalty, options.presence_penalty, options.frequency_penalty)

    @property
    def are_none(self) -> bool:
        return self == Penalties()

    def after(self, sequence: Sequence) -> PenalisedText:
        tokens, num_prompt = sequence.tokens, sequence.num_prompt_tokens
        prompt, answer = (
            torch.tensor(t, dtype=torch.int64) for t in (tokens[:num_prompt], tokens[num_prompt:])
        )
        return PenalisedText(self, prompt, answer)


@dataclass(frozen=True, eq=False)
class PenalisedText:
    """Penalties together with the committed text that they look at."""

    penalties: Penalties
    prompt: Tensor  # (P,) int64
    answer: Tensor  # (L,) int64

    def scores(
        self, logits: Tensor, *, drafted: Tokens[int] = (), vocabulary: Tensor | None = None
    ) -> Tensor:
        """Penalised logits (…, V') of the token after `drafted`, the path below the root.

        vocabulary: (V',) the token that each column stands for, None where column i is token i.
        """
        answered = torch.cat([self.answer, self.answer.new_tensor(drafted)])
        counts = occurrences(answered, logits, vocabulary)
        seen = (counts > 0) | (occurrences(self.prompt, logits, vocabulary) > 0)
        by, scores = self.penalties, logits
        if by.repetition != 1.0:
            repeated = torch.where(scores < 0, scores * by.repetition, scores / by.repetition)
            scores = torch.where(seen, repeated, scores)
        if by.presence or by.frequency:
            scores = scores - by.presence * counts.clamp_max(1) - by.frequency * counts
        return scores


def occurrences(tokens: Tensor, logits: Tensor, vocabulary: Tensor | None) -> Tensor:
    """How often the token of each column of `logits`, (…, V'), is among `tokens`: (V',) int64."""
    size = logits.shape[-1] if vocabulary is None else int(vocabulary.max()) + 1
    counts = torch.bincount(tokens, minlength=size).to(logits)
    return counts[:size] if vocabulary is None else counts[vocabulary]

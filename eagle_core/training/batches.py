"""Pack conversations into batches of pairs, with what each pair shall estimate.

A conversation of n tokens gives n - 2 pairs:

    pair i        feature i, token i+1   ─▶   last state i+1, hence the law of token i+2
    it counts     where token i+2 is part of an answer

A feature is whatever states of the target a head reads. The pair after the last of these would have
no token to be judged by. Rows of several conversations stand end to end, without padding; `lengths`
says where one ends. Knows corpora and features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eagle_core.targets.base import Taps
from eagle_core.training.corpus import Corpus
from eagle_core.training.feature_store import FeatureStore

MIN_TOKENS = 3  # a shorter conversation has no pair


@dataclass(frozen=True, eq=False)
class Batch:
    """R pairs of one or more conversations."""

    own_tokens: Tensor  # (R,) int64, row i: token i
    tokens: Tensor  # (R,) int64, row i: token i+1
    features: Tensor  # (R, K·D), row i: feature i
    next_features: Tensor  # (R, D), row i: the last state i+1, what pair i shall lead to
    counts: Tensor  # (R,) bool, row i: token i+2 is part of an answer
    follows: Tensor  # (R,) int64, row i: token i+2
    lengths: tuple[int, ...]  # pairs per conversation

    @property
    def num_pairs(self) -> int:
        return len(self.tokens)

    def tokens_at(self, offset: int) -> Tensor:
        """(R,), row i: token i + offset, of offsets 0 and 1."""
        return self.tokens if offset else self.own_tokens

    @property
    def positions(self) -> Tensor:
        """(R,), i for pair i of its conversation."""
        return torch.cat([torch.arange(n, device=self.tokens.device) for n in self.lengths])


def batch_of(
    corpus: Corpus,
    store: FeatureStore,
    conversations: Sequence[int],
    *,
    taps: Taps | None = None,
    device: torch.device | str = "cpu",
) -> Batch:
    """Pairs whose features are the states `taps`; by default the last state alone."""
    return joined([_pairs_of(corpus, store, each, taps) for each in conversations], device=device)


def joined(parts: Sequence[tuple[Tensor, ...]], *, device: torch.device | str) -> Batch:
    """One batch of the pairs of several texts; see `pairs`."""
    own_tokens, tokens, features, next_features, counts, follows = (
        torch.cat(column).to(device) for column in zip(*parts, strict=True)
    )
    lengths = tuple(len(part[0]) for part in parts)
    return Batch(own_tokens, tokens, features, next_features, counts, follows, lengths)


def _pairs_of(
    corpus: Corpus, store: FeatureStore, conversation: int, taps: Taps | None
) -> tuple[Tensor, ...]:
    rows = corpus.rows(conversation)
    tokens = torch.from_numpy(corpus.tokens[rows].astype(np.int64))
    answer = torch.from_numpy(corpus.answer[rows])
    features, last = store.rows(rows, taps=taps), store.rows(rows)
    return pairs(tokens, answer, features, last)


def pairs(tokens: Tensor, answer: Tensor, features: Tensor, last: Tensor) -> tuple[Tensor, ...]:
    """The columns of a `Batch` for one text of n tokens, all of them given for each token."""
    return tokens[:-2], tokens[1:-1], features[:-2], last[1:-1], answer[2:], tokens[2:]


def num_counted(corpus: Corpus, conversations: Sequence[int], *, num_fed: int = 0) -> int:
    """Rows of these conversations' batch that count, with `num_fed` rows of theirs before them."""
    answers = (corpus.answer[corpus.rows(number)] for number in conversations)
    return sum(int(answer[2 + num_fed :].sum()) for answer in answers)


def with_pairs(corpus: Corpus, conversations: Sequence[int]) -> tuple[int, ...]:
    """Those of the conversations that are long enough to have a pair."""
    return tuple(c for c in conversations if corpus.lengths[c] >= MIN_TOKENS)


def shuffled(conversations: Sequence[int], *, seed: int, epoch: int) -> list[int]:
    """The order of an epoch, a function of seed and epoch alone."""
    order = np.random.default_rng([seed, epoch]).permutation(len(conversations))
    return [conversations[place] for place in order]


def packed(
    corpus: Corpus, conversations: Sequence[int], *, batch_tokens: int
) -> Iterator[tuple[int, ...]]:
    """Cut the sequence into batches, each the fewest conversations with `batch_tokens` tokens."""
    batch: list[int] = []
    num_tokens = 0
    for conversation in conversations:
        batch.append(conversation)
        num_tokens += int(corpus.lengths[conversation])
        if num_tokens >= batch_tokens:
            yield tuple(batch)
            batch, num_tokens = [], 0
    if batch:
        yield tuple(batch)

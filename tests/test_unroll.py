"""An unroll over a text is what drafting from every position gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training_toys import (
    CONFIG,
    LENGTHS,
    ToyTarget,
    corpus_of,
    estimates_of,
    seeded_head,
)

from eagle_core.drafters.head import EagleHead
from eagle_core.drafters.layers import HeadCache
from eagle_core.training.batches import batch_of
from eagle_core.training.corpus import Corpus
from eagle_core.training.features import FeatureStore, compute_features


@pytest.fixture
def target() -> ToyTarget:
    return ToyTarget()


@pytest.fixture
def corpus() -> Corpus:
    return corpus_of(LENGTHS)


@pytest.fixture
def store(corpus: Corpus, target: ToyTarget, tmp_path: Path) -> FeatureStore:
    return compute_features(corpus, target, tmp_path / "features")


@pytest.fixture
def head() -> EagleHead:
    return seeded_head()


@torch.no_grad()
def test_an_unroll_for_some_rows_gives_these_rows_of_the_whole(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, head: EagleHead
) -> None:
    batch = batch_of(corpus, store, [0, 2])
    whole = estimates_of(head, batch, target, num_steps=3)
    some = estimates_of(head, batch, target, num_steps=3, wanted=batch.counts)
    for all_rows, rows in zip(whole, some, strict=True):
        torch.testing.assert_close(all_rows[batch.counts], rows, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_an_unroll_gives_what_the_cached_drafter_gives(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, head: EagleHead
) -> None:
    batch = batch_of(corpus, store, [0, 2])
    embeddings = target.weight[batch.tokens]
    steps = estimates_of(head, batch, target, num_steps=4)
    start = batch.lengths[0]
    for first in range(batch.lengths[1] - 3):
        true = slice(start, start + first + 1)
        cache = HeadCache(CONFIG, max_rows=32)
        estimate = head(
            embeddings[true], batch.features[true], positions=torch.arange(first + 1), cache=cache
        )[-1:]
        for step in range(4):
            row = start + first + step
            torch.testing.assert_close(steps[step][row], estimate[0], atol=1e-5, rtol=1e-4)
            after = torch.tensor([first + step + 1])
            if step < 3:
                estimate = head(embeddings[[row + 1]], estimate, positions=after, cache=cache)

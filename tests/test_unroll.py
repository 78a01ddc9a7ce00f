"""An unroll over a text is what drafting from every position gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from training_toys import (
    LENGTHS,
    ToyTarget,
    corpus_of,
    estimates_of,
    naive_of,
    seeded_head,
)

from eagle_core.drafters.head import INPUTS, EagleHead, Inputs
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
@pytest.mark.parametrize("inputs", INPUTS)
def test_an_unroll_gives_what_a_naive_chain_from_every_position_gives(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, inputs: Inputs
) -> None:
    head = seeded_head(inputs=inputs)
    naive = naive_of(head, target)
    batch = batch_of(corpus, store, [0, 2])
    steps = estimates_of(head, batch, target, num_steps=4)
    text = [int(batch.own_tokens[batch.lengths[0]]), *batch.tokens[batch.lengths[0] :].tolist()]
    features = batch.features[batch.lengths[0] :]
    for first in range(batch.lengths[1] - 3):
        for step in range(4):
            known, drafted = text[: first + 2], text[first + 2 : first + 2 + step]
            theirs = naive.logits(known, features[: first + 1], drafted)
            row = batch.lengths[0] + first + step
            ours = target.unembedding()(head.readable(steps[step][row]))
            torch.testing.assert_close(ours.double(), theirs, atol=1e-4, rtol=1e-4)

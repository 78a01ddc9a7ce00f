"""An unroll over a text is what drafting from every position gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from training_toys import (
    LENGTHS,
    ToyTarget,
    corpus_of,
    estimates_of,
    naive_of,
    seeded_eagle3,
    seeded_head,
)

from eagle_core.drafters.head import INPUTS, EagleHead
from eagle_core.drafters.heads import Head
from eagle_core.training.batches import batch_of
from eagle_core.training.corpus import Corpus
from eagle_core.training.feature_store import FeatureStore
from eagle_core.training.features import compute_features


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


HEADS: dict[str, Callable[[], Head]] = {
    **{inputs: partial(seeded_head, inputs=inputs) for inputs in INPUTS},
    "eagle3": seeded_eagle3,
}


@torch.no_grad()
@pytest.mark.parametrize("kind", HEADS)
def test_an_unroll_gives_what_a_naive_chain_from_every_position_gives(
    corpus: Corpus, target: ToyTarget, tmp_path: Path, kind: str
) -> None:
    head = HEADS[kind]()
    naive, taps = naive_of(head, target), head.taps(2)
    store = compute_features(corpus, target, tmp_path, taps=(0, 1, 2))
    batch = batch_of(corpus, store, [0, 2], taps=taps)
    steps = estimates_of(head, batch, target, num_steps=4)
    read = head.lm_head or target.unembedding()
    start = batch.lengths[0]
    text = [int(batch.own_tokens[start]), *batch.tokens[start:].tolist()]
    for first in range(batch.lengths[1] - 3):
        true = batch.features[start : start + first + 1]
        for step in range(4):
            drafted = text[first + 2 : first + 2 + step]
            theirs = naive.logits(text[: first + 2], true, drafted)
            ours = read(head.readable(steps[step][start + first + step]))
            torch.testing.assert_close(ours.double(), theirs, atol=1e-4, rtol=1e-4)

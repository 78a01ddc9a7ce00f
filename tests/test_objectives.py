"""What pairs aim at, what counts in the loss, and what batches hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from training_toys import (
    LENGTHS,
    D,
    ToyTarget,
    V,
    corpus_of,
    estimates_of,
    seeded_head,
)

from eagle_core.drafters.head import EagleHead
from eagle_core.errors import OptionError
from eagle_core.training import objectives
from eagle_core.training.batches import batch_of, packed, shuffled, with_pairs
from eagle_core.training.corpus import Corpus
from eagle_core.training.feature_store import FeatureStore
from eagle_core.training.features import compute_features
from eagle_core.training.objectives import LossWeights, loss_of, with_noise
from eagle_core.training.settings import TrainingSettings, rate_at


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


def test_pair_i_joins_feature_i_with_token_i_plus_1_and_aims_at_feature_i_plus_1(
    corpus: Corpus, target: ToyTarget, store: FeatureStore
) -> None:
    batch = batch_of(corpus, store, [2])
    tokens = torch.from_numpy(corpus.tokens[corpus.rows(2)].astype(np.int64))
    answer = torch.from_numpy(corpus.answer[corpus.rows(2)])
    features = target.features(tokens)
    assert batch.num_pairs == LENGTHS[2] - 2
    for pair in range(batch.num_pairs):
        near = {"atol": 1e-3, "rtol": 1e-3}
        assert batch.tokens[pair] == tokens[pair + 1]
        torch.testing.assert_close(batch.features[pair], features[pair], **near)
        torch.testing.assert_close(batch.next_features[pair], features[pair + 1], **near)
        assert batch.follows[pair] == tokens[pair + 2]
        assert batch.counts[pair] == answer[pair + 2]


def test_the_loss_is_least_for_the_feature_one_step_ahead(
    corpus: Corpus, target: ToyTarget, store: FeatureStore
) -> None:
    """A planted head that knows the recurrence: f[i+1] = tanh(mix · f[i] + e[i+1])."""
    batch = batch_of(corpus, store, [0, 2, 5])
    planted = torch.tanh(batch.features @ target.mix.T + target.weight[batch.tokens])
    weights = LossWeights(token=1.0)
    unembedding = target.unembedding()
    counts = batch.counts
    with_step = loss_of([planted[counts]], batch, unembedding=unembedding, weights=weights)
    assert with_step.feature < 1e-5
    for shift in (-1, 1):
        shifted = loss_of(
            [planted.roll(shift, 0)[counts]], batch, unembedding=unembedding, weights=weights
        )
        assert shifted.feature > 0.1
        assert shifted.token > with_step.token + 0.1


def test_pairs_outside_answers_teach_nothing(
    corpus: Corpus, target: ToyTarget, store: FeatureStore, head: EagleHead
) -> None:
    """The loss does not look at them: other targets there, same loss."""
    batch = batch_of(corpus, store, [2, 5])
    elsewhere = torch.where(batch.counts[:, None], batch.next_features, 100.0)
    changed = dataclasses.replace(batch, next_features=elsewhere)
    losses = [
        loss_of(
            estimates_of(head, part, target, num_steps=2, wanted=part.counts),
            part,
            unembedding=target.unembedding(),
            weights=LossWeights(),
        ).total
        for part in (batch, changed)
    ]
    assert torch.equal(*losses)


def test_the_first_rows_of_a_self_fed_step_teach_nothing(
    corpus: Corpus, target: ToyTarget, store: FeatureStore
) -> None:
    batch = batch_of(corpus, store, [2, 5])
    batch = dataclasses.replace(batch, counts=torch.ones_like(batch.counts))
    perfect = batch.next_features
    unfed = torch.where((batch.positions == 0)[:, None], perfect + 9.0, perfect)
    options = {"unembedding": target.unembedding(), "weights": LossWeights()}
    assert loss_of([perfect, unfed], batch, **options).feature == 0.0
    assert loss_of([unfed, perfect], batch, **options).feature > 0.0


@pytest.mark.parametrize("has_own_rows", [False, True])
def test_sliced_cross_entropy_and_its_gradients_are_those_of_the_whole(
    corpus: Corpus,
    target: ToyTarget,
    store: FeatureStore,
    monkeypatch: pytest.MonkeyPatch,
    has_own_rows: bool,
) -> None:
    monkeypatch.setattr(objectives, "SLICE_ROWS", 3)
    monkeypatch.setattr(objectives, "OWN_SLICE_ROWS", 4)
    batch, draw = batch_of(corpus, store, [2, 5]), torch.Generator().manual_seed(1)
    num_rows = int(batch.counts.sum())
    estimates = torch.randn(2, num_rows, D, generator=draw).requires_grad_()
    rows = torch.randn(V, D, generator=draw).requires_grad_(has_own_rows)
    weights = LossWeights(feature=0.0, token=1.0, step_decay=0.5)
    read = target.unembedding()
    own_rows = rows if has_own_rows else None
    sliced = loss_of(list(estimates), batch, unembedding=read, weights=weights, own_rows=own_rows)
    law = read(batch.next_features[batch.counts]).softmax(-1)
    logits = F.linear(estimates, rows if has_own_rows else target.weight)
    each = -(law * logits.log_softmax(-1)).sum(-1)  # (S, R)
    valid = batch.positions[batch.counts] >= torch.arange(2)[:, None]
    means = (each * valid).sum(-1) / valid.sum(-1)
    whole = (means[0] + 0.5 * means[1]) / 1.5
    torch.testing.assert_close(sliced.total, whole)
    leaves = [estimates, rows] if has_own_rows else [estimates]
    ours, theirs = (torch.autograd.grad(loss, leaves) for loss in (sliced.total, whole))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_noise_has_the_papers_range_or_the_codes(corpus: Corpus, store: FeatureStore) -> None:
    batch = batch_of(corpus, store, [2, 5])
    draw = torch.Generator().manual_seed(0)
    assert with_noise(batch, noise="none", generator=draw) is batch
    paper = with_noise(batch, noise="paper", generator=draw).features - batch.features
    assert 0.09 < paper.abs().max() <= 0.1001
    code = with_noise(batch, noise="code", generator=draw).features - batch.features
    limit = 0.1 * 512 / batch.lengths[1]
    assert 0.9 * limit < code[batch.lengths[0] :].abs().max() <= limit + 1e-4


def test_batches_hold_every_conversation_once_in_an_order_of_seed_and_epoch(
    corpus: Corpus,
) -> None:
    usable = with_pairs(corpus, range(len(LENGTHS)))
    assert 3 not in usable  # two tokens: no pair
    order = shuffled(usable, seed=1, epoch=2)
    assert order == shuffled(usable, seed=1, epoch=2)
    assert order != shuffled(usable, seed=1, epoch=3)
    batches = list(packed(corpus, order, batch_tokens=12))
    assert [c for batch in batches for c in batch] == order
    assert all(corpus.lengths[list(batch)].sum() >= 12 for batch in batches[:-1])


def test_the_learning_rate_rises_then_falls_to_zero() -> None:
    rates = [rate_at(share, warmup_share=0.1) for share in (0.05, 0.1, 0.55, 1.0)]
    assert rates == pytest.approx([0.5, 1.0, 0.5, 0.0])


@pytest.mark.parametrize(
    "settings", [{}, {"num_steps": 1, "minutes": 1.0}, {"num_steps": 1, "learning_rate": 0.0}]
)
def test_settings_that_make_no_run_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        TrainingSettings(**settings)

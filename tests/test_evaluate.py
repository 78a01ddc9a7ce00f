"""n-alpha as it is defined; perfect and hopeless heads."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from training_toys import (
    ALL_TOKENS,
    CONFIG,
    LENGTHS,
    ToyTarget,
    V,
    corpus_of,
)

from eagle_core.drafters.head import EagleHead
from eagle_core.training.batches import batch_of
from eagle_core.training.corpus import Corpus
from eagle_core.training.evaluate import Validator, one_later
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


def chain_counts(
    agrees: list[list[bool]], greedy_text: list[bool]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """n-alpha's definition, read off one chain at a time."""
    num_steps, num_rows = len(agrees), len(greedy_text)
    counted, agreeing = [0] * num_steps, [0] * num_steps
    for row in range(num_rows):
        for step in range(num_steps):
            earlier = range(step)
            start = row - step
            if start < 0:
                continue
            if all(agrees[j][start + j] and greedy_text[start + j] for j in earlier):
                counted[step] += 1
                agreeing[step] += agrees[step][row]
    return tuple(agreeing), tuple(counted)


def test_n_alpha_is_counted_as_it_is_defined(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = 2
    batch = batch_of(corpus, store, [conversation])
    batch = dataclasses.replace(batch, counts=torch.ones_like(batch.counts))
    choices = target.unembedding()(batch.next_features).argmax(-1)
    draw = np.random.default_rng(5)
    greedy_text = (draw.random(batch.num_pairs) < 0.9).tolist()
    follows = torch.where(torch.tensor(greedy_text), choices, (choices + 1) % V)
    batch = dataclasses.replace(batch, follows=follows)
    agrees = (draw.random((5, batch.num_pairs)) < 0.9).tolist()
    drafts = [torch.where(torch.tensor(row), choices, (choices + 1) % V) for row in agrees]
    validator = Validator([batch], target, vocabulary=ALL_TOKENS)
    monkeypatch.setattr(validator, "_drafts", lambda *_: drafts)
    alphas = validator.alphas(EagleHead(CONFIG))
    assert (alphas.agreeing, alphas.counted) == chain_counts(agrees, greedy_text)
    assert alphas.counted[4] > 0


def test_a_perfect_head_has_every_alpha_at_one_and_a_hopeless_one_at_zero(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(corpus, store, [0, 2, 5])
    choices = target.unembedding()(batch.next_features).argmax(-1)
    greedy_text = dataclasses.replace(batch, follows=choices)
    validator = Validator([greedy_text], target, vocabulary=ALL_TOKENS)

    def estimates(*_: object, num_steps: int, **__: object) -> list[Tensor]:
        return [batch.next_features] * num_steps

    monkeypatch.setattr("eagle_core.training.evaluate.unroll", estimates)
    perfect = validator.alphas(EagleHead(CONFIG))
    assert perfect.shares == (1.0,) * 5
    assert perfect.chain_length == 6.0
    monkeypatch.setattr(
        "eagle_core.training.evaluate.unroll",
        lambda *_, num_steps, **__: [-batch.next_features] * num_steps,
    )
    hopeless = validator.alphas(EagleHead(CONFIG))
    assert hopeless.shares[0] == 0.0
    assert hopeless.counted[1:] == (0,) * 4
    assert hopeless.chain_length == 1.0


def test_rows_move_one_later_within_their_conversation() -> None:
    rows = torch.tensor([True, False, True, True, True])
    assert one_later(rows, (3, 2)).tolist() == [False, True, False, False, True]

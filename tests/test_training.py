"""The trainer on seeded toys: alignment, n-alpha, resuming, and a loss that falls."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from eagle_core.drafters.head import EagleHead, HeadCache, HeadConfig
from eagle_core.drafters.heads import load_head
from eagle_core.errors import CorpusError, OptionError
from eagle_core.targets.base import TargetRead, TargetSpec
from eagle_core.training.batches import Batch, batch_of, packed, shuffled, with_pairs
from eagle_core.training.checkpoint import CHECKPOINT, RunFolder
from eagle_core.training.corpus import Corpus, draft_vocabulary, load_corpus, split
from eagle_core.training.evaluate import Validator, one_later
from eagle_core.training.export import Provenance, export_head
from eagle_core.training.features import INDEX, ROWS, FeatureStore, compute_features
from eagle_core.training.files import write_atomically
from eagle_core.training.loop import Trainer, TrainingData
from eagle_core.training.objectives import LossWeights, loss_of, with_noise
from eagle_core.training.settings import Intervals, TrainingSettings, rate_at
from eagle_core.training.unroll import unroll

V, D = 40, 16
CONFIG = HeadConfig(
    width=D,
    num_heads=2,
    num_kv_heads=1,
    head_dim=8,
    intermediate_size=24,
    vocab_size=V,
    max_positions=64,
    target="toy",
)
ALL_TOKENS = torch.arange(V)
LENGTHS = (9, 3, 14, 2, 6, 11, 8, 5)


class ToyTarget:
    """Features are a causal mix of embeddings, so that they can be learned; no transformer."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        self.weight = torch.randn(V, D, generator=draw)
        self.mix = torch.randn(D, D, generator=draw) / 4
        self.num_prefills = 0
        self.spec = TargetSpec(
            name="toy",
            vocab_size=V,
            width=D,
            num_layers=2,
            max_positions=64,
            end_tokens=frozenset({0}),
            dtype=torch.float32,
            device=torch.device("cpu"),
        )

    def embedding(self) -> Callable[[Tensor], Tensor]:
        return lambda tokens: self.weight[tokens]

    def unembedding(self, tokens: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        weight = self.weight if tokens is None else self.weight[tokens]
        return lambda features: features @ weight.T

    def open(self) -> ToyTarget:
        return self

    def features(self, tokens: Tensor) -> Tensor:
        rows = []
        state = torch.zeros(D)
        for token in tokens:
            state = torch.tanh(self.mix @ state + self.weight[token])
            rows.append(state)
        return torch.stack(rows)

    def prefill(self, tokens: Tensor, *, taps: Sequence[int]) -> TargetRead:
        assert tuple(taps) == (2,)
        self.num_prefills += 1
        features = self.features(tokens)
        return TargetRead(self.unembedding()(features[-1:]), features)


def corpus_of(lengths: Sequence[int], *, seed: int = 0) -> Corpus:
    draw = np.random.default_rng(seed)
    total = sum(lengths)
    answer = np.concatenate([np.arange(n) >= n // 2 for n in lengths])
    tokens = draw.integers(1, V, total).astype(np.uint16)
    return Corpus(tokens, answer, np.array(lengths, dtype=np.int32), digest=f"toy {seed}")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Toys are too small to share, and other work may hold the other cores."""
    earlier = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(earlier)


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
    torch.manual_seed(0)
    return EagleHead(CONFIG)


# corpus


def save_corpus(path: Path, **arrays: np.ndarray) -> Path:
    whole = {
        "tokens": np.array([1, 2, 3, 2, 3], dtype=np.uint16),
        "answer": np.array([0, 1, 1, 0, 1], dtype=np.uint8),
        "lengths": np.array([3, 2], dtype=np.int32),
    }
    np.savez(path, **(whole | arrays))
    return path


def test_a_corpus_file_is_read_with_its_conversations(tmp_path: Path) -> None:
    corpus = load_corpus(save_corpus(tmp_path / "c.npz"), vocab_size=V)
    assert (corpus.num_tokens, corpus.num_conversations) == (5, 2)
    assert corpus.tokens[corpus.rows(1)].tolist() == [2, 3]
    assert [corpus.num_conversations_within(n) for n in (2, 3, 4, 5)] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"lengths": np.array([3, 3])}, "lengths that add up to 6"),
        ({"lengths": np.array([5, 0])}, "lengths that add up to 5"),
        ({"tokens": np.array([1, 2, 3, 2, V])}, f"ids from 1 to {V}; expected ids below {V}"),
        ({"tokens": np.zeros(5)}, "1-dimensional float64; expected one dimension of integers"),
    ],
)
def test_a_corpus_that_does_not_add_up_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], said: str
) -> None:
    with pytest.raises(CorpusError, match=said):
        load_corpus(save_corpus(tmp_path / "c.npz", **arrays), vocab_size=V)


def test_a_damaged_or_absent_corpus_ends_in_one_sentence(tmp_path: Path) -> None:
    path = save_corpus(tmp_path / "c.npz")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(CorpusError, match=r"c\.npz cannot be read"):
        load_corpus(path, vocab_size=V)
    with pytest.raises(CorpusError, match="no corpus at"):
        load_corpus(tmp_path / "none.npz", vocab_size=V)


def test_every_twentieth_conversation_is_held_out() -> None:
    parts = split(41)
    assert parts.validation == (19, 39)
    assert sorted(parts.training + parts.validation) == list(range(41))


def test_the_draft_vocabulary_counts_answers_of_the_chosen_conversations_only() -> None:
    tokens = np.array([9, 9, 9, 5, 5, 7, 3, 3, 3, 3], dtype=np.uint16)
    answer = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1, 1], dtype=bool)
    corpus = Corpus(tokens, answer, np.array([6, 4]), digest="")
    vocabulary = draft_vocabulary(corpus, [0], size=1, vocab_size=V)
    assert vocabulary.tokens.tolist() == [5]
    assert vocabulary.coverage == pytest.approx(2 / 3)
    both = draft_vocabulary(corpus, [0, 1], size=2, vocab_size=V)
    assert both.tokens.tolist() == [3, 5]


# features


def test_features_resumed_after_a_kill_equal_those_of_one_run(
    corpus: Corpus, target: ToyTarget, tmp_path: Path
) -> None:
    compute_features(corpus, target, tmp_path / "whole")
    compute_features(corpus, target, tmp_path / "parts", max_tokens=13, flush_tokens=4)
    with (tmp_path / "parts" / ROWS).open("ab") as rows:
        rows.write(b"half a stretch that the index does not know of")
    compute_features(corpus, target, tmp_path / "parts", flush_tokens=4)
    for name in (ROWS, INDEX):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_finished_features_are_not_computed_again(
    corpus: Corpus, target: ToyTarget, tmp_path: Path
) -> None:
    compute_features(corpus, target, tmp_path)
    num_prefills = target.num_prefills
    compute_features(corpus, target, tmp_path)
    assert target.num_prefills == num_prefills == len(LENGTHS)


def test_features_are_the_targets_own_conversation_by_conversation(
    corpus: Corpus, target: ToyTarget, store: FeatureStore
) -> None:
    tokens = torch.from_numpy(corpus.tokens[corpus.rows(2)].astype(np.int64))
    torch.testing.assert_close(
        store.rows(corpus.rows(2)), target.features(tokens), atol=1e-3, rtol=1e-3
    )


def test_features_of_another_corpus_or_target_are_refused(
    corpus: Corpus, target: ToyTarget, store: FeatureStore, tmp_path: Path
) -> None:
    folder = tmp_path / "features"
    with pytest.raises(CorpusError, match="corpus toy 0; expected toy 1"):
        FeatureStore(folder, corpus=corpus_of(LENGTHS, seed=1), spec=target.spec)
    other = dataclasses.replace(target.spec, name="other")
    with pytest.raises(CorpusError, match="target toy; expected other"):
        FeatureStore(folder, corpus=corpus, spec=other)
    (folder / ROWS).write_bytes(b"short")
    with pytest.raises(CorpusError, match="shorter than its index says"):
        FeatureStore(folder, corpus=corpus, spec=target.spec)


def test_a_full_disk_is_said_in_one_sentence_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("sound")

    def fill(staged: Path) -> None:
        staged.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CorpusError, match="the disk is full"):
        write_atomically(path, fill)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "sound"


# alignment


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


def test_noise_has_the_papers_range_or_the_codes(corpus: Corpus, store: FeatureStore) -> None:
    batch = batch_of(corpus, store, [2, 5])
    draw = torch.Generator().manual_seed(0)
    assert with_noise(batch, noise="none", generator=draw) is batch.features
    paper = with_noise(batch, noise="paper", generator=draw) - batch.features
    assert 0.09 < paper.abs().max() <= 0.1001
    code = with_noise(batch, noise="code", generator=draw) - batch.features
    limit = 0.1 * 512 / batch.lengths[1]
    assert 0.9 * limit < code[batch.lengths[0] :].abs().max() <= limit + 1e-4


# unrolling


def estimates_of(
    head: EagleHead,
    batch: Batch,
    target: ToyTarget,
    *,
    num_steps: int,
    wanted: Tensor | None = None,
) -> list[Tensor]:
    return unroll(
        head,
        target.weight[batch.tokens],
        batch.features,
        lengths=batch.lengths,
        positions=batch.positions,
        num_steps=num_steps,
        wanted=wanted,
    )


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


# n-alpha


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


# batches and schedule


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


# the loop


SETTINGS = TrainingSettings(
    num_steps=24, batch_tokens=20, learning_rate=3e-3, self_fed_steps=1, seed=4
)


def trainer_in(
    folder: Path,
    corpus: Corpus,
    store: FeatureStore,
    target: ToyTarget,
    *,
    settings: TrainingSettings = SETTINGS,
) -> Trainer:
    torch.manual_seed(settings.seed)
    held_out = [batch_of(corpus, store, [len(LENGTHS) - 1])]
    return Trainer(
        EagleHead(CONFIG),
        target,
        TrainingData(corpus, store, range(len(LENGTHS) - 1), ALL_TOKENS),
        RunFolder(folder),
        settings=settings,
        intervals=Intervals(log=2, validation=6, checkpoint=5),
        validator=Validator(held_out, target, vocabulary=ALL_TOKENS),
    )


class KilledError(Exception):
    """Stands for SIGKILL: nothing is saved on the way out."""


def test_a_killed_and_resumed_run_gives_the_same_weights_and_curve_to_the_bit(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, tmp_path: Path
) -> None:
    whole = trainer_in(tmp_path / "whole", corpus, store, target)
    whole.run()
    killed = trainer_in(tmp_path / "parts", corpus, store, target)
    step = killed._step

    def step_or_die(conversations: Sequence[int]) -> object:
        if killed.progress.step == 13:
            raise KilledError
        return step(conversations)

    killed._step = step_or_die  # type: ignore[assignment,method-assign]
    with pytest.raises(KilledError):
        killed.run()
    resumed = trainer_in(tmp_path / "parts", corpus, store, target)
    resumed.run()
    assert resumed.progress.step == whole.progress.step == 24
    for name, weight in whole.head.state_dict().items():
        assert torch.equal(weight, resumed.head.state_dict()[name]), name
    timeless = ("step", "tokens", "loss", "alphas", "epoch", "learning_rate")
    curves = [
        [{key: row[key] for key in timeless if key in row} for row in run.folder.curve()]
        for run in (whole, resumed)
    ]
    assert curves[0] == curves[1]


def test_a_run_does_not_go_on_under_other_settings(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, tmp_path: Path
) -> None:
    short = dataclasses.replace(SETTINGS, num_steps=2)
    trainer_in(tmp_path, corpus, store, target, settings=short).run()
    with pytest.raises(CorpusError, match=r"other settings \(num_steps\); expected num_steps 2"):
        trainer_in(tmp_path, corpus, store, target).run()


def test_a_damaged_checkpoint_ends_in_one_sentence(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, tmp_path: Path
) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"PK not a checkpoint")
    with pytest.raises(CorpusError, match="cannot be read"):
        trainer_in(tmp_path, corpus, store, target).run()


def test_training_lowers_the_loss_and_the_export_can_be_loaded(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, tmp_path: Path
) -> None:
    settings = TrainingSettings(num_steps=120, batch_tokens=30, learning_rate=1e-2)
    trainer = trainer_in(tmp_path / "run", corpus, store, target, settings=settings)
    trainer.run()
    curve = trainer.folder.curve()
    losses = [row["loss"] for row in curve if "loss" in row]
    assert losses[-1] < 0.7 * losses[0]
    state = trainer.folder.load_checkpoint()
    assert state is not None
    validator = trainer._validator
    assert validator is not None
    export_head(
        tmp_path / "head",
        trainer.head,
        vocabulary=torch.tensor([1, 4, 9]),
        alphas=validator.alphas(trainer.head),
        state=state,
        curve=curve,
        provenance=Provenance(
            target="toy",
            command="python -m eagle_core.training train --steps 120",
            machine="a toy machine",
            corpus="toy.npz",
            corpus_digest=corpus.digest,
            num_conversations=7,
            num_tokens=50,
            num_held_out=1,
            vocabulary_coverage=0.5,
            about_corpus="Random tokens.",
        ),
    )
    loaded = load_head(tmp_path / "head", spec=target.spec)
    assert loaded.vocabulary is not None
    assert loaded.vocabulary.tolist() == [1, 4, 9]
    record = json.loads((tmp_path / "head" / "training.json").read_text())
    assert record["progress"]["step"] == 120
    assert "120 steps" in (tmp_path / "head" / "README.md").read_text()

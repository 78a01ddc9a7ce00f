"""EAGLE-3 heads: what they begin with, trained, resumed, exported, and drafting as trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from training_toys import (
    LENGTHS,
    ToyTarget,
    V,
    corpus_of,
    saved_corpus,
    seeded_eagle3,
    stand_in_llama,
)

from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.eagle3 import Eagle3Head
from eagle_core.drafters.heads import load_head, save_head
from eagle_core.options import RunOptions
from eagle_core.plans import chain
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.training.__main__ import main
from eagle_core.training.batches import batch_of
from eagle_core.training.checkpoint import RunFolder
from eagle_core.training.corpus import load_corpus
from eagle_core.training.evaluate import Validator
from eagle_core.training.feature_store import FeatureStore
from eagle_core.training.features import compute_features
from eagle_core.training.feed import TrainingData
from eagle_core.training.loop import Trainer
from eagle_core.training.methods import fit_to_target
from eagle_core.training.objectives import LossWeights
from eagle_core.training.settings import Intervals, Precision, TrainingSettings
from eagle_core.training.unroll import unroll

DRAFTED = torch.arange(0, V, 2)


@pytest.fixture
def target() -> ToyTarget:
    return ToyTarget()


@pytest.fixture
def store(target: ToyTarget, tmp_path: Path) -> FeatureStore:
    return compute_features(corpus_of(LENGTHS), target, tmp_path / "features", taps=(0, 1, 2))


def trainer_in(
    folder: Path,
    store: FeatureStore,
    target: ToyTarget,
    *,
    num_steps: int = 120,
    precision: Precision = "float32",
) -> Trainer:
    corpus = corpus_of(LENGTHS)
    head = seeded_eagle3(num_drafted=len(DRAFTED))
    fit_to_target(head, target, store, DRAFTED)
    held_out = [batch_of(corpus, store, [len(LENGTHS) - 1], taps=head.taps(2))]
    return Trainer(
        head,
        target,
        TrainingData(corpus, store, range(len(LENGTHS) - 1), DRAFTED),
        RunFolder(folder),
        settings=TrainingSettings(
            num_steps=num_steps,
            batch_tokens=30,
            learning_rate=1e-2,
            noise="none",
            precision=precision,
            weights=LossWeights(feature=0.0, token=1.0, step_decay=0.8),
            self_fed_steps=2,
        ),
        intervals=Intervals(log=1, validation=20, checkpoint=10),
        validator=Validator(held_out, target, vocabulary=DRAFTED),
    )


def losses_of(trainer: Trainer) -> list[float]:
    return [row["loss"] for row in trainer.folder.curve() if "loss" in row]


def test_a_new_head_begins_with_the_targets_rows_and_columns_of_one_size(
    store: FeatureStore, target: ToyTarget
) -> None:
    head = seeded_eagle3(num_drafted=len(DRAFTED))
    fit_to_target(head, target, store, DRAFTED)
    assert head.lm_head is not None
    torch.testing.assert_close(head.lm_head.weight, target.weight[DRAFTED], atol=1e-5, rtol=1e-5)
    assert head.input_norm is not None
    tapped = store.rows(slice(1, 60), taps=(0, 1))
    before, after = (rows.abs().median(0).values for rows in (tapped, head.input_norm(tapped)))
    assert before.max() / before.min() > 30
    assert after.max() / after.min() < 2


@torch.no_grad()
def test_a_new_head_makes_of_tapped_states_what_comes_near_the_last(
    store: FeatureStore, target: ToyTarget
) -> None:
    head, rows = seeded_eagle3(num_drafted=len(DRAFTED)), slice(1, 60)
    wanted = store.rows(rows)

    def distance() -> float:
        return float((head.readable(head.fuse(store.rows(rows, taps=(0, 1)))) - wanted).norm())

    before = distance()
    fit_to_target(head, target, store, DRAFTED)
    assert distance() < before / 2


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_lowers_the_loss_of_every_weight_that_there_is(
    store: FeatureStore, target: ToyTarget, tmp_path: Path, precision: Precision
) -> None:
    trainer = trainer_in(tmp_path / "run", store, target, precision=precision)
    before = {name: weight.clone() for name, weight in trainer.head.state_dict().items()}
    trainer.run()
    losses = losses_of(trainer)
    assert sum(losses[-7:]) < 0.8 * sum(losses[:7])
    unmoved = [n for n, w in trainer.head.state_dict().items() if torch.equal(w, before[n])]
    assert unmoved == []


def test_a_resumed_run_gives_the_weights_of_one_that_was_not_killed(
    store: FeatureStore, target: ToyTarget, tmp_path: Path
) -> None:
    whole = trainer_in(tmp_path / "whole", store, target, num_steps=24)
    whole.run()
    killed = trainer_in(tmp_path / "parts", store, target, num_steps=24)
    killed.share_done = lambda: 1.0 if killed.progress.step == 10 else killed.progress.step / 24  # type: ignore[method-assign]
    killed.run()
    resumed = trainer_in(tmp_path / "parts", store, target, num_steps=24)
    resumed.run()
    assert resumed.progress.step == 24
    for name, weight in whole.head.state_dict().items():
        assert torch.equal(weight, resumed.head.state_dict()[name]), name


def test_an_exported_head_drafts_what_training_saw_at_the_same_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = stand_in_llama(monkeypatch, num_layers=7)
    shared = ["--corpus", str(saved_corpus(tmp_path))]
    last, tapped = str(tmp_path / "last"), str(tmp_path / "tapped")
    assert main(["features", *shared, "--features", last]) == 0
    assert main(["features", *shared, "--features", tapped, "--taps", "2", "3", "4"]) == 0
    run = ["--run", str(tmp_path / "run"), "--head", str(tmp_path / "head"), "--steps", "8"]
    run += ["--features", last, tapped, "--draft-vocabulary", "30", "--method", "eagle3"]
    assert main(["train", *shared, *run]) == 0
    loaded = load_head(tmp_path / "head", spec=target.spec)
    assert isinstance(loaded.head, Eagle3Head)
    assert loaded.taps == (2, 3, 4)
    assert loaded.vocabulary is not None
    corpus = load_corpus(tmp_path / "toy.npz", vocab_size=V)
    store = FeatureStore(Path(last), Path(tapped), corpus=corpus, spec=target.spec)
    batch = batch_of(corpus, store, [2], taps=loaded.taps)
    text = torch.from_numpy(corpus.tokens[corpus.rows(2)].astype("int64"))
    drafter = EagleDrafter(
        loaded.head,
        target.spec,
        embedding=target.embedding(),
        unembedding=loaded.unembedding(target.unembedding),
        vocabulary=loaded.vocabulary,
    )
    for num_known in range(4, len(text) - 2):
        lane = target.open()
        drafter.begin(text[:num_known], lane.prefill(text[:num_known], taps=drafter.taps))
        laws, chance = LawMaker(RunOptions()), SeededChance(0)
        tree = drafter.grow_tree(int(text[num_known]), plan=chain(1), laws=laws, chance=chance)
        with torch.no_grad():
            steps = unroll(loaded.head, batch, embedding=target.embedding())
            trained = loaded.head.lm_head(loaded.head.readable(steps[0][num_known - 1]))
        best = trained.log_softmax(-1).max(-1)
        assert tree.tokens[1] == loaded.vocabulary[best.indices]
        assert tree.log_probs[1] == pytest.approx(float(best.values), abs=2e-3)
    record = json.loads((tmp_path / "head" / "training.json").read_text())
    assert record["settings"]["self_fed_steps"] == 4
    card = (tmp_path / "head" / "README.md").read_text()
    assert "# EAGLE-3 head" in card
    assert "layers 2, 3, 4" in card


def test_features_without_the_tapped_states_end_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in_llama(monkeypatch, num_layers=7)
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "last")]
    main(["features", *shared])
    assert main(["train", *shared, "--method", "eagle3", "--run", str(tmp_path / "run")]) == 1
    assert capsys.readouterr().err.endswith(
        "into another folder, and both folders after --features\n"
    )


def test_a_run_begins_with_a_head_only_if_both_draft_the_same_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, first = stand_in_llama(monkeypatch, num_layers=7).spec, tmp_path / "first"
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "features")]
    shared += ["--method", "eagle3"]
    run = ["train", *shared, "--draft-vocabulary", "30", "--steps", "1", "--held-out", "1"]
    assert main(["features", *shared]) == 0
    assert main([*run, "--run", str(tmp_path / "a"), "--head", str(first)]) == 0
    begin = ["--start-from", str(first)]
    assert main([*run, "--run", str(tmp_path / "b"), *begin]) == 0
    loaded = load_head(first, spec=spec)
    assert loaded.vocabulary is not None
    save_head(first, loaded.head, vocabulary=loaded.vocabulary.flip(0))
    assert main([*run, "--run", str(tmp_path / "c"), *begin]) == 1
    said = capsys.readouterr().err
    assert "for other tokens than this run drafts; expected the 30 tokens of this run" in said

"""Whole runs: killed and resumed, refused, exported, and from the command line."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from training_toys import (
    ALL_TOKENS,
    CONFIG,
    LENGTHS,
    ToyTarget,
    corpus_of,
    saved_corpus,
    stand_in_llama,
)

from eagle_core.drafters.head import INPUTS, EagleHead
from eagle_core.drafters.heads import load_head
from eagle_core.errors import CorpusError
from eagle_core.targets.hf import HfTarget
from eagle_core.training.__main__ import main
from eagle_core.training.batches import batch_of
from eagle_core.training.card import READS
from eagle_core.training.checkpoint import CHECKPOINT, RunFolder
from eagle_core.training.corpus import Corpus
from eagle_core.training.evaluate import Validator
from eagle_core.training.export import Provenance, export_head
from eagle_core.training.feature_store import FeatureStore
from eagle_core.training.features import compute_features
from eagle_core.training.feed import TrainingData
from eagle_core.training.loop import Trainer
from eagle_core.training.settings import Intervals, TrainingSettings


@pytest.fixture
def target() -> ToyTarget:
    return ToyTarget()


@pytest.fixture
def corpus() -> Corpus:
    return corpus_of(LENGTHS)


@pytest.fixture
def store(corpus: Corpus, target: ToyTarget, tmp_path: Path) -> FeatureStore:
    return compute_features(corpus, target, tmp_path / "features")


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

    def step_or_die(conversations: Sequence[int], **others: Callable[[], bool]) -> object:
        if killed.progress.step == 13:
            raise KilledError
        return step(conversations, **others)

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


def test_ctrl_c_ends_the_step_saves_and_lets_the_run_go_on(
    corpus: Corpus, store: FeatureStore, target: ToyTarget, tmp_path: Path
) -> None:
    stopped = trainer_in(tmp_path, corpus, store, target)
    step = stopped._step

    def step_or_ctrl_c(conversations: Sequence[int], **others: Callable[[], bool]) -> object:
        if stopped.progress.step == 7:
            signal.raise_signal(signal.SIGINT)
        return step(conversations, **others)

    stopped._step = step_or_ctrl_c  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    assert stopped.progress.step == 8
    resumed = trainer_in(tmp_path, corpus, store, target)
    resumed.run()
    assert resumed.progress.step == 24
    assert [row["step"] for row in resumed.folder.curve() if "loss" in row][3:5] == [8, 10]


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
            began_with=None,
            command="python -m eagle_core.training train --steps 120",
            machine="a toy machine",
            corpus="toy.npz",
            corpus_digest=corpus.digest,
            features_computed_in="float32",
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


# from the command line


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> HfTarget:
    return stand_in_llama(monkeypatch)


def test_three_commands_lead_from_a_corpus_to_a_head_with_a_card(
    llama: HfTarget, tmp_path: Path
) -> None:
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "features")]
    run = ["--run", str(tmp_path / "run"), "--head", str(tmp_path / "head")]
    run += ["--draft-vocabulary", "30"]
    budget = ["--steps", "40", "--batch-tokens", "60", "--learning-rate", "1e-2"]
    often = ["--log-every", "5", "--validate-every", "20", "--checkpoint-every", "10"]
    assert main(["features", *shared]) == 0
    assert main(["train", *shared, *run, *budget, *often]) == 0
    losses = [row["loss"] for row in RunFolder(tmp_path / "run").curve() if "loss" in row]
    assert losses[-1] < losses[0] - 0.1
    weights = (tmp_path / "head" / "model.safetensors").read_bytes()
    assert main(["export", *shared, *run]) == 0
    assert (tmp_path / "head" / "model.safetensors").read_bytes() == weights
    loaded = load_head(tmp_path / "head", spec=llama.spec)
    assert loaded.vocabulary is not None
    assert len(loaded.vocabulary) == 30
    card = (tmp_path / "head" / "README.md").read_text()
    assert "tiny-llama" in card
    assert "40 steps" in card


def test_a_run_can_begin_with_an_exported_heads_weights(llama: HfTarget, tmp_path: Path) -> None:
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "features")]
    main(["features", *shared])
    first, second = tmp_path / "first", tmp_path / "eagle"
    main(["train", *shared, "--run", str(tmp_path / "a"), "--head", str(first), "--steps", "2"])
    begin = ["--start-from", str(first), "--steps", "1", "--learning-rate", "1e-12"]
    main(["train", *shared, "--run", str(tmp_path / "b"), "--head", str(second), *begin])
    record = json.loads((second / "training.json").read_text())
    assert record["began_with"]["progress"]["step"] == 2
    assert record["recipe"] is None  # whatever its folder is called
    for name, weight in load_head(first, spec=llama.spec).head.state_dict().items():
        begun = load_head(second, spec=llama.spec).head.state_dict()[name]
        torch.testing.assert_close(begun, weight, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("inputs", [inputs for inputs in INPUTS if inputs != "feature+token"])
def test_a_head_that_reads_less_is_trained_alike_and_says_so_in_its_folder(
    llama: HfTarget, tmp_path: Path, inputs: str
) -> None:
    shared = ["--corpus", str(saved_corpus(tmp_path)), "--features", str(tmp_path / "features")]
    run = ["--run", str(tmp_path / "run"), "--head", str(tmp_path / "head"), "--steps", "20"]
    main(["features", *shared])
    assert main(["train", *shared, *run, "--inputs", inputs, "--log-every", "1"]) == 0
    losses = [row["loss"] for row in RunFolder(tmp_path / "run").curve() if "loss" in row]
    assert losses[-1] < losses[0]
    loaded = load_head(tmp_path / "head", spec=llama.spec).head
    assert isinstance(loaded, EagleHead)
    assert loaded.config.inputs == inputs
    assert READS[inputs] in (tmp_path / "head" / "README.md").read_text()


def test_what_a_caller_can_mend_ends_in_one_sentence(
    llama: HfTarget, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["features", "--corpus", str(tmp_path / "none.npz")]) == 1
    assert capsys.readouterr().err.startswith("no corpus at")

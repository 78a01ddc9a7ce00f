"""Feature stores: resumed, reused, refused; files on a full disk."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from training_toys import (
    LENGTHS,
    ToyTarget,
    corpus_of,
)

from eagle_core.errors import CorpusError
from eagle_core.training.corpus import Corpus
from eagle_core.training.feature_store import INDEX, ROWS, FeatureStore
from eagle_core.training.features import compute_features
from eagle_core.training.files import write_atomically


@pytest.fixture
def target() -> ToyTarget:
    return ToyTarget()


@pytest.fixture
def corpus() -> Corpus:
    return corpus_of(LENGTHS)


@pytest.fixture
def store(corpus: Corpus, target: ToyTarget, tmp_path: Path) -> FeatureStore:
    return compute_features(corpus, target, tmp_path / "features")


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


def test_a_store_that_lost_rows_is_refused_instead_of_filled_with_zeros(
    corpus: Corpus, target: ToyTarget, tmp_path: Path
) -> None:
    compute_features(corpus, target, tmp_path, max_tokens=13)
    rows, refusal = tmp_path / ROWS, r"shorter than its index says .*; expected at least"
    left = rows.read_bytes()[:-1]
    rows.write_bytes(left)
    with pytest.raises(CorpusError, match=refusal):
        compute_features(corpus, target, tmp_path)
    assert rows.read_bytes() == left
    rows.unlink()
    with pytest.raises(CorpusError, match=refusal):
        compute_features(corpus, target, tmp_path)


def test_tapped_states_are_kept_side_by_side_and_found_across_folders(
    corpus: Corpus, target: ToyTarget, store: FeatureStore, tmp_path: Path
) -> None:
    compute_features(corpus, target, tmp_path / "tapped", taps=(1, 0))
    folders = (tmp_path / "features", tmp_path / "tapped")
    both = FeatureStore(*folders, corpus=corpus, spec=target.spec)
    tokens = torch.from_numpy(corpus.tokens[corpus.rows(2)].astype(np.int64))
    expected = target.prefill(tokens, taps=(0, 2, 1)).features
    found = both.rows(corpus.rows(2), taps=(0, 2, 1))
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(both.rows(corpus.rows(2)), store.rows(corpus.rows(2)))


def test_states_that_no_folder_holds_are_named(
    corpus: Corpus, target: ToyTarget, store: FeatureStore, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match=r"without the states 0, 1; expected .*; try `features"):
        store.require((0, 1, 2))
    for taps in ((0, 3), (1, 1)):
        with pytest.raises(CorpusError, match="expected different numbers from 0 to 2"):
            compute_features(corpus, target, tmp_path / "tapped", taps=taps)


def test_an_index_that_names_no_states_is_of_the_last(
    corpus: Corpus, target: ToyTarget, store: FeatureStore, tmp_path: Path
) -> None:
    path = tmp_path / "features" / INDEX
    index = json.loads(path.read_text())
    del index["taps"]
    path.write_text(json.dumps(index))
    old = FeatureStore(tmp_path / "features", corpus=corpus, spec=target.spec)
    assert torch.equal(old.rows(corpus.rows(2)), store.rows(corpus.rows(2)))


def test_several_workers_write_what_one_writes(
    corpus: Corpus, target: ToyTarget, store: FeatureStore, tmp_path: Path
) -> None:
    compute_features(corpus, target, tmp_path / "two", num_workers=2, flush_tokens=4)
    for name in (ROWS, INDEX):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "features" / name).read_bytes()


def test_features_that_met_a_full_disk_go_on_once_there_is_room(
    corpus: Corpus, target: ToyTarget, store: FeatureStore, tmp_path: Path
) -> None:
    synced = []

    def fill(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eagle_core.training.features.os.fsync", fill)
        with pytest.raises(CorpusError, match=r"the disk is full: .*features\.f16 could not be"):
            compute_features(corpus, target, tmp_path / "full", flush_tokens=4)
    compute_features(corpus, target, tmp_path / "full", flush_tokens=4)
    for name in (ROWS, INDEX):
        assert (tmp_path / "full" / name).read_bytes() == (
            tmp_path / "features" / name
        ).read_bytes()


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

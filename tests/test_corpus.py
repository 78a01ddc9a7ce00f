"""Corpora: what is read, what is refused, what is held out and counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from training_toys import (
    V,
)

from eagle_core.errors import CorpusError
from eagle_core.training.corpus import Corpus, draft_vocabulary, load_corpus, split


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

"""Conversations as token ids, and which of their tokens the assistant wrote.

    tokens   <|im_start|> user … <|im_end|> <|im_start|> assistant … <|im_end|>
    answer        0        0        0            0           0     1      1

Knows token ids. Knows nothing of text, models or features.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle_core.errors import CorpusError
from eagle_core.training.corpus.notes import read_note

VALIDATION_EVERY = 20  # every twentieth conversation is held out
ARRAYS = ("tokens", "answer", "lengths")

Arrays = dict[str, NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class Corpus:
    """All conversations end to end; refused at birth if the parts do not fit."""

    tokens: NDArray[np.integer]  # (T,)
    answer: NDArray[np.bool_]  # (T,), True where the assistant wrote the token
    lengths: NDArray[np.integer]  # (C,), tokens per conversation
    digest: str  # SHA-256 of the arrays: the same conversations have the same digest

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_conversations(self) -> int:
        return len(self.lengths)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Per conversation the row after its last, (C,)."""
        return np.cumsum(self.lengths, dtype=np.int64)

    def rows(self, conversation: int) -> slice:
        """Where a conversation stands in the arrays, and in a feature store."""
        end = int(self.ends[conversation])
        return slice(end - int(self.lengths[conversation]), end)

    def num_conversations_within(self, num_tokens: int) -> int:
        """How many conversations, from the first, lie wholly in the first `num_tokens` rows."""
        return int(np.searchsorted(self.ends, num_tokens, side="right"))


@dataclass(frozen=True)
class Split:
    """Conversation numbers to train on and to hold out."""

    training: tuple[int, ...]
    validation: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DraftVocabulary:
    """The most frequent answer tokens, sorted by id; the only ones a head drafts."""

    tokens: Tensor  # (V',) int64
    coverage: float  # share of the corpus' answer tokens that are among them


def load_corpus(
    path: Path | Sequence[Path], *, vocab_size: int, tokenizer: Callable[[], str] | None = None
) -> Corpus:
    """Read one .npz with `tokens`, `answer` and `lengths`, several, or a folder of shards.

    The digest is that of all conversations end to end, however they are cut into files. `tokenizer`
    gives a tokenizer's digest, and shards whose note names another are refused; files without a
    note are only checked for ids beyond the vocabulary. Raises CorpusError in one sentence.
    """
    shards = [_read_shard(file, vocab_size, tokenizer) for file in _files(path)]
    whole = {name: np.concatenate([shard[name] for shard in shards]) for name in ARRAYS}
    digest = hashlib.sha256()
    for name in ARRAYS:
        digest.update(whole[name].astype("<i8").tobytes())
    return Corpus(
        whole["tokens"], whole["answer"].astype(np.bool_), whole["lengths"], digest.hexdigest()
    )


def split(num_conversations: int, *, every: int = VALIDATION_EVERY) -> Split:
    """Hold out the last of every `every` conversations."""
    numbers = range(num_conversations)
    return Split(
        training=tuple(n for n in numbers if n % every != every - 1),
        validation=tuple(n for n in numbers if n % every == every - 1),
    )


def draft_vocabulary(
    corpus: Corpus, conversations: Sequence[int], *, size: int, vocab_size: int
) -> DraftVocabulary:
    """Count the answer tokens of `conversations` and keep the `size` most frequent.

    Of equally frequent tokens the lower id goes first. A size beyond the vocabulary keeps all.
    """
    chosen = np.zeros(corpus.num_tokens, dtype=np.bool_)
    for conversation in conversations:
        chosen[corpus.rows(conversation)] = True
    counts = np.bincount(corpus.tokens[chosen & corpus.answer], minlength=vocab_size)
    kept = np.sort(np.argsort(-counts, kind="stable")[:size])
    return DraftVocabulary(
        tokens=torch.from_numpy(kept.astype(np.int64)),
        coverage=float(counts[kept].sum() / max(int(counts.sum()), 1)),
    )


def _files(path: Path | Sequence[Path]) -> list[Path]:
    if not isinstance(path, Path):
        return [file for each in path for file in _files(each)]
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.npz"))
    if not files:
        raise CorpusError(f"folder {path} holds no shard", expected="files named *.npz")
    return files


def _read_shard(path: Path, vocab_size: int, tokenizer: Callable[[], str] | None) -> Arrays:
    """Arrays that fit each other, the vocabulary and the tokenizer."""
    arrays = read_arrays(path, ARRAYS)
    tokens, answer, lengths = (arrays[name] for name in ARRAYS)
    if not len(tokens) == len(answer) == int(lengths.sum()) or (lengths <= 0).any():
        raise CorpusError(
            f"corpus {path.name} has {len(tokens)} tokens, {len(answer)} answer marks and lengths "
            f"that add up to {int(lengths.sum())}",
            expected="three equal numbers",
        )
    if len(tokens) == 0:
        raise CorpusError(f"corpus {path.name} is empty")
    if tokenizer is not None:
        _check_tokenizer(path, tokenizer)
    if int(tokens.max()) >= vocab_size or int(tokens.min()) < 0:
        raise CorpusError(
            f"corpus {path.name} holds token ids from {int(tokens.min())} to {int(tokens.max())}",
            expected=f"ids below {vocab_size}, the target's vocabulary",
            hint="a corpus made with this target's tokenizer",
        )
    return arrays


def _check_tokenizer(path: Path, tokenizer: Callable[[], str]) -> None:
    note = read_note(path)
    if note is None or note.origin.tokenizer == tokenizer():
        return
    raise CorpusError(
        f"corpus {path.name} was made with another tokenizer, that of {note.origin.target}",
        expected="the target's own",
        hint="a corpus written for this target",
    )


def read_arrays(path: Path, names: Sequence[str]) -> Arrays:
    """One-dimensional arrays of integers by their names; raises CorpusError in one sentence."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = [name for name in names if name not in archive]
            arrays = {} if missing else {name: archive[name] for name in names}
    except FileNotFoundError:
        raise CorpusError(f"no corpus at {path}", hint="--corpus with an .npz file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise CorpusError(
            f"corpus {path.name} cannot be read ({error})", hint="a fresh copy of the file"
        ) from None
    if missing:
        raise CorpusError(
            f"corpus {path.name} without {', '.join(missing)}",
            expected=f"arrays named {', '.join(names)}",
        )
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "iub":
            raise CorpusError(
                f"array {name} of corpus {path.name} is {array.ndim}-dimensional {array.dtype}",
                expected="one dimension of integers",
            )
    return arrays

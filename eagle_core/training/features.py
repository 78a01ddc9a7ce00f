"""The target's features over a corpus, computed once and memory-mapped.

    features.f16    (T, D) float16, row i is the feature of corpus token i
    features.json   what they belong to, and how many rows are finished

Rows are written in corpus order, and the count of finished rows only after them, so a killed run
loses at most one stretch. Knows the target's contract. Knows nothing of heads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from eagle_core.errors import CorpusError
from eagle_core.targets.base import Target, TargetSpec
from eagle_core.training.corpus import Corpus
from eagle_core.training.files import plain_words, write_atomically

ROWS, INDEX = "features.f16", "features.json"
FLUSH_TOKENS = 8192


@dataclass(frozen=True)
class FeatureIndex:
    """What a store holds; all but the count must match on resuming.

    A reader may run its own target in another dtype than the one that made the rows.
    """

    corpus: str  # the corpus' digest
    target: str
    width: int  # D
    computed_in: str  # the dtype of the target's pass; rows are kept in float16
    num_tokens_done: int = 0

    @classmethod
    def of(cls, corpus: Corpus, spec: TargetSpec) -> FeatureIndex:
        dtype = str(spec.dtype).removeprefix("torch.")
        return cls(corpus.digest, spec.name, spec.width, dtype)


class FeatureStore:
    """Read-only rows of a finished, or partly finished, store."""

    def __init__(self, folder: Path, *, corpus: Corpus, spec: TargetSpec) -> None:
        expected = FeatureIndex.of(corpus, spec)
        index = _read_index(folder, expected, but=("num_tokens_done", "computed_in"))
        if index is None or index.num_tokens_done == 0:
            raise CorpusError(
                f"no features in {folder}", hint="`python -m eagle_core.training features` first"
            )
        self.num_tokens_done = index.num_tokens_done
        self.computed_in = index.computed_in
        shape = (index.num_tokens_done, index.width)
        try:
            self._rows: NDArray[np.float16] = np.memmap(
                folder / ROWS, dtype=np.float16, mode="r", shape=shape
            )
        except (OSError, ValueError) as error:
            raise CorpusError(
                f"{folder / ROWS} is shorter than its index says ({error})",
                hint="deleting the folder and computing the features again",
            ) from None

    def rows(self, rows: slice) -> Tensor:
        """Features of these corpus tokens, (R, D) float32."""
        return torch.from_numpy(self._rows[rows].astype(np.float32))


def compute_features(
    corpus: Corpus,
    target: Target,
    folder: Path,
    *,
    max_tokens: int | None = None,
    flush_tokens: int = FLUSH_TOKENS,
) -> FeatureStore:
    """Run the target over the conversations that have no features yet.

    Stops after the last conversation that fits into the first `max_tokens` tokens. Called again,
    it goes on where it was; the result is the same as that of one uninterrupted run.
    """
    expected = FeatureIndex.of(corpus, target.spec)
    done = (_read_index(folder, expected) or expected).num_tokens_done
    limit = corpus.num_conversations_within(max_tokens or corpus.num_tokens)
    longest = int(corpus.lengths[:limit].max(initial=0))
    if longest > target.spec.max_positions:
        raise CorpusError(
            f"a conversation of {longest} tokens",
            expected=f"at most {target.spec.max_positions}, the target's limit",
        )
    with plain_words(folder / ROWS):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ROWS).touch()
    todo = range(corpus.num_conversations_within(done), limit)
    total = int(corpus.lengths[:limit].sum())
    with (folder / ROWS).open("rb+") as file, _bar(total, done) as bar:
        file.truncate(done * expected.width * 2)
        file.seek(0, os.SEEK_END)
        pending = 0
        for conversation in todo:
            rows = corpus.rows(conversation)
            features = _features(target, corpus.tokens[rows])
            with plain_words(folder / ROWS):
                file.write(features.tobytes())
            pending += len(features)
            bar.update(len(features))
            if pending >= flush_tokens or conversation == limit - 1:
                with plain_words(folder / ROWS):
                    file.flush()
                    os.fsync(file.fileno())
                done, pending = rows.stop, 0
                _write_index(folder, expected, done)
    return FeatureStore(folder, corpus=corpus, spec=target.spec)


def _features(target: Target, tokens: NDArray[np.integer]) -> NDArray[np.float16]:
    """(R, D), refused where float16 cannot hold them."""
    ids = torch.from_numpy(tokens.astype(np.int64)).to(target.spec.device)
    with torch.inference_mode():
        read = target.open().prefill(ids, taps=(target.spec.last_state,))
    features = read.features.to(dtype=torch.float16, device="cpu")
    if not features.isfinite().all():
        raise CorpusError(
            f"a feature of {read.features.abs().max():.3g}, beyond what float16 holds",
            hint="another target",
        )
    rows: NDArray[np.float16] = features.numpy()
    return rows


def _bar(total: int, done: int) -> tqdm[Any]:
    return tqdm(total=total, initial=done, unit="token", unit_scale=True, desc="features")


def _read_index(
    folder: Path, expected: FeatureIndex, *, but: Sequence[str] = ("num_tokens_done",)
) -> FeatureIndex | None:
    """None where there is no store; refuses one that differs in anything `but` what is named."""
    path = folder / INDEX
    try:
        found = FeatureIndex(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise CorpusError(
            f"{path} cannot be read ({error})", hint="deleting the folder and starting anew"
        ) from None
    for name, value in asdict(expected).items():
        if name not in but and getattr(found, name) != value:
            raise CorpusError(
                f"features in {folder} have {name} {getattr(found, name)}",
                expected=str(value),
                hint="another --features folder",
            )
    return found


def _write_index(folder: Path, index: FeatureIndex, num_tokens_done: int) -> None:
    text = json.dumps(asdict(index) | {"num_tokens_done": num_tokens_done}, indent=2) + "\n"
    write_atomically(folder / INDEX, lambda path: path.write_text(text))

"""Features on disk: what a folder of them holds, and read-only rows of one or more folders.

    features.f16    (T, K·D) float16, row i has the tapped states of corpus token i side by side
    features.json   what they belong to, and how many rows are finished

Knows files and corpora. Knows nothing of how features are made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eagle_core.errors import CorpusError
from eagle_core.targets.base import Taps, TargetSpec
from eagle_core.training.corpus import Corpus
from eagle_core.training.files import write_atomically

ROWS, INDEX = "features.f16", "features.json"


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
    taps: Taps | None = None  # None: the state after the final norm alone

    @classmethod
    def of(cls, corpus: Corpus, spec: TargetSpec, taps: Taps) -> FeatureIndex:
        named = None if taps == (spec.last_state,) else taps
        return cls(corpus.digest, spec.name, spec.width, spec.precision, taps=named)

    @property
    def num_columns(self) -> int:
        """K·D, of one row."""
        return self.width * (len(self.taps) if self.taps else 1)


class FeatureStore:
    """Read-only rows of one or more finished, or partly finished, folders."""

    def __init__(self, *folders: Path, corpus: Corpus, spec: TargetSpec) -> None:
        parts = [_open(folder, corpus, spec) for folder in folders]
        self.num_tokens_done = min(part.index.num_tokens_done for part in parts)
        self.computed_in = parts[0].index.computed_in
        self._width, self._last_state = spec.width, spec.last_state
        self._columns = {tap: part.columns_of(tap, spec) for part in parts for tap in part.taps}

    def require(self, taps: Taps) -> None:
        """Raises CorpusError in one sentence unless all these states are there."""
        if missing := sorted(set(taps) - set(self._columns)):
            raise CorpusError(
                f"features without the states {', '.join(map(str, missing))}",
                expected=f"the states {', '.join(map(str, taps))}",
                hint=f"`features --taps {' '.join(map(str, taps))}` into another folder, "
                "and both folders after --features",
            )

    def rows(self, rows: slice, *, taps: Taps | None = None) -> Tensor:
        """These states of these corpus tokens, (R, K·D) float32; by default the last state."""
        wanted = (self._last_state,) if taps is None else taps
        parts = [self._columns[tap][rows] for tap in wanted]
        return torch.from_numpy(np.concatenate(parts, axis=1).astype(np.float32))


@dataclass(frozen=True, eq=False)
class _Part:
    """One folder, mapped."""

    index: FeatureIndex
    taps: Taps
    rows: NDArray[np.float16]  # (T, K·D)

    def columns_of(self, tap: int, spec: TargetSpec) -> NDArray[np.float16]:
        first = self.taps.index(tap) * spec.width
        return self.rows[:, first : first + spec.width]


def _open(folder: Path, corpus: Corpus, spec: TargetSpec) -> _Part:
    expected = FeatureIndex.of(corpus, spec, (spec.last_state,))
    index = read_index(folder, expected, but=("num_tokens_done", "computed_in", "taps"))
    if index is None or index.num_tokens_done == 0:
        raise CorpusError(
            f"no features in {folder}", hint="`python -m eagle_core.training features` first"
        )
    check_rows(folder, index)
    path, shape = folder / ROWS, (index.num_tokens_done, index.num_columns)
    try:
        rows: NDArray[np.float16] = np.memmap(path, dtype=np.float16, mode="r", shape=shape)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error})") from None
    return _Part(index, index.taps or (spec.last_state,), rows)


def check_rows(folder: Path, index: FeatureIndex) -> None:
    """Raises CorpusError in one sentence unless all the rows that the index counts are there."""
    path = folder / ROWS
    found = path.stat().st_size if path.exists() else 0
    expected = index.num_tokens_done * index.num_columns * np.dtype(np.float16).itemsize
    if found < expected:
        raise CorpusError(
            f"{path} is shorter than its index says ({found} bytes)",
            expected=f"at least {expected}",
            hint="deleting the folder and computing the features again",
        )


def read_index(
    folder: Path, expected: FeatureIndex, *, but: Sequence[str] = ("num_tokens_done",)
) -> FeatureIndex | None:
    """None where there is no store; refuses one that differs in anything `but` what is named."""
    path = folder / INDEX
    try:
        said = json.loads(path.read_text())
        taps = said.pop("taps", None)  # older stores hold the last state and do not say so
        found = FeatureIndex(**said, taps=tuple(taps) if taps else None)
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


def write_index(folder: Path, index: FeatureIndex, num_tokens_done: int) -> None:
    text = json.dumps(asdict(index) | {"num_tokens_done": num_tokens_done}, indent=2) + "\n"
    write_atomically(folder / INDEX, lambda path: path.write_text(text))

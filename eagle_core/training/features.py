"""States of the target over a corpus, computed once.

Rows are written in corpus order, and the count of finished rows only after them, so a killed run
loses at most one stretch. Knows the target's contract. Knows nothing of heads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from eagle_core.errors import CorpusError
from eagle_core.targets.base import Taps, Target, TargetSpec
from eagle_core.training.corpus import Corpus
from eagle_core.training.feature_store import (
    ROWS,
    FeatureIndex,
    FeatureStore,
    check_rows,
    read_index,
    write_index,
)
from eagle_core.training.files import plain_words

FLUSH_TOKENS = 8192


def compute_features(
    corpus: Corpus,
    target: Target,
    folder: Path,
    *,
    taps: Taps | None = None,
    max_tokens: int | None = None,
    flush_tokens: int = FLUSH_TOKENS,
    num_workers: int = 1,
) -> FeatureStore:
    """Run the target over the conversations that have no features yet.

    taps: the states to keep; by default the last. Stops after the last conversation that fits into
    the first `max_tokens` tokens. Called again, it goes on where it was; the result is the same as
    that of one uninterrupted run. Several workers, each a thread with as many CPU threads as torch
    is set to, read different conversations at the same time.
    """
    taps = taps or (target.spec.last_state,)
    _check_taps(taps, target.spec)
    index = FeatureIndex.of(corpus, target.spec, taps)
    earlier = read_index(folder, index) or index
    check_rows(folder, earlier)
    done = earlier.num_tokens_done
    limit = corpus.num_conversations_within(max_tokens or corpus.num_tokens)
    longest = int(corpus.lengths[:limit].max(initial=0))
    if longest > target.spec.max_positions:
        raise CorpusError(
            f"a conversation of {longest} tokens",
            expected=f"at most {target.spec.max_positions}, the target's limit",
        )
    todo = range(corpus.num_conversations_within(done), limit)
    stretches = (corpus.tokens[corpus.rows(conversation)] for conversation in todo)
    total = int(corpus.lengths[:limit].sum())
    read = partial(_features, target, taps=taps)
    with _bar(total, done) as bar, _in_order(read, stretches, num_workers) as computed:
        _write(folder, index, computed, done=done, total=total, flush_tokens=flush_tokens, bar=bar)
    return FeatureStore(folder, corpus=corpus, spec=target.spec)


def _write(
    folder: Path,
    index: FeatureIndex,
    computed: Iterable[NDArray[np.float16]],
    *,
    done: int,
    total: int,
    flush_tokens: int,
    bar: tqdm[Any],
) -> None:
    """Append rows after the `done` ones, and count them once they are on the disk."""
    path, pending = folder / ROWS, 0
    with plain_words(path):
        folder.mkdir(parents=True, exist_ok=True)
        path.touch()
    with path.open("rb+") as file:
        file.truncate(done * index.num_columns * 2)
        file.seek(0, os.SEEK_END)
        for features in computed:
            with plain_words(path):
                file.write(features.tobytes())
            pending += len(features)
            bar.update(len(features))
            if pending >= flush_tokens or done + pending == total:
                with plain_words(path):
                    file.flush()
                    os.fsync(file.fileno())
                done, pending = done + pending, 0
                write_index(folder, index, done)


@contextlib.contextmanager
def _in_order(
    read: Callable[[NDArray[np.integer]], NDArray[np.float16]],
    stretches: Iterable[NDArray[np.integer]],
    num_workers: int,
) -> Iterator[Iterator[NDArray[np.float16]]]:
    """What `read` makes of each stretch, in their order; nothing new is begun once left."""
    if num_workers == 1:
        yield map(read, stretches)
        return
    with (
        ThreadPoolExecutor(num_workers) as pool,
        # a generator, which can be closed; typeshed calls it an iterator
        contextlib.closing(pool.map(read, stretches)) as computed,  # type: ignore[type-var]
    ):
        yield computed


def _features(target: Target, tokens: NDArray[np.integer], *, taps: Taps) -> NDArray[np.float16]:
    """(R, K·D), refused where float16 cannot hold them."""
    ids = torch.from_numpy(tokens.astype(np.int64)).to(target.spec.device)
    with torch.inference_mode():
        read = target.open().prefill(ids, taps=taps)
    features = read.features.to(dtype=torch.float16, device="cpu")
    if not features.isfinite().all():
        raise CorpusError(
            f"a feature of {read.features.abs().max():.3g}, beyond what float16 holds",
            hint="another target, or other taps",
        )
    rows: NDArray[np.float16] = features.numpy()
    return rows


def _check_taps(taps: Taps, spec: TargetSpec) -> None:
    if any(not 0 <= tap <= spec.last_state for tap in taps) or len(set(taps)) < len(taps):
        raise CorpusError(
            f"the taps {', '.join(map(str, taps))}",
            expected=f"different numbers from 0 to {spec.last_state}, the last state",
        )


def _bar(total: int, done: int) -> tqdm[Any]:
    return tqdm(total=total, initial=done, unit="token", unit_scale=True, desc="features")

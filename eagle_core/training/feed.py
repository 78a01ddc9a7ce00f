"""What the steps of a run learn from.

    corpus, shuffled ─▶ a step's conversations ─▶ this process' share ─▶ their stored features,
                                                                         or answers of its own

All of it is a function of seed, epoch and step, so there is nothing to save. Knows corpora,
features and processes. Knows nothing of losses or optimisers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eagle_core.errors import CorpusError
from eagle_core.targets.base import Taps
from eagle_core.training.batches import (
    Batch,
    batch_of,
    num_counted,
    packed,
    shuffled,
    with_pairs,
)
from eagle_core.training.corpus import Corpus
from eagle_core.training.feature_store import FeatureStore
from eagle_core.training.on_policy import OnPolicy
from eagle_core.training.processes import Processes
from eagle_core.training.settings import TrainingSettings

WRITING, CHOOSING = 1, 2  # what chance is for, beside noise


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a head learns from."""

    corpus: Corpus
    store: FeatureStore
    conversations: Sequence[int]  # those to train on; their features are in the store
    vocabulary: Tensor  # (V',) int64, the draft vocabulary


@dataclass(frozen=True, eq=False)
class Portion:
    """One process' part of a step; num_rows: per self-fed step, how many count in all parts."""

    batch: Batch | None  # None where nothing fell to this process
    num_rows: Sequence[int]

    @property
    def num_pairs(self) -> int:
        return 0 if self.batch is None else self.batch.num_pairs


class Feed:
    """Batches of one process; author: who writes some of the texts, where anyone does."""

    def __init__(
        self,
        data: TrainingData,
        *,
        taps: Taps,
        settings: TrainingSettings,
        processes: Processes,
        device: torch.device,
        author: OnPolicy | None = None,
    ) -> None:
        self._data, self._taps, self._settings = data, taps, settings
        self._processes, self._device, self._author = processes, device, author
        data.store.require(taps)
        self._training = with_pairs(data.corpus, data.conversations)
        if not self._training:
            raise CorpusError("no conversation to train on", hint="more features")

    @property
    def num_conversations(self) -> int:
        return len(self._training)

    def epoch(self, number: int) -> list[tuple[int, ...]]:
        """The conversations of each of its steps."""
        order = shuffled(self._training, seed=self._settings.seed, epoch=number)
        return list(packed(self._data.corpus, order, batch_tokens=self._settings.batch_tokens))

    def portion(self, conversations: Sequence[int], *, step: int) -> Portion:
        """This process' pairs of the step; all processes ask for theirs."""
        corpus = self._data.corpus
        mine = self._processes.share(conversations, lengths=corpus.lengths)
        if self._author is not None and self._is_on_policy(step):
            chance = self.chance(step, self._processes.rank, WRITING)
            return self._counted(self._author.batch(corpus, mine, chance=chance))
        steps = range(1 + self._settings.self_fed_steps)
        num_rows = [num_counted(corpus, conversations, num_fed=fed) for fed in steps]
        if not mine:
            return Portion(None, num_rows)
        stored = batch_of(corpus, self._data.store, mine, taps=self._taps, device=self._device)
        return Portion(stored, num_rows)

    def chance(self, step: int, *what_for: int) -> torch.Generator:
        entropy = (self._settings.seed, step, *what_for)
        seed = np.random.SeedSequence(entropy).generate_state(1)
        return torch.Generator().manual_seed(int(seed[0]))

    def noise(self, step: int) -> torch.Generator:
        """What disturbs this process' features."""
        return self.chance(step, self._processes.rank)

    def _is_on_policy(self, step: int) -> bool:
        """The same for all processes."""
        drawn = torch.rand((), generator=self.chance(step, 0, CHOOSING))
        return float(drawn) < self._settings.on_policy_share

    def _counted(self, written: Batch | None) -> Portion:
        """How long new answers are is known once all processes have written theirs."""
        num_own = 0 if written is None else int(written.counts.sum())
        num_rows = torch.tensor([float(num_own)], device=self._device)
        self._processes.sum([num_rows])
        return Portion(written, [int(num_rows)] * (1 + self._settings.self_fed_steps))

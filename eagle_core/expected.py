"""What a static tree would be worth, from how often each choice was kept in a recorded run.

    expected τ = 1 + Σ over drafted nodes of the chance that the node is kept
    chance of a node = Π over its path of the share kept at that depth and child rank

The share at (depth, rank) is measured: kept ÷ kept parents that had a child of that rank. Where a
depth never had such a child, the share of the rank over all depths stands in; a rank never drafted
counts as 0. So the estimate takes acceptance to depend on depth and rank alone, and what was not
drafted to be worth nothing. Knows traces and shapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eagle_core.shapes import Ranks, Shape
from eagle_core.trace import Lane, Trial

FORMULA = (
    "expected τ = 1 + Σ over nodes of the chance that the node is kept; a node's chance is the "
    "product, along its path, of the share kept at that depth and rank in the recorded run"
)

Place = tuple[int, int]
"""Depth and child rank."""


@dataclass
class _Count:
    num_reached: int = 0
    num_kept: int = 0

    @property
    def rate(self) -> float | None:
        return self.num_kept / self.num_reached if self.num_reached else None


@dataclass(frozen=True)
class RankRates:
    """Shares kept by depth and rank, of one lane or of several together."""

    _by_place: dict[Place, _Count] = field(default_factory=dict)
    _by_rank: dict[int, _Count] = field(default_factory=dict)

    @classmethod
    def of(cls, lanes: Iterable[Lane]) -> RankRates:
        return cls.of_trials(
            trial for lane in lanes for step in lane.steps for trial in step.trials
        )

    @classmethod
    def of_trials(cls, trials: Iterable[Trial]) -> RankRates:
        rates = cls()
        for trial in trials:
            rates._add(trial)
        return rates

    @property
    def is_empty(self) -> bool:
        return not self._by_rank

    def share(self, depth: int, rank: int) -> float | None:
        """None where no choice of this rank was ever drafted."""
        counts = (self._by_place.get((depth, rank)), self._by_rank.get(rank))
        return next((count.rate for count in counts if count), None)

    def chance(self, node: Ranks) -> float:
        """That `node` is kept in a step whose tree has it."""
        chance = 1.0
        for depth, rank in enumerate(node, start=1):
            chance *= self.share(depth, rank) or 0.0
        return chance

    def expected_tau(self, shape: Shape) -> float:
        return 1.0 + sum(map(self.chance, shape))

    def _add(self, trial: Trial) -> None:
        for rank in range(trial.num_children):
            by_place = self._by_place.setdefault((trial.depth, rank), _Count())
            for count in (by_place, self._by_rank.setdefault(rank, _Count())):
                count.num_reached += 1
                count.num_kept += trial.kept_rank == rank

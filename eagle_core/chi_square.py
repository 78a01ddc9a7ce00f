"""Do counted tokens follow a law? Pearson's chi-square test, and what it would have noticed.

Knows counts and probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

MIN_EXPECTED = 5.0  # tokens in a cell, below which the statistic is no chi-square


@dataclass(frozen=True)
class Fit:
    """How well `num_samples` tokens follow their law.

    p_value: how often tokens that do follow it would seem at least as far off.
    """

    num_samples: int
    num_cells: int
    statistic: float
    p_value: float

    def smallest_deviation(self, *, error: float, power: float) -> float:
        """The total variation between the cells' laws from which on the test, taken with this
        `error`, says so with probability `power` or more.

        A total variation of δ moves the statistic by at least 4·n·δ² (Cauchy-Schwarz).
        """
        if self.num_cells < 2:
            return 1.0
        degrees = self.num_cells - 1
        limit = _bisect(lambda x: error - tail(x, degrees))
        shift = _bisect(lambda s: shifted_tail(limit, degrees, s) - power)
        return min(1.0, math.sqrt(shift / (4 * self.num_samples)))


def fit(counts: Mapping[int, int], law: Tensor) -> Fit:
    """Compare tokens counted with `law`, (V,); tokens too rare for a cell of their own share one.

    A token that the law rules out makes the p-value 0.
    """
    num_samples = sum(counts.values())
    expected = law.double() * (num_samples / float(law.double().sum()))
    seen = torch.zeros_like(expected)
    for token, count in counts.items():
        seen[token] = count
    if bool((seen[expected == 0] > 0).any()):
        return Fit(num_samples, int((expected > 0).sum()), float("inf"), 0.0)
    is_cell = expected >= MIN_EXPECTED
    rest = torch.stack([seen[~is_cell].sum(), expected[~is_cell].sum()])
    cells = torch.stack([seen[is_cell], expected[is_cell]])
    if float(rest[1]) >= MIN_EXPECTED or not bool(is_cell.any()):
        cells = torch.cat([cells, rest[:, None]], dim=1)
    else:  # too little for a cell even together: it joins the smallest
        cells[:, int(cells[1].argmin())] += rest
    statistic = float(((cells[0] - cells[1]).square() / cells[1]).sum())
    num_cells = cells.shape[1]
    return Fit(num_samples, num_cells, statistic, tail(statistic, num_cells - 1))


def tail(statistic: float, degrees: float) -> float:
    """Probability that a chi-square of so many degrees of freedom exceeds `statistic`."""
    if degrees <= 0:
        return 1.0
    half = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def shifted_tail(statistic: float, degrees: float, shift: float) -> float:
    """The same of a non-central one: a Poisson mixture of central ones."""
    num_terms = int(shift + 12 * shift**0.5) + 40
    terms = torch.arange(num_terms, dtype=torch.float64)
    half = torch.tensor(shift / 2, dtype=torch.float64)
    weights = torch.exp(terms * half.log() - half - torch.lgamma(terms + 1))
    tails = torch.special.gammaincc(degrees / 2 + terms, torch.full_like(terms, statistic / 2))
    return float((weights * tails).sum())


def _bisect(rising: Callable[[float], float]) -> float:
    """Where a rising function of a positive number crosses zero."""
    low, high = 0.0, 1.0
    while rising(high) < 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high

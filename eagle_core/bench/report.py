"""Rows of a benchmark as a table and as JSON, with what each figure means."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, zip_longest
from statistics import median
from typing import Any

from eagle_core.bench.run import Counts, LaneFigures, Row

FORMULAS = (
    "τ = Σ (tokens - 1) ÷ Σ target passes of the decode phase; tokens/s and speedup are medians "
    "over questions, decode phase only, with their 95 % bootstrap intervals; speedup = a lane's "
    "tokens/s ÷ plain's on the same question; draft, verify, commit and host are ms a step, host "
    "being what the other three leave of its time; prefill is ms a prompt, outside all others."
)
NUM_RESAMPLES = 2000
HEADER = (
    f"{'lane':<18}{'T':>5}{'questions':>11}{'τ':>7}{'plain tok/s':>13}{'tok/s':>22}{'speedup':>20}"
    f"{'prefill':>9}{'draft':>8}{'verify':>8}{'commit':>8}{'host':>7}{'equal texts':>13}"
)
PARTS = ("draft", "verify", "commit", "host")


@dataclass(frozen=True)
class Estimate:
    """A median over questions, and where 95 % of the medians of resampled questions lie."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Seeded: the same values give the same interval."""
        if not values:
            return cls(0.0, 0.0, 0.0)
        draw = random.Random(0)
        medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(NUM_RESAMPLES))
        last = NUM_RESAMPLES - 1
        return cls(median(values), medians[round(0.025 * last)], medians[round(0.975 * last)])

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Summary:
    """All rows of one lane at one temperature; times in ms, those of parts a target pass."""

    lane: str
    temperature: float
    num_questions: int
    tau: float | None  # None where a rival does not count its passes
    plain_tokens_per_s: Estimate
    tokens_per_s: Estimate
    speedup: Estimate
    speedup_by_category: dict[str, float]
    prefill_ms: float
    parts_ms: dict[str, float] | None
    num_equal: int | None  # None where texts are sampled
    accepted_by_depth: tuple[float, ...]
    accepted_by_rank: tuple[float, ...]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Summary:
        lanes = [row.eagle for row in rows]
        decoded = [row for row in rows if row.speedup > 0]
        passes = _passes(lanes)
        is_greedy = rows[0].temperature == 0
        return cls(
            lane=rows[0].tree,
            temperature=rows[0].temperature,
            num_questions=len(rows),
            tau=None if passes is None else tau(lanes),
            plain_tokens_per_s=Estimate.of([row.plain.tokens_per_s for row in decoded]),
            tokens_per_s=Estimate.of([row.eagle.tokens_per_s for row in decoded]),
            speedup=Estimate.of([row.speedup for row in decoded]),
            speedup_by_category=_by_category(decoded),
            prefill_ms=median(lane.prefill_ms for lane in lanes),
            parts_ms=None if passes is None else _parts(lanes, passes),
            num_equal=sum(row.divergence is None for row in rows) if is_greedy else None,
            accepted_by_depth=_rates([lane.accepted_by_depth for lane in lanes]),
            accepted_by_rank=_rates([lane.accepted_by_rank for lane in lanes]),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def summaries(rows: Iterable[Row]) -> list[Summary]:
    by_setting = groupby(sorted(rows, key=_setting), key=_setting)
    return [Summary.of(list(group)) for _, group in by_setting]


def report(rows: Sequence[Row]) -> str:
    """A line per lane and temperature, acceptance by depth, and every unequal greedy text."""
    lines = [HEADER]
    for summary in summaries(rows):
        lines += _lines_of(summary)
        lines += [
            f"  question {row.question}: {_difference(row)}"
            for row in rows
            if _setting(row) == (summary.lane, summary.temperature) and row.divergence is not None
        ]
    return "\n".join([*lines, FORMULAS])


def tau(figures: Sequence[LaneFigures]) -> float:
    passes = _passes(figures)
    return sum(lane.num_tokens for lane in figures) / passes if passes else 0.0


def _setting(row: Row) -> tuple[str, float]:
    return row.tree, row.temperature


def _passes(lanes: Sequence[LaneFigures]) -> int | None:
    known = [lane.num_target_passes for lane in lanes if lane.num_target_passes is not None]
    return sum(known) if len(known) == len(lanes) else None


def _parts(lanes: Sequence[LaneFigures], passes: int) -> dict[str, float]:
    return {
        part: sum(getattr(lane, f"{part}_ms") for lane in lanes) / max(passes, 1) for part in PARTS
    }


def _by_category(rows: Sequence[Row]) -> dict[str, float]:
    in_order = sorted(rows, key=lambda row: row.category)
    return {
        category: median(row.speedup for row in group)
        for category, group in groupby(in_order, key=lambda row: row.category)
    }


def _lines_of(summary: Summary) -> Iterator[str]:
    parts = summary.parts_ms or {}
    of_all = summary.num_questions
    equal = "-" if summary.num_equal is None else f"{summary.num_equal} of {of_all}"
    yield (
        f"{summary.lane:<18}{summary.temperature:>5g}{of_all:>11}"
        f"{'-' if summary.tau is None else format(summary.tau, '.2f'):>7}"
        f"{summary.plain_tokens_per_s.median:>13.1f}{summary.tokens_per_s!s:>22}"
        f"{summary.speedup!s:>20}{summary.prefill_ms:>9.1f}"
        f"{_ms(parts, 'draft'):>8}{_ms(parts, 'verify'):>8}{_ms(parts, 'commit'):>8}"
        f"{_ms(parts, 'host'):>7}{equal:>13}"
    )
    if summary.accepted_by_depth:
        # Of a chain the draft at depth n + 1 has n estimated features behind it.
        is_chain = summary.lane.startswith("chain:")
        named, first = ("n-α, n", 0) if is_chain else ("accepted by depth", 1)  # noqa: RUF001  its name
        yield f"  {named}: {_shown(summary.accepted_by_depth, first=first)}"
        yield f"  accepted by child rank: {_shown(summary.accepted_by_rank, first=0)}"
    if len(summary.speedup_by_category) > 1:
        by_category = summary.speedup_by_category.items()
        yield "  speedup by category: " + "  ".join(f"{name} {x:.2f}" for name, x in by_category)


def _ms(parts: dict[str, float], part: str) -> str:
    return f"{parts[part]:.2f}" if part in parts else "-"


def _rates(counts: Sequence[Sequence[Counts]]) -> tuple[float, ...]:
    """Each question's counts added up place by place."""
    places = zip_longest(*counts, fillvalue=(0, 0))
    return tuple(
        sum(kept for _, kept in place) / max(sum(n for n, _ in place), 1) for place in places
    )


def _shown(rates: Sequence[float], *, first: int) -> str:
    """Places are numbered from `first`."""
    return "  ".join(f"{number}: {rate:.1%}" for number, rate in enumerate(rates, start=first))


def _difference(row: Row) -> str:
    found = row.divergence
    assert found is not None, "only unequal rows are described"
    verdict = "numerics" if found.is_numerics else "NOT numerics"
    return (
        f"texts differ from token {found.position} on, top-2 logit gap {found.logit_gap:.2g} "
        f"({verdict}: tolerance {found.tolerance:g})"
    )

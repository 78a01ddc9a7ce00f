"""Rows of a benchmark as a table, with what each figure means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from statistics import median

from eagle_core.bench.run import Counts, LaneFigures, Row

FORMULAS = (
    "τ = Σ (tokens - 1) ÷ Σ target passes of the decode phase; tokens/s and speedup are medians "
    "over questions, decode phase only; speedup = EAGLE's tokens/s ÷ plain's on the same question."
)


def report(rows: Sequence[Row]) -> str:
    """A line per tree and temperature, acceptance by depth, and every unequal greedy text."""
    by_setting = sorted(rows, key=_setting)
    lines = [_HEADER]
    for _, group in groupby(by_setting, key=_setting):
        lines += _lines_of(list(group))
    return "\n".join([*lines, FORMULAS])


_HEADER = (
    f"{'tree':<10}{'T':>5}{'questions':>11}{'τ':>7}{'plain tok/s':>13}{'eagle tok/s':>13}"
    f"{'speedup':>9}{'draft ms':>10}{'verify ms':>11}{'commit ms':>11}{'equal texts':>13}"
)


def tau(figures: Sequence[LaneFigures]) -> float:
    passes = sum(lane.num_target_passes for lane in figures)
    return sum(lane.num_tokens for lane in figures) / passes if passes else 0.0


def _setting(row: Row) -> tuple[str, float]:
    return row.tree, row.temperature


def _lines_of(rows: Sequence[Row]) -> Iterator[str]:
    eagle = [row.eagle for row in rows]
    decoded = [row for row in rows if row.speedup > 0]
    passes = max(sum(lane.num_target_passes for lane in eagle), 1)
    parts = [sum(getattr(lane, f"{part}_ms") for lane in eagle) / passes for part in _PARTS]
    unequal = [row for row in rows if row.divergence is not None]
    is_greedy = rows[0].temperature == 0
    equal = f"{len(rows) - len(unequal)} of {len(rows)}" if is_greedy else "-"
    yield (
        f"{rows[0].tree:<10}{rows[0].temperature:>5g}{len(rows):>11}{tau(eagle):>7.2f}"
        f"{_median(row.plain.tokens_per_s for row in decoded):>13.1f}"
        f"{_median(row.eagle.tokens_per_s for row in decoded):>13.1f}"
        f"{_median(row.speedup for row in decoded):>9.2f}"
        f"{parts[0]:>10.1f}{parts[1]:>11.1f}{parts[2]:>11.1f}{equal:>13}"
    )
    yield "  accepted by depth: " + _rates([lane.accepted_by_depth for lane in eagle], first=1)
    yield "  accepted by child rank: " + _rates([lane.accepted_by_rank for lane in eagle], first=0)
    for row in unequal:
        yield f"  question {row.question}: {_difference(row)}"


_PARTS = ("draft", "verify", "commit")


def _rates(counts: Sequence[Sequence[Counts]], *, first: int) -> str:
    """Each question's counts added up place by place; places are numbered from `first`."""
    places = zip_longest(*counts, fillvalue=(0, 0))
    rates = [
        f"{number}: {sum(kept for _, kept in place) / max(sum(n for n, _ in place), 1):.1%}"
        for number, place in enumerate(places, start=first)
    ]
    return "  ".join(rates)


def _difference(row: Row) -> str:
    found = row.divergence
    assert found is not None, "only unequal rows are described"
    verdict = "numerics" if found.is_numerics else "NOT numerics"
    return (
        f"texts differ from token {found.position} on, top-2 logit gap {found.logit_gap:.2g} "
        f"({verdict}: tolerance {found.tolerance:g})"
    )


def _median(values: Iterator[float] | Sequence[float]) -> float:
    listed = list(values)
    return median(listed) if listed else 0.0

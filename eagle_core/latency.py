"""What a step costs with a tree of another size: a latency curve, and the speed it promises.

A target pass costs by its rows (the root counted), a draft by its levels. Between measured points a
curve is straight; past the last one it goes on as steeply as before, and says so.

Knows traces, plans and clocks. Knows nothing of acceptance.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from eagle_core import reading
from eagle_core.cost import Prices
from eagle_core.errors import TraceError
from eagle_core.optimum import draft_rows
from eagle_core.reading import Record
from eagle_core.trace import Step, Trace
from eagle_core.tree import TreePlan

MIN_STEPS = 3
"""Fewer steps of a size make no point of a curve, unless there is no other."""


class Clock(Protocol):
    """What a step with a given tree takes on some machine."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def plain_ms(self) -> float: ...
    def step_ms(self, plan: TreePlan) -> float: ...
    def reaches(self, plan: TreePlan) -> bool:
        """Whether the plan lies within what was measured."""
        ...


@dataclass(frozen=True)
class LatencyCurve:
    """Milliseconds by size, each point a mean over steps.

    verify_ms: by rows of a target pass. draft_ms: by levels of the tree. plain_ms: of a whole step
    of plain decoding. source: where the figures come from, for people.
    """

    name: str
    source: str
    verify_ms: Mapping[int, float]
    draft_ms: Mapping[int, float]
    commit_ms: float
    plain_ms: float

    def step_ms(self, plan: TreePlan) -> float:
        """Raises `TraceError` where the clock stood still, as a made-up trace's may."""
        verify = _on(self.verify_ms, plan.num_drafts + 1)
        total = _on({0: 0.0, **self.draft_ms}, plan.depth) + verify + self.commit_ms
        if total <= 0:
            raise TraceError("steps that took no time", hint="another clock")
        return total

    def reaches(self, plan: TreePlan) -> bool:
        is_wide = plan.num_drafts + 1 <= max(self.verify_ms)
        return is_wide and plan.depth <= max(self.draft_ms, default=0)


@dataclass(frozen=True)
class MeasuredClock:
    """A machine's own prices, measured by `eagle_core.measuring` for trees of every size."""

    name: str
    source: str
    prices: Prices

    @property
    def plain_ms(self) -> float:
        return self.prices.plain_ms

    def step_ms(self, plan: TreePlan) -> float:
        return self.prices.step_ms(plan.num_drafts + 1, draft_rows(plan))

    def reaches(self, plan: TreePlan) -> bool:
        return plan.num_drafts + 1 <= self.prices.verify.rows[-1]


def speedup(clock: Clock, plan: TreePlan, tau: float) -> float:
    """τ · a plain step's time ÷ a step's time with `plan`."""
    return tau * clock.plain_ms / clock.step_ms(plan)


def curve_of(traces: Sequence[Trace], *, name: str, source: str) -> LatencyCurve:
    """The means of recorded runs, which should come from one machine in one state.

    Raises `TraceError` where a lane is missing or has no steps.
    """
    plain = _steps(traces, "plain")
    eagle = _steps(traces, "eagle")
    if not plain or not eagle:
        raise TraceError(
            "a run without steps of both lanes", expected="plain decoding beside EAGLE"
        )
    return LatencyCurve(
        name,
        source,
        verify_ms=_means((len(step.nodes), step.verify_ms) for step in (*plain, *eagle)),
        draft_ms=_means((max(step.depths), step.draft_ms) for step in eagle if step.num_drafts),
        commit_ms=sum(step.commit_ms for step in eagle) / len(eagle),
        plain_ms=sum(step.ms for step in plain) / len(plain),
    )


def load_curve(path: Path) -> LatencyCurve:
    """A curve from a file; raises `TraceError` where it is damaged, `OSError` where it is not."""
    try:
        record = Record(json.loads(path.read_text("utf-8")), "curve")
    except ValueError as error:
        raise TraceError(f"{path.name} is not JSON") from error
    return LatencyCurve(
        name=record.get("name", reading.text),
        source=record.get("source", reading.text),
        verify_ms=record.get("verify_ms", _points),
        draft_ms=record.get("draft_ms", _points),
        commit_ms=record.get("commit_ms", reading.quantity),
        plain_ms=record.get("plain_ms", reading.quantity),
    )


def _points(value: object) -> dict[int, float]:
    points = {int(size): reading.quantity(ms) for size, ms in reading.mapping(value).items()}
    if not points:
        raise reading.wrong(value, "at least one point")
    return points


def _steps(traces: Sequence[Trace], method: str) -> list[Step]:
    lanes = [lane for trace in traces for lane in trace.lanes if lane.method == method]
    return [step for lane in lanes for step in lane.steps]


def _means(measured: Iterable[tuple[int, float]]) -> dict[int, float]:
    by_size: dict[int, list[float]] = {}
    for size, ms in measured:
        by_size.setdefault(size, []).append(ms)
    firm = {size: times for size, times in by_size.items() if len(times) >= MIN_STEPS}
    return {size: sum(times) / len(times) for size, times in sorted((firm or by_size).items())}


def _on(points: Mapping[int, float], size: int) -> float:
    """Straight between points, level before the first, and on as the last two lie."""
    known = sorted(points.items())
    if len(known) == 1 or size <= known[0][0]:
        return known[0][1]
    pairs = list(pairwise(known))
    (left, low), (right, high) = next((pair for pair in pairs if size <= pair[1][0]), pairs[-1])
    return max(low + (high - low) * (size - left) / (right - left), 0.0)

"""The figures of a run are functions of its trace: their values are compared with its counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from fake_bench import FakeBench
from made import chain_step, lane, plain_and_eagle, prefill
from made import trace as traced

from app.views.charts import CHARTS
from app.views.text_charts import accepted_runs
from eagle_core.insight import places
from eagle_core.options import RunOptions
from eagle_core.trace import NodeLaws, TopLaw, Trace

DRAW = {chart.name: chart.draw for chart in CHARTS}


@pytest.fixture
def trace() -> Trace:
    recording = FakeBench().race("Hello", RunOptions(max_new_tokens=40, tree="tree:12", seed=5))
    assert len(list(recording)) > 40
    return recording.trace()


def series(figure: Any, name: str) -> Any:
    return next(one for one in figure.data if (one.name or "").startswith(name))


def test_tokens_over_time_end_at_the_lanes_figures(trace: Trace) -> None:
    for one, line in zip(trace.lanes, DRAW["over-time"](trace).data, strict=True):
        assert line.y[-1] == len(one.tokens)
        assert line.x[-1] == pytest.approx(one.decode_ms / 1000)
        assert (line.x[0], line.y[0]) == (0.0, 1)


def test_the_parts_of_a_tokens_time_add_up_to_the_rate(trace: Trace) -> None:
    parts = DRAW["per-token"](trace).data
    assert [part.name for part in parts] == ["draft", "verify", "commit"]
    for place, one in enumerate(trace.lanes):
        assert sum(part.x[place] for part in parts) == pytest.approx(1000 / one.tokens_per_s)
        assert sum(part.customdata[place] for part in parts) == pytest.approx(1)


@pytest.mark.parametrize(("name", "first"), [("by-depth", 1), ("by-rank", 1)])
def test_acceptance_shows_the_traces_counts(trace: Trace, name: str, first: int) -> None:
    (bars,) = DRAW[name](trace).data
    eagle = trace.lane("eagle")
    counts = eagle.accepted_by_depth if name == "by-depth" else eagle.accepted_by_rank
    assert list(bars.x) == list(range(first, first + len(counts)))
    assert list(bars.y) == [count.rate for count in counts]
    assert list(bars.customdata[0]) == [counts[0].num_accepted, counts[0].num_reached]


def test_calibration_counts_every_trial_once(trace: Trace) -> None:
    figure = DRAW["calibration"](trace)
    trials = [
        node.verdict.value
        for step in trace.lane("eagle").steps
        for node in step.nodes
        if node.verdict.value in ("accepted", "refused")
    ]
    shown = [pair for name in ("first", "later") for pair in series(figure, name).customdata]
    assert sum(tried for _, tried in shown) == len(trials)
    assert sum(kept for kept, _ in shown) == trials.count("accepted")


def test_tokens_per_step_are_counted_and_stand_along_the_text(trace: Trace) -> None:
    sizes = [step.num_committed for step in trace.lane("eagle").steps]
    (bars,) = DRAW["per-step"](trace).data
    counts = Counter(sizes)
    assert {int(x): int(text) for x, text in zip(bars.x, bars.text, strict=True) if int(text)} == {
        size: count for size, count in counts.items() if count
    }
    assert sum(x * y for x, y in zip(bars.x, bars.y, strict=True)) == pytest.approx(
        trace.lane("eagle").tau
    )
    (blocks,) = DRAW["along-text"](trace).data
    assert list(blocks.y) == list(blocks.width) == sizes
    assert blocks.x[0] == 1
    assert blocks.x[-1] + sizes[-1] == len(trace.lane("eagle").tokens)


def lawful() -> Trace:
    """Two steps with laws at their first nodes: an even choice of two, and a sure one."""
    first = chain_step(5, 6, 7, kept=2, bonus=8)
    laws = (NodeLaws(0, TopLaw((6, 9), (0.5, 0.5))), NodeLaws(1, TopLaw((7,), (1.0,))))
    second = chain_step(8, 2, kept=0, bonus=9)
    object.__setattr__(first, "laws", laws)
    return traced(lane("eagle", prefill(), first, second))


def test_entropy_stands_at_the_token_that_was_taken_from_the_law() -> None:
    figure = DRAW["entropy"](lawful())
    accepted = series(figure, "accepted")
    assert (list(accepted.x), list(accepted.y)) == ([1, 2], [1.0, 0.0])
    (band,) = figure.layout.shapes
    assert (band.x0, band.x1) == (0.5, 2.5)
    assert accepted_runs(places(lawful().lane("eagle"))) == [(1, 2)]


def test_a_trace_without_laws_says_so() -> None:
    figure = DRAW["entropy"](plain_and_eagle())
    assert figure.data == ()
    assert "no laws" in figure.layout.annotations[0].text


def test_the_worth_of_branches_is_the_share_of_steps_that_kept_them(trace: Trace) -> None:
    lines, marks = DRAW["by-branch"](trace).data
    kept = [step.num_accepted >= 1 and step.path[1] == 1 for step in trace.lane("eagle").steps]
    assert marks.text[1] == f"{sum(kept) / len(kept):.0%}"
    assert len(lines.x) == 3 * (len(marks.x) - 1)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_figures_are_small_have_a_height_a_formula_and_no_ground(trace: Trace, chart: Any) -> None:
    figure = chart.draw(trace)
    assert figure.layout.height > 100
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.title.text is None, "titles stand beside the figure, where they wrap"
    assert len(figure.to_json()) < 20_000
    assert len(chart.formula) > 20


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_a_trace_without_steps_still_makes_figures(chart: Any) -> None:
    empty = FakeBench().race("Hello", RunOptions()).trace(stopped=True)
    chart.draw(empty)
    chart.draw(plain_and_eagle())

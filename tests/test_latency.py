"""Latency curves: of recorded runs, of files, and what they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made import chain_step, lane, plain_and_eagle, prefill, step
from made import trace as traced

from eagle_core.cost import UNMEASURED
from eagle_core.errors import TraceError
from eagle_core.latency import LatencyCurve, MeasuredClock, curve_of, load_curve, speedup
from eagle_core.plans import chain, static_tree
from eagle_core.tree import TreePlan

EXAMPLE = Path(__file__).parent.parent / "assets" / "whatif" / "rtx3090-llama2-7b.json"


def curve(verify: dict[int, float], draft: dict[int, float]) -> LatencyCurve:
    return LatencyCurve("made", "by hand", verify, draft, commit_ms=1.0, plain_ms=10.0)


def test_between_points_a_curve_is_straight_and_past_the_last_it_goes_on() -> None:
    made = curve({1: 10.0, 5: 18.0}, {2: 4.0})
    assert made.step_ms(chain(2)) == 4.0 + 14.0 + 1.0
    assert made.step_ms(chain(1)) == 2.0 + 12.0 + 1.0, "no levels cost nothing"
    assert made.step_ms(chain(6)) == 12.0 + 22.0 + 1.0
    assert [made.reaches(chain(length)) for length in (2, 3)] == [True, False]


def test_one_point_is_level() -> None:
    made = curve({1: 10.0}, {1: 2.0})
    assert made.step_ms(chain(1)) == 2.0 + 10.0 + 1.0


def test_a_curve_never_goes_below_zero() -> None:
    assert curve({1: 20.0, 2: 1.0}, {1: 2.0}).step_ms(chain(9)) >= 0


def test_a_runs_own_curve_gives_its_own_step_time_and_speedup_back() -> None:
    steps = [chain_step(5, 6, 7, kept=1, bonus=8, ms=(4.0 + i, 60.0, 2.0)) for i in range(4)]
    plain = [step((5,), ms=(0.0, 49.0, 1.0)) for _ in range(8)]
    trace = traced(lane("plain", prefill(), *plain), lane("eagle", prefill(), *steps))
    made = curve_of([trace], name="own", source="")
    assert made.verify_ms == {1: 49.0, 3: 60.0}
    assert made.draft_ms == {2: 5.5}
    assert made.step_ms(chain(2)) == pytest.approx(trace.lane("eagle").decode_ms / 4)
    assert speedup(made, chain(2), trace.lane("eagle").tau) == pytest.approx(trace.speedup)


def test_a_clock_that_stood_still_is_refused() -> None:
    with pytest.raises(TraceError, match="took no time"):
        LatencyCurve("", "", {1: 0.0}, {1: 0.0}, commit_ms=0.0, plain_ms=0.0).step_ms(chain(1))


def test_sizes_of_few_steps_make_no_point_beside_firm_ones() -> None:
    steps = [chain_step(5, 6, 7, kept=1, bonus=8) for _ in range(3)]
    cut = chain_step(5, 6, kept=0, bonus=8, ms=(1.0, 900.0, 1.0))
    plain = [step((5,)) for _ in range(3)]
    trace = traced(lane("plain", prefill(), *plain), lane("eagle", prefill(), *steps, cut))
    assert {*curve_of([trace], name="", source="").verify_ms} == {1, 3}


def test_a_measured_clock_counts_the_rows_of_every_level() -> None:
    prices = UNMEASURED.prices(128)
    clock = MeasuredClock("here", "measured", prices)
    assert clock.plain_ms == prices.verify(1) + prices.other_ms
    assert clock.step_ms(chain(3)) == prices.step_ms(4, [1, 1, 1])
    tree = static_tree(8)
    wide = [sum(bool(tree.children[node]) for node in level) for level in tree.levels]
    assert clock.step_ms(tree) == prices.step_ms(9, [rows for rows in wide if rows])
    assert clock.reaches(tree)
    assert not clock.reaches(TreePlan((None, *[0] * 200)))


def test_a_lane_alone_makes_no_curve() -> None:
    lonely = traced(lane("eagle", prefill(), chain_step(5, 6, kept=1, bonus=7)))
    with pytest.raises(TraceError, match="both lanes"):
        curve_of([lonely], name="", source="")
    assert curve_of([plain_and_eagle()], name="", source="").plain_ms == 50.0


def test_the_example_gives_the_published_speed_back() -> None:
    """100.2 against 55.1 tokens/s, with 3.62 tokens per pass of a tree of 25."""
    example = load_curve(EXAMPLE)
    tree = static_tree(25)
    assert example.name.startswith("Example")
    assert "2401.15077" in example.source
    assert speedup(example, tree, 3.62) == pytest.approx(100.2 / 55.1, rel=2e-3)
    assert example.reaches(tree)


@pytest.mark.parametrize("key", ["name", "verify_ms", "draft_ms", "commit_ms", "plain_ms"])
def test_a_damaged_curve_ends_in_a_trace_error(tmp_path: Path, key: str) -> None:
    good = json.loads(EXAMPLE.read_text("utf-8"))
    path = tmp_path / "curve.json"
    for wrong in ({}, "x", None):
        path.write_text(json.dumps({**good, key: wrong}))
        if key == "name" and wrong == "x":
            continue
        with pytest.raises(TraceError):
            load_curve(path)
    path.write_text("{")
    with pytest.raises(TraceError, match="not JSON"):
        load_curve(path)

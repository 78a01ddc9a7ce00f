"""The viewer's budgets in a short form; `python tests/measure_viewer.py` gives the figures."""

from __future__ import annotations

from typing import Any

import pytest
from measure_viewer import (
    bytes_per_step,
    engine_lags_ms,
    first_paint_ms,
    percentile,
    scrub_ms,
    stream_cost,
)

SLOW_MACHINE = 3  # times a budget of processor time: a cost that grows with the tree is more
LATE_MS = 5_000  # whoever cannot keep up with a stream is late by tens of seconds at its end
GAP_MS = 1000 / 30
PAINTED_MS = 15_000


def test_a_step_is_small() -> None:
    assert bytes_per_step(60) < 3 * 1024
    assert bytes_per_step(250) < 10 * 1024


@pytest.mark.browser
@pytest.mark.parametrize(("num_nodes", "budget_ms"), [(60, 8), (250, 16)])
def test_scrubbing_costs_little(browser: Any, num_nodes: int, budget_ms: float) -> None:
    assert scrub_ms(browser, num_nodes, 10) < SLOW_MACHINE * budget_ms


@pytest.mark.browser
def test_a_stream_of_six_hundred_messages_is_drawn_whole_and_in_order(browser: Any) -> None:
    cost = stream_cost(browser, 600)
    assert cost.work_ms < GAP_MS, "more would pile up, however quick the machine's other work is"
    assert cost.lag_ms < LATE_MS


@pytest.mark.browser
def test_a_recorded_run_is_painted_soon(browser: Any) -> None:
    assert first_paint_ms(browser) < PAINTED_MS


@pytest.mark.browser
def test_every_step_of_an_engine_is_drawn_in_time(browser: Any) -> None:
    lags = engine_lags_ms(browser, num_tokens=24, is_real=False)
    assert len(lags) > 30
    assert percentile(lags, 0.95) < LATE_MS

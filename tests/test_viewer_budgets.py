"""The viewer's budgets in a short form; `python tests/measure_viewer.py` gives the figures."""

from __future__ import annotations

import pytest
from browsing import chromium
from measure_viewer import bytes_per_step, scrub_ms, stream_lag_ms

SLOW_MACHINE = 3  # times the budget: a busy machine is no fault, a cost that grows with the tree is


def test_a_step_is_small() -> None:
    assert bytes_per_step(60) < 3 * 1024
    assert bytes_per_step(250) < 10 * 1024


@pytest.mark.browser
def test_scrubbing_costs_little_and_no_message_is_lost() -> None:
    with chromium() as browser:
        assert scrub_ms(browser, 60, 10) < SLOW_MACHINE * 8
        assert scrub_ms(browser, 250, 10) < SLOW_MACHINE * 16
        assert stream_lag_ms(browser, 20) > 0  # fails where one is lost or out of order

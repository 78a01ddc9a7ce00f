"""The table of both lanes says what the trace says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import SETTINGS, chain_step, lane, plain_and_eagle, prefill, step, trace

from eagle_core.summary import FORMULAS, summary_table
from eagle_core.trace import StopReason, Trace


def rows(made: Trace) -> dict[str, list[str]]:
    """Cells of the table by the name of their row."""
    lines = summary_table(made).splitlines()
    return {line[:22].strip(): line[22:].split() for line in lines if line.strip()}


def test_every_figure_of_both_lanes_stands_in_the_table() -> None:
    made = rows(plain_and_eagle())
    assert made[""] == ["plain", "eagle"]
    assert made["tokens"] == ["5", "5"]
    assert made["target passes"] == ["4", "2"]
    assert made["τ, tokens per pass"] == ["1.00", "2.00"]
    assert made["prefill ms"] == ["100", "100"]
    assert made["draft ms"] == ["0", "8"]
    assert made["verify ms"] == ["196", "120"]
    assert made["commit ms"] == ["4", "2"]
    assert made["tokens/s"] == ["20.0", "30.8"]
    assert made["ended by"] == ["max_new_tokens", "max_new_tokens"]


def test_the_rest_says_depths_machine_speedup_equality_and_formulas() -> None:
    table = summary_table(plain_and_eagle())
    assert "accepted per depth    1: 1/2 (50%)  2: 1/1 (100%)  3: 0/1 (0%)" in table
    assert "toy, head toy-head, chain:3, rule greedy, T = 0, float32 on CPU, 1 threads" in table
    assert "speedup 1.54" in table
    assert "both texts are equal" in table
    assert table.endswith(FORMULAS)


@pytest.mark.parametrize(
    ("eagle_tokens", "said"),
    [
        ((6, 7), "both texts are equal"),
        ((6, 9), "the texts differ from token 2 on"),
        ((6,), "both texts are equal over the 2 tokens that both lanes reached"),
    ],
)
def test_equality_is_told_as_far_as_both_lanes_got(
    eagle_tokens: tuple[int, ...], said: str
) -> None:
    plain = lane("plain", prefill(), step((5,), bonus=6), step((6,), bonus=7))
    eagle = lane(
        "eagle", prefill(), chain_step(5, *eagle_tokens, kept=len(eagle_tokens), bonus=None)
    )
    assert said in summary_table(trace(plain, eagle)).splitlines()


def test_sampled_texts_are_not_compared() -> None:
    sampled = replace(SETTINGS, temperature=0.8, rule="without_replacement")
    table = summary_table(replace(plain_and_eagle(), settings=sampled))
    assert "equal" not in table
    assert "T = 0.8" in table


def test_a_lossy_rule_is_marked_and_seeded_texts_are_compared() -> None:
    lossy = replace(SETTINGS, temperature=0.8, rule="lossy_typical")
    table = summary_table(replace(plain_and_eagle(), settings=lossy))
    assert "LOSSY: under rule lossy_typical EAGLE's text is not the target's own" in table
    assert "LOSSY" not in summary_table(plain_and_eagle())
    seeded = replace(SETTINGS, temperature=0.8, rule="seeded")
    assert "both texts are equal" in summary_table(replace(plain_and_eagle(), settings=seeded))


def test_a_race_stopped_before_it_began_has_a_table_too() -> None:
    made = rows(trace(lane("plain"), lane("eagle")))
    assert made["tokens"] == ["0", "0"]
    assert made["prefill ms"] == ["-", "-"]
    assert made["ended by"] == ["-", "-"]
    assert "speedup" not in summary_table(trace(lane("plain"), lane("eagle"))).split(FORMULAS)[0]


def test_a_lane_stopped_by_hand_says_so() -> None:
    stopped = lane("plain", prefill(stop=StopReason.STOPPED))
    assert rows(trace(stopped))["ended by"] == ["stopped"]

"""Virtual time: the lane whose clock is behind takes the next step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES, prefill, step

from eagle_core.race import race
from eagle_core.trace import Event


def lane(*ms: float) -> Iterator[Event]:
    """A prefill and steps that take these times."""
    for index, one in enumerate(ms):
        yield step(ms=(0.0, one, 0.0)) if index else prefill(ms=one)


def order(**lanes: Iterator[Event]) -> str:
    return " ".join(name for name, _ in race(lanes))


def test_the_lane_that_is_behind_goes_next() -> None:
    """The clock of a shows 10, 20, 30; that of b 25, 27."""
    assert order(a=lane(10, 10, 10), b=lane(25, 2)) == "a b a a b"


def test_at_equal_clocks_the_first_lane_goes_first() -> None:
    assert order(a=lane(5, 5), b=lane(5, 5)) == "a b a b"


def test_a_lane_that_ends_leaves_the_others_to_go_on() -> None:
    assert order(a=lane(1), b=lane(50, 50, 50)) == "a b b b"
    assert order(a=iter(()), b=lane(1, 1)) == "b b"
    assert order() == ""


def test_a_step_of_no_time_does_not_hold_up_the_race() -> None:
    assert order(a=lane(0, 0, 0), b=lane(1, 1)) == "a a a b b"


def test_only_the_lane_whose_turn_it_is_runs() -> None:
    running: list[str] = []

    def noting(name: str, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            running.append(name)
            yield event

    seen = []
    for name, _ in race({"a": noting("a", lane(3, 3)), "b": noting("b", lane(4, 4))}):
        seen.append(name)
        assert running == seen


def test_what_a_lane_raises_ends_the_race() -> None:
    def breaking() -> Iterator[Event]:
        yield from lane(1, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        order(a=breaking(), b=lane(5, 5, 5))


times = st.lists(st.floats(0, 100), max_size=8)


@EXAMPLES
@given(times, times, times)
def test_nobody_runs_ahead_and_nothing_is_lost(
    one: list[float], two: list[float], three: list[float]
) -> None:
    wanted = {"one": one, "two": two, "three": three}
    clocks = dict.fromkeys(wanted, 0.0)
    seen: dict[str, list[float]] = {name: [] for name in wanted}
    for name, event in race({name: lane(*ms) for name, ms in wanted.items()}):
        unfinished = [other for other in wanted if len(seen[other]) < len(wanted[other])]
        assert clocks[name] == min(clocks[other] for other in unfinished)
        clocks[name] += event.ms
        seen[name].append(event.ms)
    assert seen == wanted

"""A race being recorded: what each moment tells, and the trace at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import pytest
from made import ENVIRONMENT, SETTINGS, chain_step, plain_and_eagle, prefill, step
from toys import TableTarget, eagle_drafter, open_decoding

from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.plans import chain
from eagle_core.recording import Recording
from eagle_core.text import TextStream
from eagle_core.trace import Event, Settings, StopReason
from eagle_core.trace_json import dump_trace, load_trace


def piece(token: int) -> str:
    return f"<{token}>"


def recording_of(**lanes: Iterator[Event]) -> Recording:
    return Recording(
        "why?",
        lanes,
        settings=SETTINGS,
        environment=ENVIRONMENT,
        piece=piece,
        stream=lambda: TextStream(lambda tokens: "".join(map(piece, tokens))),
    )


def made_lanes() -> dict[str, Iterator[Event]]:
    return {lane.method: iter(lane.events) for lane in plain_and_eagle().lanes}


def test_a_whole_race_recorded_is_its_lanes() -> None:
    recording = recording_of(**made_lanes())
    moments = list(recording)
    trace = recording.trace()
    assert trace.lanes == plain_and_eagle().lanes
    assert (trace.prompt, trace.settings, trace.environment) == ("why?", SETTINGS, ENVIRONMENT)
    assert [m.method for m in moments[:3]] == ["plain", "eagle", "plain"]
    assert "".join(t for m in moments if m.method == "eagle" for t in m.texts) == "<5><6><7><8><9>"


def test_every_token_that_occurs_has_its_look_told_once_and_first() -> None:
    recording = recording_of(**made_lanes())
    told: dict[int, str] = {}
    for moment in recording:
        assert not moment.pieces.keys() & told.keys()
        told |= moment.pieces
        nodes = getattr(moment.event, "nodes", ())
        assert {*moment.event.committed, *(node.token for node in nodes)} <= told.keys()
    assert told == recording.trace().pieces
    assert told == {token: piece(token) for token in (1, 2, 5, 6, 7, 8, 9)}


def test_before_the_first_event_the_trace_is_empty_and_valid() -> None:
    trace = recording_of(**made_lanes()).trace(stopped=True)
    assert [lane.events for lane in trace.lanes] == [(), ()]
    assert load_trace(dump_trace(trace)) == trace


@pytest.mark.parametrize("num_moments", range(1, 9))
def test_a_race_left_early_is_a_valid_trace_of_what_happened(num_moments: int) -> None:
    recording = recording_of(**made_lanes())
    moments = list(islice(recording, num_moments))
    trace = recording.trace(stopped=True)
    whole = plain_and_eagle()
    for method in ("plain", "eagle"):
        mine, full = trace.lane(method), whole.lane(method)
        assert len(mine.events) == sum(moment.method == method for moment in moments)
        assert mine.tokens == full.tokens[: len(mine.tokens)]
        if len(mine.events) < len(full.events):
            assert mine.stop is (StopReason.STOPPED if mine.events else None)
        else:
            assert mine.stop is StopReason.MAX_NEW_TOKENS
    assert load_trace(dump_trace(trace)) == trace


def test_a_race_still_running_has_no_reason_to_end() -> None:
    recording = recording_of(**made_lanes())
    next(iter(recording))
    assert recording.trace().lane("plain").stop is None
    assert recording.trace(stopped=True).lane("plain").stop is StopReason.STOPPED
    assert recording.trace().lane("plain").stop is None, "asking for a trace changes nothing"


def test_what_a_lane_raises_leaves_the_events_before_it() -> None:
    def breaking() -> Iterator[Event]:
        yield prefill()
        yield step((5,), bonus=6)
        raise KeyboardInterrupt

    recording = recording_of(plain=breaking())
    with pytest.raises(KeyboardInterrupt):
        list(recording)
    only = recording.trace(stopped=True).lane("plain")
    assert (only.tokens, only.stop) == ((5, 6), StopReason.STOPPED)


def test_lanes_have_streams_of_their_own() -> None:
    """The first half of a character in one lane, its second half in the other."""

    def decode(tokens: Sequence[int]) -> str:
        return bytes(tokens).decode("utf-8", errors="replace")

    first, second = "é".encode()
    plain = [prefill(first), step((first,), bonus=second, stop=StopReason.MAX_NEW_TOKENS)]
    eagle = [prefill(65), step((65,), bonus=66, stop=StopReason.MAX_NEW_TOKENS)]
    recording = Recording(
        "why?",
        {"plain": iter(plain), "eagle": iter(eagle)},
        settings=SETTINGS,
        environment=ENVIRONMENT,
        piece=piece,
        stream=lambda: TextStream(decode),
    )
    list(recording)
    trace = recording.trace()
    assert trace.lane("plain").texts == (("",), ("é",))
    assert trace.lane("eagle").text == "AB"


def test_a_character_left_open_comes_with_the_last_token_of_its_lane() -> None:
    half = "é".encode()[0]
    events = [prefill(65), chain_step(65, half, kept=1, bonus=None, stop=StopReason.CONTEXT)]
    recording = Recording(
        "why?",
        {"eagle": iter(events)},
        settings=SETTINGS,
        environment=ENVIRONMENT,
        piece=piece,
        stream=lambda: TextStream(lambda tokens: bytes(tokens).decode(errors="replace")),
    )
    list(recording)
    assert recording.trace().lane("eagle").texts == (("A",), ("\ufffd",))


def test_the_real_loops_leave_a_trace_that_survives_its_file() -> None:
    target, options = TableTarget(vocab_size=30, seed=1), RunOptions(max_new_tokens=12)
    prompt, plan = (1, 2, 0), chain(3)
    recording = Recording(
        "why?",
        {
            "plain": Plain(open_decoding(target, options)).steps(prompt),
            "eagle": Engine(open_decoding(target, options), eagle_drafter(target), plan=plan).steps(
                prompt
            ),
        },
        settings=Settings(12, 0.0, 1.0, 0, 0, "chain:3", "greedy"),
        environment=ENVIRONMENT,
        piece=piece,
        stream=lambda: TextStream(lambda tokens: "".join(map(piece, tokens))),
    )
    list(recording)
    trace = recording.trace()
    assert trace.lane("plain").text == trace.lane("eagle").text
    loaded = load_trace(dump_trace(trace))
    assert loaded.lane("eagle").tokens == trace.lane("eagle").tokens
    assert loaded.lane("eagle").tau == trace.lane("eagle").tau
    assert loaded.speedup == pytest.approx(trace.speedup, rel=1e-3)

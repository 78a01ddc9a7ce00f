"""Traces as JSON and back; a damaged or hostile file ends in a `TraceError` and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import EXAMPLES, chain_step, lane, plain_and_eagle, prefill, trace

from eagle_core import trace_json
from eagle_core.citation import CITATION
from eagle_core.errors import TraceError
from eagle_core.trace import (
    Candidate,
    Dropped,
    Event,
    Lane,
    Node,
    NodeLaws,
    Prefill,
    Settings,
    Step,
    StopReason,
    TopLaw,
    Trace,
    Turn,
    Verdict,
)
from eagle_core.trace_json import dump_trace, event_from_json, event_to_json, load_trace

# Round trip.

words = st.text(st.sampled_from('aé😀 \n"\\\u2028\x00'), max_size=5)
tokens = st.integers(0, 60_000)
probs = st.none() | st.integers(0, 100_000).map(lambda n: n / 100_000)
times = st.integers(0, 99_999).map(lambda n: n / 10)
stops = st.none() | st.sampled_from(StopReason)


@st.composite
def any_step(draw: st.DrawFn) -> Step:
    parents = (None, *(draw(st.integers(0, n)) for n in range(draw(st.integers(0, 6)))))
    verdicts = st.sampled_from(Verdict)
    nodes = [Node(draw(tokens), p, draw(verdicts), *(draw(probs) for _ in "1234")) for p in parents]
    path = [0]
    while (below := [n for n, p in enumerate(parents) if p == path[-1]]) and draw(st.booleans()):
        path.append(draw(st.sampled_from(below)))
    bonus, notice = draw(st.none() | tokens), draw(st.none() | words)
    clock = [draw(times) for _ in "123"]
    dropped = draw(st.none() | any_dropped(len(nodes)))
    return Step(tuple(nodes), tuple(path), bonus, *clock, draw(stops), notice, dropped=dropped)


@st.composite
def any_dropped(draw: st.DrawFn, num_nodes: int) -> Dropped:
    numbers = range(num_nodes, num_nodes + draw(st.integers(1, 4)))
    some = probs.filter(lambda prob: prob is not None)
    made = [
        Candidate(draw(tokens), draw(st.integers(0, n - 1)), draw(some), draw(some))
        for n in numbers
    ]  # type: ignore[arg-type]
    return Dropped(tuple(made), draw(probs))


@st.composite
def any_lane(draw: st.DrawFn) -> Lane:
    first = st.builds(Prefill, tokens, tokens, times, stops)
    events = draw(st.lists(first, max_size=1)) + draw(st.lists(any_step(), max_size=4))
    texts = [tuple(draw(words) for _ in event.committed) for event in events]
    return Lane(draw(words), tuple(events), tuple(texts))


any_settings = st.builds(
    Settings,
    max_new_tokens=tokens,
    temperature=times,
    top_p=st.just(0.9),
    top_k=tokens,
    seed=st.integers(0, 2**63 - 1),
    tree=words,
    rule=words,
    min_p=st.just(0.05),
    repetition_penalty=times,
    presence_penalty=st.just(-1.5),
    frequency_penalty=times,
    stop=st.lists(words, max_size=2).map(tuple),
    record_dropped=st.booleans(),
)
any_trace = st.builds(
    lambda lanes, settings, pieces, prompt: replace(
        trace(*lanes, settings=settings), pieces=pieces, prompt=prompt
    ),
    st.lists(any_lane(), max_size=3),
    any_settings,
    st.dictionaries(tokens, words, max_size=4),
    words,
)


@settings(EXAMPLES, max_examples=30)
@given(any_trace)
def test_a_trace_survives_its_json(made: Trace) -> None:
    assert load_trace(dump_trace(made)) == made


def test_the_form_is_the_documented_one() -> None:
    step = chain_step(5, 7, 9, kept=1, bonus=11, ms=(4.1, 60.2, 0.8))
    assert event_to_json(step, ["a", "b"]) == {
        "tokens": [5, 7, 9],
        "parents": [None, 0, 1],
        "verdicts": "oax",
        "draft": [None, 0.5, 0.5],
        "target": [None, 0.25, 0.25],
        "accept": [None, 0.5, 0.5],
        "draw": [None, None, None],
        "path": [0, 1],
        "bonus": 11,
        "text": ["a", "b"],
        "draft_ms": 4.1,
        "verify_ms": 60.2,
        "commit_ms": 0.8,
        "stop": None,
        "notice": None,
    }
    assert event_to_json(prefill(5, stop=StopReason.END_TOKEN), ["x"]) == {
        "prompt_tokens": 3,
        "token": 5,
        "text": ["x"],
        "prefill_ms": 100.0,
        "stop": "end_token",
    }


def test_the_tops_of_both_laws_survive_with_three_digits() -> None:
    laws = (
        NodeLaws(0, TopLaw((7, 9), (0.123456, 0.1)), TopLaw((7,), (0.5,))),
        NodeLaws(1, TopLaw((), ())),
    )
    step = replace(chain_step(5, 7, 9, kept=1, bonus=11), laws=laws)
    form = event_to_json(step, ["a", "b"])
    assert form["laws"] == [
        {
            "node": 0,
            "target": [[7, 9], [0.123, 0.1]],
            "draft": [[7], [0.5]],
        },
        {"node": 1, "target": [[], []], "draft": None},
    ]
    assert event_to_json(event_from_json(form), ["a", "b"]) == form


@pytest.mark.parametrize(
    "laws",
    [
        5,
        [5],
        [{"node": 9, "target": [[], []]}],
        [{"node": 0, "target": [[5], []]}],
        [{"node": 0, "target": [[5], [2]]}],
        [{"node": 0, "target": [[5] * 65, [0] * 65]}],
        [{"node": 0}],
    ],
)
def test_laws_that_cannot_be_are_refused(laws: Any) -> None:
    refused(with_eagle_step(laws=laws), "law")


def test_what_was_dropped_is_saved_column_by_column_and_not_sent_with_its_step() -> None:
    dropped = Dropped((Candidate(4, 1, 0.1, 0.06), Candidate(6, 3, 0.5, 0.03)), 0.2)
    step = replace(chain_step(5, 7, 9, kept=1, bonus=11), dropped=dropped)
    assert "dropped" not in event_to_json(step, ["a", "b"])
    made = trace(lane("eagle", prefill(), step))
    assert json.loads(dump_trace(made))["lanes"][0]["events"][1]["dropped"] == {
        "tokens": [4, 6],
        "parents": [1, 3],
        "draft": [0.1, 0.5],
        "values": [0.06, 0.03],
        "least_kept": 0.2,
    }
    assert load_trace(dump_trace(made)) == made


def test_numbers_keep_five_digits_whatever_their_size() -> None:
    node = Node(7, 0, Verdict.REFUSED, 0.123456789, 1.23456789e-9, 1.0, 0.99999999)
    step = chain_step(5, 7, kept=0, bonus=1, ms=(1234.5678, 0.0, 0.00012345678))
    made = event_to_json(replace(step, nodes=(step.nodes[0], node)), ["x"])
    assert [made[name][1] for name in ("draft", "target", "accept", "draw")] == [
        *(0.12346, 1.2346e-9, 1.0, 1.0),
    ]
    assert [made[f"{name}_ms"] for name in ("draft", "verify", "commit")] == [
        *(1234.6, 0.0, 0.00012346),
    ]


def test_a_loaded_trace_has_the_figures_of_the_recorded_one() -> None:
    made = plain_and_eagle()
    loaded = load_trace(dump_trace(made))
    assert (loaded.lane("eagle").tau, loaded.speedup) == (made.lane("eagle").tau, made.speedup)


def test_a_trace_of_the_first_version_is_read_with_its_later_options_at_rest() -> None:
    later = {field.name for field in fields(Settings) if field.default is not MISSING}
    old = {name: value for name, value in GOOD["settings"].items() if name not in later}
    data = GOOD | {"version": 1, "settings": old}
    del data["earlier"]
    loaded = load_trace(json.dumps(data))
    assert later
    assert loaded == plain_and_eagle()


def test_a_conversation_is_kept_and_the_second_version_had_none() -> None:
    turns = (Turn("system", "s"), Turn("user", "a"), Turn("assistant", ""))
    made = replace(plain_and_eagle(), earlier=turns)
    assert load_trace(dump_trace(made)) == made
    old = json.loads(dump_trace(made)) | {"version": 2}
    assert load_trace(json.dumps(old)).earlier == ()


def test_a_saved_trace_says_how_to_cite_it() -> None:
    assert json.loads(dump_trace(plain_and_eagle()))["cite"] == CITATION


# Damage.

GOOD = json.loads(dump_trace(plain_and_eagle()))
HOSTILE: list[Any] = [
    *(None, True, False, -1, 0, 3, 2**63, 10**400, -0.5, 0.5, 1.5, 1e308, float("inf")),
    *(float("nan"), "", "x", "1", "\ud800", "٣", [], [None], [[]], [-1], [0, 9], {}, {"1": 2}),
    *({"version": 1}, [0.5, "x"], "o" * 9, [10**30], ["stopped"]),
]


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in a JSON document, outermost first."""
    if isinstance(data, dict):
        inner = data.items()
    elif isinstance(data, list):
        inner = enumerate(data)  # type: ignore[assignment]
    else:
        return [at]
    return [at, *(place for key, value in inner for place in places(value, (*at, key)))]


def changed(data: Any, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy of `data` with `change(container, key)` done at `place`."""
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    change(inner, place[-1])
    return copy


PLACES = places(GOOD)[1:]


def loads_or_is_refused(text: str) -> Trace | None:
    """The trace, None where it was refused in one sentence; any other exception is a failure."""
    try:
        return load_trace(text)
    except TraceError as error:
        said = str(error)
    assert 0 < len(said) < 400
    assert "\n" not in said
    return None


@settings(EXAMPLES, max_examples=400)
@given(st.sampled_from(PLACES), st.sampled_from(HOSTILE))
def test_a_wrong_value_anywhere_is_refused_or_harmless(place: tuple[Any, ...], wrong: Any) -> None:
    def put(inner: Any, key: Any) -> None:
        inner[key] = wrong

    loaded = loads_or_is_refused(json.dumps(changed(GOOD, place, put)))
    if loaded is not None:
        recount(loaded)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_nothing_can_be_left_out(place: tuple[Any, ...]) -> None:
    def leave_out(inner: Any, key: Any) -> None:
        del inner[key]

    loaded = loads_or_is_refused(json.dumps(changed(GOOD, place, leave_out)))
    may_go = (
        place != ("settings", "stop") and place[-1] in ("stop", "notice", "bonus", "torch")
    ) or place[:1] in (("pieces",), ("cite",))
    is_whole_item = place[0] == "lanes" and isinstance(place[-1], int) and place[-2] != "text"
    if loaded is not None:
        assert (may_go and place != ("pieces",)) or is_whole_item, f"{place} is missed by nobody"
        recount(loaded)


@settings(EXAMPLES, max_examples=150)
@given(st.integers(0, len(dump_trace(plain_and_eagle())) - 1), st.sampled_from('0-9"]}[{,:xe.\\'))
def test_a_changed_or_missing_letter_is_refused_or_harmless(at: int, letter: str) -> None:
    text = dump_trace(plain_and_eagle())
    for damaged in (text[:at] + letter + text[at + 1 :], text[:at] + text[at + 1 :]):
        loaded = loads_or_is_refused(damaged)
        if loaded is not None:
            recount(loaded)
    assert loads_or_is_refused(text[:at]) is None, "a file cut short is never a trace"


def recount(loaded: Trace) -> None:
    """Whatever was let in must be safe to count and to save."""
    for each in loaded.lanes:
        figures = (each.tau, each.tokens_per_s, each.text, each.accepted_by_depth, each.stop)
        assert figures is not None
    assert loaded.speedup is None or loaded.speedup > 0
    dump_trace(loaded)


def refused(data: Any, said: str) -> None:
    text = data if isinstance(data, str) else json.dumps(data)
    with pytest.raises(TraceError, match=said):
        load_trace(text)


def with_eagle_step(**new: Any) -> Any:
    copy = json.loads(json.dumps(GOOD))
    copy["lanes"][1]["events"][1].update(new)
    return copy


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({"parents": [None, 2, 1, 0]}, "node 1 with parent 2; expected parents first"),
        ({"parents": [None, 1, 1, 2]}, "node 1 with parent 1"),
        ({"parents": [None, None, 1, 2]}, "node 1 with parent None"),
        ({"parents": [0, 0, 1, 2]}, "node 0 with parent 0"),
        ({"parents": [None, 0, 1]}, "3 values in event.parents; expected 4"),
        ({"parents": [None, 0.0, 1, 2]}, r"event.parents holds 0\.0"),
        ({"tokens": []}, "a step of 0 nodes"),
        ({"tokens": [5, -6, 7, 1]}, "event.tokens holds -6; expected a whole number"),
        ({"verdicts": "oax"}, "3 verdicts for 4 nodes"),
        ({"verdicts": "oaxz"}, "verdict 'z'"),
        ({"draft": [None, 1.5, 0.5, 0.5]}, r"event.draft holds 1\.5; expected a probability"),
        ({"accept": [None, -0.1, 0.5, 0.5]}, r"event.accept holds -0\.1"),
        ({"path": []}, r"path \[\]; expected nodes from the root downwards"),
        ({"path": [1, 2]}, "path"),
        ({"path": [0, 2, 3]}, "path"),
        ({"path": [0, 4]}, "path"),
        ({"path": [0, 0]}, "path"),
        ({"text": ["x"]}, "1 values in event.text; expected 3"),
        ({"stop": "tired"}, "event.stop is 'tired'; expected one of end_token"),
        ({"verify_ms": 1e16}, "event.verify_ms is"),
        ({"verify_ms": "60"}, "event.verify_ms is '60'; expected a number"),
        ({"bonus": True}, "event.bonus is True"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else None,
)
def test_a_step_that_cannot_have_happened_is_refused(new: dict[str, Any], said: str) -> None:
    refused(with_eagle_step(**new), said)


SHARED = json.loads((Path(__file__).parent / "fixtures" / "traces.json").read_text("utf-8"))
"""Cases that the browser's reader is tested over, too: both read and refuse the same."""


@pytest.mark.parametrize("case", SHARED["cases"], ids=lambda case: case["name"])
def test_what_the_browser_reads_and_refuses_is_what_python_does(case: dict[str, Any]) -> None:
    def put(inner: Any, key: Any) -> None:
        inner[key] = case["value"]

    data = changed(SHARED["trace"], tuple(case["at"]), put) if case["at"] else SHARED["trace"]
    loaded = loads_or_is_refused(json.dumps(data))
    assert (loaded is None) == (case["refused"] is not None)


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_refused(name: str) -> None:
    refused(dump_trace(plain_and_eagle()).replace("60.0", name, 1), f"the number {name}")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400, "9" * 5_000])
@pytest.mark.parametrize("key", ["verify_ms", "bonus"])
def test_numbers_too_large_are_refused(key: str, number: str) -> None:
    text = json.dumps(with_eagle_step(**{key: "HERE"}))
    refused(text.replace('"HERE"', number), ".")


@pytest.mark.parametrize("key", ["x", "-1", "1.5", "", "٣", "1" + "0" * 5_000])
def test_a_piece_of_no_token_is_refused(key: str) -> None:
    refused(json.dumps(GOOD | {"pieces": {key: "x"}}), "trace.pieces is .*token ids")


def test_a_piece_or_a_version_that_is_no_text_is_refused() -> None:
    refused(GOOD | {"pieces": {"1": 2}}, "trace.pieces is 2; expected text")
    environment = GOOD["environment"] | {"versions": {"torch": None}}
    refused(GOOD | {"environment": environment}, "environment.versions is None; expected text")


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000, "[" * 500 + "]" * 500])
def test_deep_nesting_is_refused(nested: str) -> None:
    refused(nested, ".")
    refused(json.dumps(GOOD | {"lanes": "HERE"}).replace('"HERE"', nested), ".")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("hello", "not JSON"),
        ("null", "trace is NoneType; expected an object"),
        ("[]", "trace is list"),
        ("{}", "trace without 'version'"),
        ('{"version": 4}', "a trace of version 4; expected version 1 to 3; try recording it again"),
        ('{"version": "1"}', "trace.version is '1'"),
    ],
)
def test_what_is_no_trace_of_this_version_is_refused(text: str, said: str) -> None:
    refused(text, said)


def test_too_many_nodes_events_or_letters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_json, "MAX_NODES", 3)
    refused(GOOD, "a step of 4 nodes; expected 1 to 3")
    monkeypatch.setattr(trace_json, "MAX_EVENTS", 4)
    refused(GOOD, "a lane of 5 events; expected at most 4")
    monkeypatch.setattr(trace_json, "MAX_BYTES", 100)
    refused(GOOD, "characters; expected at most 100")


def test_one_event_is_read_back_by_itself() -> None:
    events: list[Event] = [prefill(), chain_step(5, 6, 7, kept=1, bonus=2)]
    for event in events:
        texts = [""] * len(event.committed)
        assert event_from_json(json.loads(json.dumps(event_to_json(event, texts)))) == event


def test_a_lane_without_events_is_a_trace_too() -> None:
    made = trace(lane("plain"), lane("eagle", prefill()))
    assert load_trace(dump_trace(made)) == made

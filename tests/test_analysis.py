"""The panels' answers to a trace that comes from a browser, called as plain functions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from fake_bench import FakeBench
from made import lane, plain_and_eagle, prefill, step
from made import trace as traced

from app.pages import asking, what_if
from app.pages.analysis import draw_run
from app.pages.head_report import draw_report
from app.pages.what_if import HERE, OWN, answer_temperature, answer_tree, what_is_known
from app.replay import load_recordings
from app.views import markup
from app.views.charts import CHARTS
from eagle_core.cost import UNMEASURED
from eagle_core.errors import TraceError
from eagle_core.options import RunOptions
from eagle_core.trace_json import dump_trace


def recorded() -> str:
    recording = FakeBench().race("Hello", RunOptions(max_new_tokens=24))
    list(recording)
    return dump_trace(recording.trace())


def test_a_trace_gives_every_figure_and_no_words() -> None:
    said, *figures = draw_run(recorded())
    assert said["visible"] is False
    assert len(figures) == len(CHARTS)
    assert all(len(figure.data) > 0 for figure in figures)


def test_an_unseen_panel_is_left_as_it_is() -> None:
    for shown in (draw_run(""), answer_temperature("", 0.5, None)):
        assert all(value == gr.skip() for value in shown)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("null", "No finished run is on show"),
        ("[1]", "Trace is list"),
        ('{"version": 99}', "version 99"),
        ("{", "not JSON"),
    ],
)
def test_what_is_no_trace_is_answered_in_words(text: str, words: str) -> None:
    said, *figures = draw_run(text)
    assert words in said["value"]
    assert said["visible"] is True
    assert figures == [None] * len(CHARTS)


def test_words_that_quote_a_file_load_nothing() -> None:
    hostile = "![](http://x.y/a.png)<img src=http://x.y/a.png>"
    data = json.loads(recorded())
    data["lanes"][0]["method"] = hostile
    text = json.dumps(data)
    for words in (draw_run(text)[0]["value"], draw_report(text)[0]["value"]):
        assert words.startswith('<p class="ev-note">A trace of lanes ![](http://x.y')
        assert "<img" not in words


def test_lanes_nobody_knows_and_huge_traces_are_refused(monkeypatch: Any) -> None:
    strange = json.loads(dump_trace(plain_and_eagle()))
    strange["lanes"][0]["method"] = "<img>"
    with pytest.raises(TraceError, match="lanes"):
        asking.read_asked(json.dumps(strange))
    lonely = dump_trace(traced(lane("plain", prefill(), step())))
    with pytest.raises(TraceError, match="EAGLE"):
        asking.read_asked(lonely)
    monkeypatch.setattr(asking, "MAX_CHARACTERS", 10)
    with pytest.raises(TraceError, match="characters"):
        asking.read_asked(recorded())


SHIPPED = load_recordings()
NEARBY = replace(UNMEASURED, other_ms=3.0)
KNOWN = what_is_known(SHIPPED, lambda: NEARBY)


def shipped(number: int) -> str:
    return dump_trace(SHIPPED[number].trace)


def test_every_shipped_curve_and_run_is_known() -> None:
    names = [curve.name for curve in KNOWN.curves]
    assert names == ["The machine of the recorded runs", "Example: RTX 3090, LLaMA2-Chat 7B"]
    assert KNOWN.runs is not None
    assert set(KNOWN.curves[0].verify_ms) >= {1, 9, 13, 26}


@pytest.mark.parametrize("clock", KNOWN.names)
@pytest.mark.parametrize("tree", ["chain:3", "tree:25"])
def test_another_tree_is_answered_on_every_clock(clock: str, tree: str) -> None:
    for number in range(len(SHIPPED)):
        table, figure = answer_tree(KNOWN, shipped(number), tree, clock)
        assert table.count("<tr>") == 5
        assert [line.name for line in figure.data] == ["chains", "trees", "asked for"]


def test_the_recorded_tree_is_answered_by_what_was_recorded() -> None:
    trace = SHIPPED[0].trace
    assert trace.settings.tree == "tree:25"
    table, _ = answer_tree(KNOWN, shipped(0), "tree:25", OWN)
    tau = f"{trace.lane('eagle').tau:.2f}"
    assert f"<td>{tau}</td><td>{tau}</td>" in table
    assert f"<td>{trace.speedup:.2f}</td><td>≈ {trace.speedup:.2f}</td>" in table
    assert f"between {tau} and {tau} for certain" in table


@pytest.mark.parametrize("profile", [None, UNMEASURED])
def test_a_machine_that_is_not_measured_says_so(profile: Any) -> None:
    known = replace(KNOWN, profile=lambda: profile)
    words, figure = answer_tree(known, shipped(0), "chain:3", HERE)
    assert "not measured yet" in words
    assert figure is None


def test_answers_say_what_they_rest_on() -> None:
    inside, _ = answer_tree(KNOWN, shipped(0), "chain:3", OWN)
    larger, _ = answer_tree(KNOWN, shipped(1), "tree:25", KNOWN.curves[1].name)
    assert "exact for every recorded step" in inside
    assert "8 prompts were run with both trees" in inside
    assert "estimate" in larger
    assert "8 prompts were run with both trees" in larger
    assert "not measured here" in larger


def test_a_step_is_answered_at_another_temperature() -> None:
    place = {"lane": "eagle", "step": 2, "node": 0}
    table, figure = answer_temperature(shipped(2), 0.3, place)
    assert "Step 3 at T = 0.3, rule without replacement; recorded at T = 0.8" in table
    then, now = figure.data
    assert sum(then.y) == pytest.approx(1)
    assert sum(now.y) == pytest.approx(1)
    assert max(now.y) > max(then.y), "colder laws are sharper"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"lane": "plain", "step": 3}, "Step 1 at"),
        ("nonsense", "Step 1 at"),
        ({"lane": "eagle", "step": "3", "node": {}}, "Step 1 at"),
        ({"lane": "eagle", "step": 4, "node": 9999}, "Step 5 at"),
        ({"lane": "eagle", "step": 4000}, "Step 4001; expected one of"),
        ({"lane": "eagle", "step": -1}, "expected one of"),
    ],
)
def test_a_place_is_not_trusted(place: object, words: str) -> None:
    assert words in answer_temperature(shipped(0), 0.5, place)[0]


def test_questions_without_an_answer_are_answered_in_words() -> None:
    for table, figure in (
        answer_tree(KNOWN, "null", "chain:3", OWN),
        answer_temperature("null", 0.5, None),
        answer_tree(KNOWN, dump_trace(traced(lane("eagle", prefill(), step()))), "chain:3", OWN),
    ):
        assert table.startswith('<p class="ev-note">')
        assert figure is None


def test_no_text_of_a_trace_becomes_markup() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    data = json.loads(shipped(2))
    data["settings"]["tree"] = data["environment"]["device"] = hostile
    data["pieces"] = dict.fromkeys(data["pieces"], hostile)
    text = json.dumps(data)
    for table, figure in (
        answer_tree(KNOWN, text, "chain:3", OWN),
        answer_temperature(text, 0.5, {"lane": "eagle", "step": 0}),
    ):
        assert "<img" not in table
        assert "&lt;img" in table
        assert "<img" not in figure.to_json().replace("\\u003c", "<")
    assert all("<img" not in figure.to_json() for figure in draw_run(text)[1:])


def test_damaged_knowledge_is_left_out(
    tmp_path: Path, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.json").write_text("{")
    monkeypatch.setattr(what_if, "FOLDER", tmp_path)
    monkeypatch.setattr(what_if, "RUNS", tmp_path / "walks.json")
    assert what_is_known((), lambda: None).names == [OWN, HERE]
    assert "left out a.json" in caplog.text
    assert "left out walks.json" in caplog.text


def test_a_column_without_a_name_is_announced_as_no_header() -> None:
    assert "<td></td><th" in markup.table("Caption", ("", "τ"), [("row", "2.0")])

"""The panels' answers to a trace that comes from a browser, called as plain functions."""

from __future__ import annotations

import json
from typing import Any

import gradio as gr
import pytest
from fake_bench import FakeBench
from made import lane, plain_and_eagle, prefill, step
from made import trace as traced

from app.pages import asking
from app.pages.analysis import draw_run
from app.views.charts import CHARTS
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
    assert [len(figure.data) > 0 for figure in figures] == [
        chart.name != "entropy" for chart in CHARTS
    ], "made-up steps have no laws"


def test_an_unseen_panel_is_left_as_it_is() -> None:
    assert all(value == gr.skip() for value in draw_run(""))


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

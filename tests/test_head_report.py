"""The page's head report: its acts, its tables, and the files it writes."""

from __future__ import annotations

import json
from dataclasses import replace

import gradio as gr
from made import plain_and_eagle

from app.pages.head_report import draw_report, write_report
from app.views.head_report import report_markup
from eagle_core.report import report_on
from eagle_core.trace_json import dump_trace

HOSTILE = "<img src=x onerror=alert(1)>${x}"
TRACE = replace(
    plain_and_eagle(), pieces={1: HOSTILE, 2: "!", 5: "The", 6: " sun", 7: "ny", 8: " 42", 9: "\n"}
)


def test_the_report_is_drawn_from_the_trace_on_show() -> None:
    said, tables = draw_report(dump_trace(TRACE))
    assert said["visible"] is False
    assert "depth 3" in tables
    assert "Most frequent of 2 misses" in tables
    assert "␣42" in tables


def test_what_a_model_said_is_never_markup() -> None:
    shown = report_markup(report_on([TRACE]))
    assert "<img" not in shown
    assert "&lt;img␣src=x" in shown


def test_no_trace_changes_nothing_and_a_wrong_one_is_said() -> None:
    assert all(value == gr.skip() for value in draw_report(""))
    said, tables = draw_report("null")
    assert "No finished run is on show." in said["value"]
    assert tables == ""


def test_the_files_carry_environment_and_citation() -> None:
    for form in ("json", "csv"):
        _, text = write_report(form, dump_trace(TRACE))
        assert "toy-head" in text
        assert "ICML 2024" in text
    assert json.loads(write_report("json", dump_trace(TRACE))[1])["num_misses"] == 2


def test_no_file_is_written_of_no_trace_and_it_is_said() -> None:
    said, text = write_report("csv", "null")
    assert (said["visible"], text) == (True, "")
    assert "No finished run is on show." in said["value"]

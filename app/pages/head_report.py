"""Where the head is right and where it fails, counted from the trace on show."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import gradio as gr

from app.pages.asking import (
    QUIET,
    ask_script,
    keep_answered,
    read_asked,
    say,
    trace_box,
    words_box,
)
from app.views.head_report import report_markup
from eagle_core.errors import EagleError
from eagle_core.report import report_on
from eagle_core.report_forms import FORMS

MARK = "head-report"
FILES = {"json": "application/json", "csv": "text/csv"}
HEAD = f"""<p class="ev-note" id="{MARK}">Every place at which the head had drafted, in the run on
show. Several saved traces together: <code>python -m eagle_core report TRACE…</code></p>"""


def add_head_report(viewer: gr.HTML) -> None:
    """A panel below the viewer, closed at first."""
    asked = trace_box()
    with gr.Accordion("Where the head fails", open=False, elem_id="head-report-panel") as panel:
        gr.HTML(HEAD, elem_classes="ev-flush", apply_default_css=False)
        said = words_box()
        table = gr.HTML(elem_classes="ev-flush", apply_default_css=False)
        with gr.Row(elem_classes="ev-actions"):
            for form in FILES:
                _add_export(form, said)
    keep_answered(draw_report, [asked], [said, table], panel=panel, viewer=viewer, mark=MARK)


def draw_report(asked: str) -> tuple[Any, Any]:
    """Words where there is no report, else the report; untouched for no trace."""
    if not asked:
        return gr.skip(), gr.skip()
    try:
        return gr.update(visible=False), report_markup(report_on([read_asked(asked)]))
    except EagleError as error:
        return say(error), ""


def write_report(form: str, asked: str) -> tuple[Any, str]:
    """Words where there is no report, and the report as a file's text, else empty."""
    try:
        return gr.update(visible=False), FORMS[form](report_on([read_asked(asked)]))
    except EagleError as error:
        return say(error), ""


def _add_export(form: str, said: gr.HTML) -> None:
    """The server writes the text, the browser makes it a file."""
    asked, text = trace_box(), gr.Textbox(visible=False, label="The report as text")
    button = gr.Button(f"Save as {form.upper()}", size="sm", min_width=110)
    written = button.click(
        partial(write_report, form), asked, [said, text], js=ask_script(), **QUIET
    )
    written.then(None, text, None, js=_save_script(form), api_visibility="private")


def _save_script(form: str) -> str:
    name, kind = json.dumps(f"head-report.{form}"), json.dumps(FILES[form])
    return f"""(text) => {{
  if (!text) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {{ type: {kind} }}));
  link.download = {name};
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}}"""

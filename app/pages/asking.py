"""How a panel of the page gets at the trace on show, whoever gave it: a run, a recording, a file.

The browser has it and sends it along with the question, so the server keeps nothing of a visitor
between two questions, and trusts the trace as little as any file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from app.views.markup import paragraph
from eagle_core.errors import EagleError, TraceError
from eagle_core.trace import Trace
from eagle_core.trace_json import load_trace

HIDDEN: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
QUIET: dict[str, Any] = {**HIDDEN, "queue": False}
LAST: dict[str, Any] = {**QUIET, "trigger_mode": "always_last"}
"""For questions that come while an answer is pending: the last of them is asked, too."""
MAX_CHARACTERS = 8 * 1024 * 1024
NOTHING_YET = "No finished run is on show."
WHERE = (
    "Worked out on the page's server from the trace on show, which the browser sends there; "
    "nothing is kept."
)

# No panel asks what was dropped, which may be most of a trace.
_TRACE = (
    "JSON.stringify(document.querySelector('.eagle-viewer')?.state?.trace ?? null, "
    "(key, value) => (key === 'dropped' ? undefined : value))"
)


def ask_script(num_more: int = 0) -> str:
    """JavaScript that puts the trace in place of a listener's first input; `num_more` follow."""
    return f"(_, ...rest) => [{_TRACE}, ...rest.slice(0, {num_more})]"


def ask_if_seen_script(element: str, num_more: int = 0) -> str:
    """As `ask_script`; the trace is left out while the element of that id is not to be seen."""
    seen = f"document.getElementById({element!r})?.checkVisibility()"
    return f"(_, ...rest) => [{seen} ? {_TRACE} : '', ...rest.slice(0, {num_more})]"


def keep_answered(
    fn: Callable[..., Any],
    inputs: Sequence[Component],
    outputs: Sequence[Component],
    *,
    panel: gr.Accordion,
    viewer: gr.HTML,
    mark: str,
) -> None:
    """Ask when the panel is opened and, while its element `mark` is to be seen, for every new
    trace. The first input is the trace, "" while the panel is closed."""
    num_more = len(inputs) - 1
    panel.expand(fn, inputs, outputs, js=ask_script(num_more), **LAST)
    viewer.trace(fn, inputs, outputs, js=ask_if_seen_script(mark, num_more), **LAST)


def note(element: str) -> None:
    """Says where a panel's answers come from; by the element of that id scripts see the panel."""
    gr.HTML(
        f'<p class="ev-note" id="{element}">{WHERE}</p>',
        elem_classes="ev-flush",
        apply_default_css=False,
    )


def heading(title: str, formula: str) -> None:
    """Above a figure, where long words can wrap."""
    gr.HTML(f"<h3>{title}</h3><p>{formula}</p>", elem_classes="ev-flush", apply_default_css=False)


def trace_box() -> gr.Textbox:
    """The input that the scripts fill."""
    return gr.Textbox(visible=False, label="The trace on show")


def read_asked(text: str) -> Trace:
    """Raises `TraceError` where there is none, or none that EAGLE had a part in."""
    if len(text) > MAX_CHARACTERS:
        raise TraceError(f"a trace of {len(text):,} characters", expected=f"up to {MAX_CHARACTERS}")
    if text in ("", "null"):
        raise TraceError(NOTHING_YET)
    trace = load_trace(text)
    methods = [lane.method for lane in trace.lanes]
    if "eagle" not in methods or not {*methods} <= {"plain", "eagle"}:
        raise TraceError(f"a trace of lanes {', '.join(methods)[:60]}", expected="one of EAGLE")
    return trace


def words_box() -> gr.HTML:
    """For `in_words` as a paragraph; hidden while there is nothing to say."""
    return gr.HTML(visible=False, elem_classes="ev-flush", apply_default_css=False)


def say(error: EagleError) -> dict[str, Any]:
    """What a `words_box` is to show."""
    return gr.update(value=paragraph(in_words(error)), visible=True)


def in_words(error: EagleError) -> str:
    """Plain text that may quote a file: for a text box as it is, for HTML through `paragraph`,
    never for Markdown, which would load a picture that a file names."""
    text = str(error)
    return text[:1].upper() + text[1:]

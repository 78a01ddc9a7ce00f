"""The conversation above the lanes, and how a follow-up takes it along.

The browser has the trace on show and sends its turns with the question, so that the server keeps
nothing of a visitor between two questions. The turns are drawn in the browser, as text alone.
"""

from __future__ import annotations

from pathlib import Path

import gradio as gr

SCRIPT = Path(__file__).parents[2] / "assets" / "conversation.js"
TEMPLATE = '<ol class="ev-turns"></ol>'
LABEL = "Continue the conversation"

_SAID = """(() => {
  const trace = document.querySelector(".eagle-viewer")?.state?.trace;
  if (!trace) return [];
  const plain = trace.lanes.find(({ method }) => method === "plain") ?? trace.lanes[0];
  const answer = plain?.events.flatMap(({ text }) => text).join("") ?? "";
  const turn = (role, content) => ({ role, content });
  return [...(trace.earlier ?? []), turn("user", trace.prompt), turn("assistant", answer)];
})()"""


def said_script(*, num_before: int) -> str:
    """JavaScript for a listener whose inputs are `num_before` fields, the checkbox, and the turns
    so far: where the box is ticked it puts these in, those of the trace on show."""
    return f"""(...values) => {{
  const isFollowUp = values[{num_before}];
  values[{num_before + 1}] = isFollowUp ? JSON.stringify({_SAID}) : "[]";
  return values;
}}"""


def add_choice() -> gr.Checkbox:
    """Ticked, a run goes on from what is on show; unticked, it starts afresh."""
    return gr.Checkbox(False, label=LABEL, elem_id="follow-up", container=False, min_width=200)


def add_turns() -> gr.HTML:
    """What was said so far; it follows the viewer, whatever is on show there."""
    return gr.HTML(
        html_template=TEMPLATE,
        js_on_load=SCRIPT.read_text("utf-8"),
        elem_id="turns",
        elem_classes="ev-flush",
        apply_default_css=False,
    )

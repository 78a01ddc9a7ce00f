"""The race: a prompt, two lanes, and every step of them.

Only wires components to acts. What is shown is made in `app.views` and drawn by the viewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.pages.acts import Acts
from app.pages.analysis import add_run_panel
from app.pages.asking import HIDDEN
from app.pages.conversation import add_choice, add_turns, said_script
from app.pages.examples import add_examples, load_groups
from app.pages.form import Form, add_settings, add_settings_button, add_settings_line
from app.pages.head_report import add_head_report
from app.pages.tree_editor import add_tree_editor
from app.pages.what_if import add_what_if_panel
from app.replay import Recorded
from app.runner import Runner
from app.viewer import TEMPLATE, viewer_head, viewer_script

PANELS = Path(__file__).parents[2] / "assets" / "panels.js"
HEADING = """<header class="ev-heading"><h1>EAGLE, step by step</h1>
<p>A small head guesses several tokens ahead; the model checks all of them in one pass.
The same text, in fewer passes.</p></header>"""


class Shown(NamedTuple):
    """What acts change, in the order in which they return it."""

    viewer: gr.HTML
    run: gr.Button
    stop: gr.Button


def add_race_page(demo: gr.Blocks, runner: Runner, recordings: Sequence[Recorded]) -> None:
    acts = Acts(runner, recordings)
    settings = add_settings(runner.heads)
    gr.HTML(HEADING, elem_classes="ev-flush", apply_default_css=False)
    with gr.Row():
        with gr.Column(scale=5, min_width=320):
            form = Form(_prompt_box(), settings.options, settings.head)
            with gr.Row(elem_classes="ev-actions"):
                run = gr.Button("Run", variant="primary", elem_id="run", min_width=110)
                stop = gr.Button("Stop", interactive=False, elem_id="stop", min_width=80)
                add_settings_button()
                follows = add_choice()
            add_settings_line(form.options)
        with gr.Column(scale=4, min_width=320):
            add_examples(load_groups(), form)
            replays = _add_recordings(recordings)
    add_turns()
    viewer = gr.HTML(
        html_template=TEMPLATE,
        js_on_load=viewer_script(),
        head=viewer_head(),
        apply_default_css=False,
        elem_id="viewer",
        elem_classes="ev-flush",
    )
    add_run_panel(viewer)
    add_what_if_panel(viewer, runner, recordings)
    add_head_report(viewer)
    starts = [run.click, form.prompt.submit, add_tree_editor(viewer, form).click]
    _wire(demo, acts, form, follows, Shown(viewer, run, stop), starts=starts)
    filled = [viewer, form.prompt, *form.options, form.head]
    viewer.link(acts.follow_link, None, filled, concurrency_limit=None, **HIDDEN)
    for number, chip in enumerate(replays):
        chip.click(partial(acts.replay, number), None, viewer, concurrency_limit=None, **HIDDEN)


def _prompt_box() -> gr.Textbox:
    return gr.Textbox(
        label="Prompt",
        placeholder="Ask something, or take an example",
        lines=4,
        max_lines=8,
        elem_id="prompt",
    )


def _add_recordings(recordings: Sequence[Recorded]) -> list[gr.Button]:
    """A chip per recorded run."""
    if not recordings:
        return []
    with gr.Row(elem_classes="ev-chips ev-recordings"):
        gr.HTML("<span>Recorded runs</span>", elem_classes="ev-flush", apply_default_css=False)
        return [gr.Button(recorded.title, size="sm", min_width=60) for recorded in recordings]


def _wire(
    demo: gr.Blocks,
    acts: Acts,
    form: Form,
    follows: gr.Checkbox,
    shown: Shown,
    *,
    starts: Sequence[Any],
) -> None:
    """A click on Run is answered at once, its run when its turn comes.

    Nothing is dropped by the browser ("multiple") and nothing cancelled there: which run is whose,
    and which was taken back, is known to the server alone.
    """
    buttons = [shown.run, shown.stop]
    name = gr.Textbox(visible=False, label="Name of the run, empty for a new one")
    earlier = gr.Textbox("[]", visible=False, label="Turns before the prompt, as JSON")
    asks = [form.prompt, *form.options, form.head]
    demo.load(acts.open_page, None, shown.viewer, concurrency_limit=None, **HIDDEN)
    demo.load(None, None, None, js=PANELS.read_text("utf-8"), api_visibility="private")
    demo.unload(acts.leave)
    asked = gr.on(
        starts,
        acts.begin,
        None,
        [name, *buttons],
        queue=False,
        trigger_mode="multiple",
        **HIDDEN,
    )
    running = asked.then(
        acts.answer,
        [*asks, follows, earlier, name],
        shown.viewer,
        js=said_script(num_before=len(asks)),
        concurrency_id="device",
        concurrency_limit=1,
        trigger_mode="multiple",
        show_progress="hidden",
        api_name="race",
    )
    running.then(acts.buttons, None, buttons, queue=False, trigger_mode="multiple", **HIDDEN)
    shown.stop.click(
        acts.stop,
        None,
        [shown.viewer, *buttons],
        concurrency_limit=None,
        trigger_mode="multiple",
        **HIDDEN,
    )

"""The race: a prompt, two lanes, and every step of them.

Only wires components to acts. What is shown is made in `app.views` and drawn by the viewer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from app.links import BOUNDS, TREES
from app.pages.acts import Acts
from app.pages.analysis import add_run_panel
from app.replay import Recorded
from app.runner import Runner
from app.viewer import TEMPLATE, viewer_head, viewer_script

EXAMPLES = Path(__file__).parents[2] / "assets" / "prompts" / "examples.json"
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

HEADING = """<header class="ev-heading"><h1>EAGLE, step by step</h1>
<p>A small head guesses several tokens ahead; the model checks all of them in one pass.
The same text, in fewer passes.</p></header>"""


class Form(NamedTuple):
    prompt: gr.Textbox
    length: gr.Slider
    temperature: gr.Slider
    seed: gr.Number
    tree: gr.Dropdown


class Shown(NamedTuple):
    """What acts change, in the order in which they return it."""

    viewer: gr.HTML
    run: gr.Button
    stop: gr.Button


def add_race_page(demo: gr.Blocks, runner: Runner, recordings: Sequence[Recorded]) -> None:
    acts = Acts(runner, recordings)
    gr.HTML(HEADING, elem_classes="ev-flush", apply_default_css=False)
    with gr.Row():
        with gr.Column(scale=5, min_width=320):
            prompt = _prompt_box()
            with gr.Row(elem_classes="ev-actions"):
                _add_examples(prompt)
                run = gr.Button("Run", variant="primary", elem_id="run", min_width=110)
                stop = gr.Button("Stop", interactive=False, elem_id="stop", min_width=80)
        with gr.Column(scale=4, min_width=320):
            form = _settings(prompt)
            replays = _add_recordings(recordings)
    viewer = gr.HTML(
        html_template=TEMPLATE,
        js_on_load=viewer_script(),
        head=viewer_head(),
        apply_default_css=False,
        elem_id="viewer",
        elem_classes="ev-flush",
    )
    add_run_panel(viewer)
    _wire(demo, acts, form, Shown(viewer, run, stop))
    viewer.link(acts.follow_link, None, [viewer, *form], concurrency_limit=None, **QUIET)
    for number, chip in enumerate(replays):
        chip.click(partial(acts.replay, number), None, viewer, concurrency_limit=None, **QUIET)


def _prompt_box() -> gr.Textbox:
    return gr.Textbox(
        label="Prompt",
        placeholder="Ask something, or take an example",
        lines=4,
        max_lines=8,
        elem_id="prompt",
    )


def _add_examples(prompt: gr.Textbox) -> None:
    """A chip per example; the browser puts its prompt into the box."""
    with gr.Row(elem_classes="ev-chips"):
        for example in json.loads(EXAMPLES.read_text("utf-8")):
            chip = gr.Button(example["label"], size="sm", min_width=60)
            script = f"() => {json.dumps(example['prompt'])}"
            chip.click(None, None, prompt, js=script, api_visibility="private")


def _settings(prompt: gr.Textbox) -> Form:
    with gr.Row():
        length = gr.Slider(
            *BOUNDS["max_new_tokens"], 128, step=1, label="Length, tokens", min_width=150
        )
        temperature = gr.Slider(
            *BOUNDS["temperature"], 0, step=0.05, label="Temperature", min_width=150
        )
    with gr.Row():
        tree = gr.Dropdown([*TREES], value="auto", label="Draft tree", min_width=150)
        seed = gr.Number(0, label="Seed", precision=0, minimum=0, min_width=150)
    return Form(prompt, length, temperature, seed, tree)


def _add_recordings(recordings: Sequence[Recorded]) -> list[gr.Button]:
    """A chip per recorded run."""
    if not recordings:
        return []
    with gr.Row(elem_classes="ev-chips ev-recordings"):
        gr.HTML("<span>Recorded runs</span>", elem_classes="ev-flush", apply_default_css=False)
        return [gr.Button(recorded.title, size="sm", min_width=60) for recorded in recordings]


def _wire(demo: gr.Blocks, acts: Acts, form: Form, shown: Shown) -> None:
    """A click on Run is answered at once, its run when its turn comes.

    Nothing is dropped by the browser ("multiple") and nothing cancelled there: which run is whose,
    and which was taken back, is known to the server alone.
    """
    buttons = [shown.run, shown.stop]
    name = gr.Textbox(visible=False, label="Name of the run, empty for a new one")
    demo.load(acts.open_page, None, shown.viewer, concurrency_limit=None, **QUIET)
    demo.unload(acts.leave)
    asked = gr.on(
        [shown.run.click, form.prompt.submit],
        acts.begin,
        None,
        [name, *buttons],
        queue=False,
        trigger_mode="multiple",
        **QUIET,
    )
    running = asked.then(
        acts.answer,
        [*form, name],
        shown.viewer,
        concurrency_id="device",
        concurrency_limit=1,
        trigger_mode="multiple",
        show_progress="hidden",
        api_name="race",
    )
    running.then(acts.buttons, None, buttons, queue=False, trigger_mode="multiple", **QUIET)
    shown.stop.click(
        acts.stop,
        None,
        [shown.viewer, *buttons],
        concurrency_limit=None,
        trigger_mode="multiple",
        **QUIET,
    )

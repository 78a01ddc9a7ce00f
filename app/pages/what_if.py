"""Ask what if: another tree, another machine, another temperature, from the trace on show alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from app.links import BOUNDS
from app.pages.asking import (
    LAST,
    ask_if_seen_script,
    ask_script,
    heading,
    in_words,
    keep_answered,
    note,
    read_asked,
    trace_box,
)
from app.replay import Recorded
from app.runner import Runner
from app.views.markup import paragraph
from app.views.other_temperature import laws_at, other_temperature
from app.views.other_tree import CHAINS, TREES, other_tree, speedup_by_size, tree_label
from eagle_core.cost import UNMEASURED, Profile
from eagle_core.errors import EagleError, OptionError
from eagle_core.latency import Clock, LatencyCurve, MeasuredClock, curve_of, load_curve
from eagle_core.trace import Trace
from eagle_core.whatif_runs import TreeRuns, load_runs

FOLDER = Path(__file__).parents[2] / "assets" / "whatif"
RUNS = FOLDER / "walks.json"
OWN = "The clock of this trace"
HERE = "This machine, as measured"
MARK = "what-if"
SIZES = "Speedup by size of the tree"
SIZES_FORMULA = (
    "τ · plain ms per step ÷ ms per step, for chains and for EAGLE's static tree cut to its best "
    "nodes. Open marks: τ is an estimate, or the time lies past the last measured point."
)
LAWS = "The target's law, then and now"
LAWS_FORMULA = (
    "After the node picked in the viewer where the walk visited it, else after the root: its "
    "most probable tokens as recorded, and at the other temperature."
)
PLACE = "document.querySelector('.eagle-viewer')?.state?.view ?? null"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Known:
    """What answers are measured against: clocks by name, and real runs.

    profile: gives what was measured on this machine, once it was.
    """

    profile: Callable[[], Profile | None]
    curves: tuple[LatencyCurve, ...]
    runs: TreeRuns | None

    @property
    def names(self) -> list[str]:
        return [OWN, HERE, *(curve.name for curve in self.curves)]

    def clock(self, name: str, trace: Trace) -> Clock:
        """The trace's own for any name that is not known. Raises `OptionError` for this machine's
        where it was not measured."""
        if name == HERE:
            return clock_of_here(self.profile(), trace)
        named = [curve for curve in self.curves if curve.name == name]
        return named[0] if named else own_curve(trace)


def clock_of_here(profile: Profile | None, trace: Trace) -> MeasuredClock:
    """At the middle of the trace's text, since a longer text makes a pass dearer."""
    if profile is None or profile == UNMEASURED:
        raise OptionError("this machine is not measured yet", hint="again once the model is loaded")
    eagle = trace.lane("eagle")
    prompt = eagle.prefill.num_prompt_tokens if eagle.prefill else 0
    middle = prompt + len(eagle.tokens) // 2
    return MeasuredClock(
        HERE.lower(),
        f"Clock: target passes and drafts of every size, measured on this machine, with {middle} "
        "tokens in the cache as in the middle of this text.",
        profile.prices(middle),
    )


def own_curve(trace: Trace) -> LatencyCurve:
    environment = trace.environment
    return curve_of(
        [trace],
        name=OWN.lower(),
        source=f"Clock: the means of this trace's steps, {environment.device}, "
        f"{environment.dtype}. It was measured with one tree and without any.",
    )


def what_is_known(recordings: Sequence[Recorded], profile: Callable[[], Profile | None]) -> Known:
    """The shipped curves and runs; a damaged one is logged and left out."""
    curves = [] if not recordings else [_curve_of_recordings(recordings)]
    for path in sorted(FOLDER.glob("*.json")):
        if path != RUNS:
            curves += _or_nothing(load_curve, path)
    runs = _or_nothing(load_runs, RUNS)
    return Known(profile, tuple(curves), runs[0] if runs else None)


def _or_nothing(load: Any, path: Path) -> list[Any]:
    try:
        return [load(path)]
    except (EagleError, OSError, UnicodeDecodeError) as error:
        log.warning("left out %s: %s", path.name, error)
        return []


def _curve_of_recordings(recordings: Sequence[Recorded]) -> LatencyCurve:
    first = recordings[0].trace.environment
    alike = [one.trace for one in recordings if one.trace.environment == first]
    sizes = sorted({len(step.nodes) for trace in alike for step in trace.lane("eagle").steps})
    return curve_of(
        alike,
        name="The machine of the recorded runs",
        source=f"Clock: {len(alike)} recorded runs on one machine, {first.device}, {first.dtype}, "
        f"{first.threads} threads, target passes of 1 and up to {sizes[-1]} rows.",
    )


def add_what_if_panel(viewer: gr.HTML, runner: Runner, recordings: Sequence[Recorded]) -> None:
    known = what_is_known(recordings, lambda: runner.profile)
    with gr.Accordion("What if", open=False, elem_classes="ev-charts") as panel:
        note(MARK)
        _add_trees(viewer, panel, known)
        _add_temperatures(viewer, panel)


def _add_trees(viewer: gr.HTML, panel: gr.Accordion, known: Known) -> None:
    asked = trace_box()
    choices = [(tree_label(tree), tree) for tree in (*CHAINS, *TREES)]
    with gr.Row():
        tree = gr.Dropdown(choices, value="chain:3", label="With another tree", elem_id="if-tree")
        clock = gr.Dropdown(known.names, value=OWN, label="On the clock of", elem_id="if-clock")
    with gr.Row():
        with gr.Column(min_width=300):
            answer = _answer("if-answer")
        with gr.Column(min_width=300, elem_classes="ev-figure"):
            heading(SIZES, SIZES_FORMULA)
            plot = gr.Plot(show_label=False, elem_id="if-speedup", container=False)
    fn, inputs, outputs = partial(answer_tree, known), [asked, tree, clock], [answer, plot]
    keep_answered(fn, inputs, outputs, panel=panel, viewer=viewer, mark=MARK)
    gr.on([tree.input, clock.input], fn, inputs, outputs, js=ask_script(2), **LAST)


def _add_temperatures(viewer: gr.HTML, panel: gr.Accordion) -> None:
    asked = trace_box()
    with gr.Row():
        temperature = gr.Slider(
            *BOUNDS["temperature"],
            0.8,
            step=0.05,
            label="The step on show at temperature",
            elem_id="if-heat",
        )
        freeze = gr.Button("Take the step on show", elem_id="if-freeze", size="sm", scale=0)
    place = gr.JSON(visible=False, label="The step that was taken")
    with gr.Row():
        with gr.Column(min_width=300):
            answer = _answer("if-step")
        with gr.Column(min_width=300, elem_classes="ev-figure"):
            heading(LAWS, LAWS_FORMULA)
            plot = gr.Plot(show_label=False, elem_id="if-laws", container=False)
    fn, inputs, outputs = answer_temperature, [asked, temperature, place], [answer, plot]
    for takes in (panel.expand, viewer.trace, freeze.click):
        taken = takes(None, None, place, js=f"() => {PLACE}", **LAST)
        taken.then(fn, inputs, outputs, js=ask_if_seen_script(MARK, 2), **LAST)
    temperature.input(fn, inputs, outputs, js=ask_script(2), **LAST)


def _answer(name: str) -> gr.HTML:
    return gr.HTML(elem_id=name, elem_classes="ev-flush ev-answer", apply_default_css=False)


def answer_tree(known: Known, text: str, tree: str, clock: str) -> tuple[Any, Any]:
    """A table in HTML and a figure; words instead where nothing can be said."""
    if not text:
        return gr.skip(), gr.skip()
    try:
        trace = read_asked(text)
        time = known.clock(clock, trace)
        table = other_tree(trace, tree, time, known.runs)
        return table, speedup_by_size(trace, time, chosen=tree)
    except EagleError as error:
        return paragraph(in_words(error)), None


def answer_temperature(text: str, temperature: float, place: object) -> tuple[Any, Any]:
    """As `answer_tree`, for the step that was taken; `place` is the viewer's own word."""
    if not text:
        return gr.skip(), gr.skip()
    try:
        trace = read_asked(text)
        number, node = _read_place(place)
        table = other_temperature(trace, number, temperature)
        return table, laws_at(trace, number, temperature, node=node)
    except EagleError as error:
        return paragraph(in_words(error)), None


def _read_place(place: object) -> tuple[int, int | None]:
    """Step and node; the first step where the viewer looks at none of EAGLE's."""
    parts = place if isinstance(place, dict) and place.get("lane") == "eagle" else {}
    step, node = parts.get("step"), parts.get("node")
    return step if type(step) is int else 0, node if type(node) is int else None

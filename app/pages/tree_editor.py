"""A static tree made by hand: see it, change it a branch at a time, see its worth, run it.

The tree is the text in one box, `ranks:0.1.00`; everything else follows from it. What its nodes are
worth is measured in the trace on show, which the browser sends along with every change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from app.pages.asking import (
    QUIET,
    ask_script,
    in_words,
    keep_answered,
    read_asked,
    trace_box,
)
from app.pages.form import Form
from app.views.plan_picture import expectation, plan_picture
from eagle_core.errors import EagleError
from eagle_core.expected import FORMULA, RankRates
from eagle_core.shapes import (
    ROOT_NAME,
    Ranks,
    Shape,
    after_move,
    exchanged,
    moved,
    node_name,
    node_named,
    read_shape,
    shape_name,
    shape_of,
    with_child,
    without_node,
)
from eagle_core.whatif import fixed_plan

MARK = "tree-by-hand"
FIRST = "ranks:0.1.2.00.01.10.000"
SCRIPT = Path(__file__).parents[2] / "assets" / "tree_editor.js"
HEAD = f"""<p class="ev-note" id="{MARK}">A node is named by the rank of each choice from the root
down: 01 is the second choice after the first. {FORMULA[:1].upper()}{FORMULA[1:]}; where a depth
never had such a choice, the share of that rank over all depths stands in.</p>"""

Changed = tuple[Shape, Ranks]
"""The new shape and the node to pick in it."""
Change = Callable[[Shape, Ranks, Ranks], Changed]
"""Takes the shape, the picked node, and the one to move it under."""


def _add(shape: Shape, node: Ranks, _: Ranks) -> Changed:
    grown = with_child(shape, node)
    return grown, max(other for other in grown if other[:-1] == node)


def _remove(shape: Shape, node: Ranks, _: Ranks) -> Changed:
    return without_node(shape, node), node[:-1]


def _move(shape: Shape, node: Ranks, under: Ranks) -> Changed:
    changed = moved(shape, node, under=under)
    return changed, after_move(node, under=under, shape=changed)


def _exchange(by: int) -> Change:
    return lambda shape, node, _: (exchanged(shape, node, by=by), (*node[:-1], node[-1] + by))


CHANGES: Mapping[str, Change] = {
    "Add child": _add,
    "Remove": _remove,
    "Earlier": _exchange(-1),
    "Later": _exchange(1),
    "Move": _move,
}


def add_tree_editor(viewer: gr.HTML, form: Form) -> gr.Button:
    """The panel; gives the button that puts its tree into the form and asks for a run."""
    asked = trace_box()
    with gr.Accordion("A tree by hand", open=False, elem_id="by-hand") as panel:
        gr.HTML(HEAD, elem_classes="ev-flush", apply_default_css=False)
        picture = gr.HTML(
            js_on_load=SCRIPT.read_text("utf-8"), elem_classes="ev-flush", apply_default_css=False
        )
        worth = gr.Textbox(label="What it is worth", interactive=False, elem_id="tree-worth")
        with gr.Row(elem_classes="ev-actions"):
            picked, place = (_node_choice(label) for label in ("Node", "Move it under"))
            buttons = {name: gr.Button(name, size="sm", min_width=80) for name in CHANGES}
        with gr.Row(elem_classes="ev-actions"):
            text = gr.Textbox(FIRST, label="The tree as text", elem_id="tree-text", min_width=260)
            taken = gr.Button("Take the tree of the run", size="sm", min_width=170)
            use = gr.Button("Run this tree", variant="primary", min_width=140, elem_id="run-tree")
    inputs, shown = [asked, text, picked, place], [picture, worth, text, picked, place]
    script = ask_script(3)
    keep_answered(show_if_seen, inputs, shown, panel=panel, viewer=viewer, mark=MARK)
    gr.on([text.submit, picked.input], show, inputs, shown, js=script, **QUIET)
    picture.pick(pick, inputs, shown, js=script, **QUIET)
    taken.click(take_tree, inputs, shown, js=script, **QUIET)
    for name, button in buttons.items():
        button.click(_changing(CHANGES[name]), inputs, shown, js=script, **QUIET)
    use.click(
        None,
        [text, form.prompt],
        [form.option("tree"), form.prompt],
        js=_USE,
        api_visibility="private",
    )
    return use


# Without a prompt the one on show is asked again.
_USE = """(tree, prompt) =>
  [tree, prompt || document.querySelector(".eagle-viewer")?.state?.prompt || ""]"""


def _node_choice(label: str) -> gr.Dropdown:
    return gr.Dropdown(
        [ROOT_NAME], value=ROOT_NAME, label=label, min_width=120, allow_custom_value=True
    )


def show(asked: str, text: str, picked: str, place: str) -> tuple[Any, ...]:
    """Picture and worth of the tree as it stands in the text; words where it is none."""
    try:
        shape, node = read_shape(text.strip()), node_named(picked)
    except EagleError as error:
        return _said(error)
    return _drawn(asked, shape, node if node in shape else (), place)


def show_if_seen(asked: str, text: str, picked: str, place: str) -> tuple[Any, ...]:
    """A closed panel is left as it is: opening it draws it."""
    return show(asked, text, picked, place) if asked else _untouched()


def pick(asked: str, text: str, picked: str, place: str, event: gr.EventData) -> tuple[Any, ...]:
    """A node of the picture was pressed."""
    data = event._data if isinstance(event._data, dict) else {}
    return show(asked, text, str(data.get("node", picked)), place)


def take_tree(asked: str, text: str, picked: str, place: str) -> tuple[Any, ...]:
    """Begin with the tree of the run on show."""
    del text, picked
    try:
        plan = fixed_plan(read_asked(asked).settings.tree)
    except EagleError as error:
        return _said(error)
    return _drawn(asked, shape_of(plan), (), place)


def _changing(change: Change) -> Callable[..., tuple[Any, ...]]:
    def act(asked: str, text: str, picked: str, place: str) -> tuple[Any, ...]:
        try:
            shape, node = change(read_shape(text.strip()), node_named(picked), node_named(place))
        except EagleError as error:
            return _said(error)
        return _drawn(asked, shape, node, place)

    return act


def _drawn(asked: str, shape: Shape, node: Ranks, place: str) -> tuple[Any, ...]:
    rates = _rates(asked)
    names = [ROOT_NAME, *map(node_name, shape)]
    return (
        plan_picture(shape, rates, selected=node),
        expectation(shape, rates),
        shape_name(shape),
        gr.update(choices=names, value=node_name(node)),
        gr.update(choices=names, value=place if place in names else ROOT_NAME),
    )


def _rates(asked: str) -> RankRates:
    """Of the trace on show; empty where there is none."""
    try:
        return RankRates.of([read_asked(asked).lane("eagle")])
    except EagleError:
        return RankRates.of([])


def _said(error: EagleError) -> tuple[Any, ...]:
    return (gr.skip(), in_words(error), gr.skip(), gr.skip(), gr.skip())


def _untouched() -> tuple[Any, ...]:
    return tuple(gr.skip() for _ in range(5))

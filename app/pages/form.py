"""The settings of a run: a sidebar, closed at first, and what else reads or writes its fields.

A field per option of a run, in the engine's order. Knows components, not what comes of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import gradio as gr
from gradio.components import Component

from app.links import BOUNDS, TREES
from eagle_core.options import OPTION_NAMES, RunOptions
from eagle_core.rules import LOSSY

LOSSY_BADGE = "changes the text's law"
RULES = (
    ("Auto: follows the temperature", "auto"),
    ("Greedy", "greedy"),
    ("One-hot (EAGLE-2)", "one_hot"),
    ("Without replacement (EAGLE-1)", "without_replacement"),
    ("Independent draws (SpecInfer)", "iid"),
    ("Block, for chains", "block"),
    ("Seeded: equal to plain sampling", "seeded"),
    *((f"Typical, LOSSY: {LOSSY_BADGE}", rule) for rule in sorted(LOSSY)),
)

# Opens the sidebar and goes to its first field; Escape closes it and comes back to the button.
OPEN = """() => {
  const bar = document.querySelector(".ev-sidebar");
  const toggle = bar.querySelector(".toggle-button");
  bar.onkeydown = ({ key }) => {
    if (key !== "Escape" || !bar.classList.contains("open")) return;
    toggle.click();
    document.querySelector("#settings").focus();
  };
  toggle.click();
  setTimeout(() => bar.matches(".open") && bar.querySelector("input").focus(), 350);
}"""
NOTE_ON_RULES = (
    "Lossless rules leave the target's law as it is. "
    f"<strong>Typical acceptance {LOSSY_BADGE}.</strong>"
)


@dataclass(frozen=True)
class Form:
    """What a run is asked with; `options` follows `OPTION_NAMES`."""

    prompt: gr.Textbox
    options: tuple[Component, ...]
    head: gr.Dropdown

    def option(self, name: str) -> Component:
        return self.options[OPTION_NAMES.index(name)]


def defaults() -> dict[str, Any]:
    """The options as the form shows them: `stop` is one string a line."""
    return {**asdict(RunOptions()), "stop": ""}


@dataclass(frozen=True)
class Fields:
    """`head` is there to choose from only where several heads are shipped."""

    options: tuple[Component, ...]
    head: gr.Dropdown


def add_settings(heads: Sequence[str] = ()) -> Fields:
    """The sidebar with a field per option, the few that everybody moves first."""
    with gr.Sidebar(open=False, position="right", width=380, elem_classes="ev-sidebar"):
        gr.HTML("<h2>Settings</h2>", elem_classes="ev-flush", apply_default_css=False)
        made = _first_fields()
        head = gr.Dropdown(
            [*heads],
            value=heads[0] if heads else None,
            label="Head",
            elem_id="head",
            visible=len(heads) > 1,
        )
        with gr.Accordion("Sampling", open=False):
            made |= _sampling_fields()
        with gr.Accordion("Penalties and stops", open=False):
            made |= _later_fields()
        made["record_dropped"] = gr.Checkbox(
            label="Record dropped candidates",
            info="of auto and dynamic trees, to be shown once a run is over",
            elem_id="record-dropped",
        )
        reset = gr.Button("Back to the defaults", size="sm")
    options = tuple(made[name] for name in OPTION_NAMES)
    script = f"() => {json.dumps([defaults()[name] for name in OPTION_NAMES])}"
    reset.click(None, None, [*options], js=script, api_visibility="private")
    return Fields(options, head)


def add_settings_button() -> None:
    button = gr.Button("Settings", elem_id="settings", min_width=90)
    button.click(None, None, None, js=OPEN, api_visibility="private")


def add_settings_line(options: Sequence[Component]) -> None:
    """What differs from the defaults, so that a closed sidebar hides nothing."""
    line = gr.HTML(elem_classes="ev-flush ev-asked", apply_default_css=False)
    gr.on(
        [field.change for field in options if hasattr(field, "change")],
        None,
        [*options],
        line,
        js=_line_script(),
        api_visibility="private",
        show_progress="hidden",
    )


def _first_fields() -> dict[str, Component]:
    tree_hint = "or type chain:7, tree:18, ranks:0.1.00"
    made: dict[str, Component] = {
        "max_new_tokens": _slider("max_new_tokens", "Length, tokens", 128, step=1),
        "temperature": _slider("temperature", "Temperature", 0, step=0.05),
        "tree": gr.Dropdown(
            [*TREES], value="auto", label="Draft tree", info=tree_hint, allow_custom_value=True
        ),
        "rule": gr.Dropdown([*RULES], value="auto", label="Acceptance rule", elem_id="rule"),
    }
    gr.HTML(f"<p class='ev-note'>{NOTE_ON_RULES}</p>", elem_classes="ev-flush")
    return made


def _sampling_fields() -> dict[str, Component]:
    return {
        "seed": gr.Number(0, label="Seed", precision=0, minimum=0, maximum=BOUNDS["seed"][1]),
        "top_p": _slider("top_p", "Top-p", 1, step=0.01, info="1 keeps all tokens"),
        "top_k": _slider("top_k", "Top-k", 0, step=1, info="0 keeps all tokens"),
        "min_p": _slider("min_p", "Min-p", 0, step=0.01, info="0 keeps all tokens"),
    }


def _later_fields() -> dict[str, Component]:
    repetition = "counts prompt and answer; 1 is none"
    answer = "counts the answer; 0 is none"
    return {
        "repetition_penalty": _slider(
            "repetition_penalty", "Repetition penalty", 1, step=0.01, info=repetition
        ),
        "presence_penalty": _slider(
            "presence_penalty", "Presence penalty", 0, step=0.05, info=answer
        ),
        "frequency_penalty": _slider(
            "frequency_penalty", "Frequency penalty", 0, step=0.05, info=answer
        ),
        "stop": gr.Textbox("", label="Stop strings", info="one a line", lines=2, max_lines=6),
    }


def _slider(
    name: str, label: str, value: float, *, step: float, info: str | None = None
) -> gr.Slider:
    return gr.Slider(*BOUNDS[name], value, step=step, label=label, info=info)


def _line_script() -> str:
    """Values become a text node before they become markup."""
    usual = [defaults()[name] for name in OPTION_NAMES]
    names: Mapping[str, str] = {"max_new_tokens": "length"}
    words = [names.get(name, name.replace("_", " ")) for name in OPTION_NAMES]
    return f"""(...values) => {{
  const [usual, words, lossy] = {json.dumps([usual, words, sorted(LOSSY)])};
  const isUsual = (value, at) => value === usual[at] || value === null;
  const told = values.flatMap((value, at) =>
    isUsual(value, at) ? [] : [`${{words[at]}} ${{String(value).slice(0, 40)}}`]);
  const line = document.createElement("p");
  line.className = "ev-note";
  line.textContent = told.join(" · ");
  if (!values.some((value) => lossy.includes(value))) return told.length ? line.outerHTML : "";
  return `${{line.outerHTML}}<p class="ev-badge-lossy">{LOSSY_BADGE}</p>`;
}}"""

"""Examples, grouped by what they teach: a chip fills in the prompt and every setting.

They lie in `assets/prompts/examples.json` with the τ that was seen when each was run. Knows the
form; all of it happens in the browser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from app.pages.form import Form, defaults
from eagle_core.options import OPTION_NAMES, RunOptions

FILE = Path(__file__).parents[2] / "assets" / "prompts" / "examples.json"
SEEN_WITH = "SmolLM2-135M-Instruct, head eagle, float32"


@dataclass(frozen=True)
class Example:
    """`tau` is what a run of it gave with the default target and the shipped head."""

    label: str
    prompt: str
    options: RunOptions
    tau: float


@dataclass(frozen=True)
class Group:
    """Examples of one thing, and what to look at in them."""

    teaches: str
    look: str
    examples: tuple[Example, ...]


def load_groups(file: Path = FILE) -> tuple[Group, ...]:
    return tuple(
        Group(group["teaches"], group["look"], tuple(map(_example, group["examples"])))
        for group in json.loads(file.read_text("utf-8"))
    )


def add_examples(groups: Sequence[Group], form: Form) -> None:
    """A line of chips per group; the line of words below says what to look at."""
    said: list[tuple[gr.Button, Group, Example]] = []
    with gr.Column(elem_classes="ev-examples", min_width=320):
        for group in groups:
            with gr.Row(elem_classes="ev-chips"):
                gr.HTML(
                    f"<span>{group.teaches}</span>",
                    elem_classes="ev-flush",
                    apply_default_css=False,
                )
                for example in group.examples:
                    chip = gr.Button(example.label, size="sm", min_width=40)
                    said.append((chip, group, example))
        note = gr.HTML(elem_classes="ev-flush ev-look", apply_default_css=False)
    for chip, group, example in said:
        chip.click(
            None,
            None,
            [form.prompt, *form.options, note],
            js=_fill_script(group, example),
            api_visibility="private",
        )


def _example(data: Mapping[str, Any]) -> Example:
    options = {**data["options"]}
    options["stop"] = tuple(options.get("stop", ()))
    return Example(data["label"], data["prompt"], RunOptions(**options), data["seen"]["tau"])


def _fill_script(group: Group, example: Example) -> str:
    """Our own texts alone, so that they may be markup."""
    entered = {**defaults(), **{name: getattr(example.options, name) for name in OPTION_NAMES}}
    entered["stop"] = "\n".join(example.options.stop)
    words = f"<p class='ev-note'>{group.look} Seen: τ {example.tau:.2f} ({SEEN_WITH}).</p>"
    filled = [example.prompt, *(entered[name] for name in OPTION_NAMES), words]
    return f"() => {json.dumps(filled)}"

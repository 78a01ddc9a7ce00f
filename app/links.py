"""What a link to the page may ask for, and the form's own bounds.

A link comes from anywhere: a part that does not fit the form is dropped, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.ask import WHOLE
from eagle_core.errors import EagleError
from eagle_core.options import RULE_NAMES, RunOptions
from eagle_core.text import as_conversation
from eagle_core.trace import Turn

BOUNDS: Mapping[str, tuple[float, float]] = {
    "max_new_tokens": (16, 512),
    "temperature": (0, 2),
    "top_p": (0.05, 1),
    "top_k": (0, 1000),
    "min_p": (0, 0.5),
    "repetition_penalty": (0.8, 2),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "seed": (0, 2**32 - 1),
}
TREES = (
    ("Auto", "auto"),
    ("Chain of 3", "chain:3"),
    ("Chain of 5", "chain:5"),
    ("Tree of 8", "tree:8"),
    ("Tree of 12", "tree:12"),
    ("Tree of 25", "tree:25"),
)


@dataclass(frozen=True)
class Link:
    """The recording a link names and what it fills in; what is not there leaves a field as it is.

    `options` has fields of `RunOptions`, `stop` one string a line.
    """

    run: str | None = None
    prompt: str | None = None
    earlier: tuple[Turn, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def read_link(data: object) -> Link:
    parts: Mapping[str, object] = data if isinstance(data, dict) else {}
    texts = {name: part for name, part in parts.items() if isinstance(part, str)}
    prompt, earlier = _conversation(texts)
    return Link(texts.get("run"), prompt, earlier, _options(texts))


def _conversation(texts: Mapping[str, str]) -> tuple[str | None, tuple[Turn, ...]]:
    """A prompt without the conversation before it would be another question: both, or none."""
    prompt = {"role": "user", "content": texts.get("prompt", "")}
    try:
        earlier = json.loads(texts.get("earlier", "[]"))
        as_conversation([*earlier, prompt])
        return prompt["content"], tuple(Turn(turn["role"], turn["content"]) for turn in earlier)
    except (EagleError, ValueError, TypeError, AttributeError, RecursionError):
        return None, ()


def _options(texts: Mapping[str, str]) -> dict[str, Any]:
    read: dict[str, Any] = {name: _number(name, texts[name]) for name in BOUNDS if name in texts}
    read |= {"tree": _tree(texts.get("tree")), "stop": _stop(texts.get("stop"))}
    options = {name: value for name, value in read.items() if value is not None}
    rule = texts.get("rule")
    if rule in RULE_NAMES:
        is_the_usual = rule == RunOptions(temperature=options.get("temperature", 0)).resolved_rule
        options["rule"] = "auto" if is_the_usual else rule
    return options


def _number(name: str, text: str) -> float | None:
    least, most = BOUNDS[name]
    try:
        number = float(text)
    except ValueError:
        return None
    if not least <= number <= most:
        return None
    return (int(number) if number.is_integer() else None) if name in WHOLE else number


def _tree(text: str | None) -> str | None:
    try:
        return RunOptions(tree=text).tree if text else None
    except EagleError:
        return None


def _stop(text: str | None) -> str | None:
    """From a JSON list; a string of several lines cannot be entered in the form."""
    try:
        stop = RunOptions(stop=tuple(json.loads(text or "null"))).stop
    except (EagleError, ValueError, TypeError, RecursionError):
        return None
    return None if any("\n" in string for string in stop) else "\n".join(stop)

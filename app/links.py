"""What a link to the page may ask for, and the form's own bounds.

A link comes from anywhere: a part that does not fit the form is dropped, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.ask import WHOLE
from eagle_core.errors import EagleError
from eagle_core.options import RULE_NAMES, RunOptions
from eagle_core.text import check_prompt

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
    ("Auto: as large as pays, step by step", "auto"),
    ("The best fixed tree here", "best"),
    ("Chain of 3", "chain:3"),
    ("Chain of 5", "chain:5"),
    ("Tree of 8", "tree:8"),
    ("Tree of 12", "tree:12"),
    ("Tree of 25", "tree:25"),
    ("Dynamic tree of 24 (EAGLE-2)", "dynamic:24"),
)


@dataclass(frozen=True)
class Link:
    """The recording a link names and what it fills in; what is not there leaves a field as it is.

    `options` has fields of `RunOptions`, `stop` one string a line. `lacks_head`: the link was made
    with a head that is not here.
    """

    run: str | None = None
    prompt: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    head: str | None = None
    lacks_head: bool = False


def read_link(data: object, *, heads: Sequence[str] = ()) -> Link:
    """heads: those that a run may choose from."""
    parts: Mapping[str, object] = data if isinstance(data, dict) else {}
    texts = {name: part for name, part in parts.items() if isinstance(part, str)}
    named = texts.get("head")
    return Link(
        texts.get("run"),
        _prompt(texts.get("prompt", "")),
        _options(texts),
        head=named if named in heads else None,
        lacks_head=bool(named) and named not in heads,
    )


def _prompt(text: str) -> str | None:
    try:
        check_prompt(text)
    except EagleError:
        return None
    return text


def _options(texts: Mapping[str, str]) -> dict[str, Any]:
    read: dict[str, Any] = {name: _number(name, texts[name]) for name in BOUNDS if name in texts}
    read |= {"tree": _tree(texts.get("tree")), "stop": _stop(texts.get("stop"))}
    read["record_dropped"] = texts.get("record_dropped") == "true" or None
    options = {name: value for name, value in read.items() if value is not None}
    rule = texts.get("rule")
    if rule in RULE_NAMES:
        asked = {name: options[name] for name in ("temperature", "tree") if name in options}
        options["rule"] = "auto" if rule == RunOptions(**asked).resolved_rule else rule
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

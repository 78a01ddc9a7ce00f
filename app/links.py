"""What a link to the page may ask for, and the form's own bounds.

A link comes from anywhere: a part that does not fit the form is dropped, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle_core.errors import EagleError
from eagle_core.text import check_prompt

LENGTHS = (16, 512)
TEMPERATURES = (0, 2)
MAX_SEED = 2**32 - 1
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
    """The recording a link names and what it fills in; None leaves a field as it is."""

    run: str | None
    prompt: str | None
    length: float | None
    temperature: float | None
    seed: float | None
    tree: str | None

    @property
    def form(self) -> tuple[Any, ...]:
        """In the order of the page's form."""
        return (self.prompt, self.length, self.temperature, self.seed, self.tree)


def read_link(data: object) -> Link:
    parts: Mapping[str, object] = data if isinstance(data, dict) else {}
    run, tree = parts.get("run"), parts.get("tree")
    return Link(
        run=run if isinstance(run, str) else None,
        prompt=_prompt(parts.get("prompt")),
        length=_number(parts.get("length"), *LENGTHS, is_whole=True),
        temperature=_number(parts.get("temperature"), *TEMPERATURES),
        seed=_number(parts.get("seed"), 0, MAX_SEED, is_whole=True),
        tree=tree if isinstance(tree, str) and tree in dict(TREES).values() else None,
    )


def _prompt(text: object) -> str | None:
    try:
        check_prompt(text if isinstance(text, str) else "")
    except EagleError:
        return None
    return str(text)


def _number(text: object, least: float, most: float, *, is_whole: bool = False) -> float | None:
    try:
        number = float(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if number is None or not least <= number <= most:
        return None
    return (int(number) if number.is_integer() else None) if is_whole else number

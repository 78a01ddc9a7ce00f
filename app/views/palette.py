"""The colours of page and charts, in one place; told apart by lightness as well as hue.

Each name has a value for light and one for dark grounds. Blue and orange stay apart in every
common kind of colour blindness.
"""

from __future__ import annotations

from typing import NamedTuple


class Shade(NamedTuple):
    light: str
    dark: str


PALETTE = {
    "eagle": Shade("#1d5fd1", "#7fb0ff"),
    "eagle-soft": Shade("#dbe8ff", "#1b3157"),
    "eagle-mid": Shade("#8fb6f7", "#3f6cb5"),
    "plain": Shade("#5b6472", "#a7b0be"),
    "plain-soft": Shade("#e7eaef", "#2a3039"),
    "plain-mid": Shade("#b3bac6", "#5f6977"),
    "bonus": Shade("#a34a00", "#ffb066"),
    "bonus-soft": Shade("#ffeeda", "#4a2c0c"),
    "wrong": Shade("#b3261e", "#ffb4ab"),
}

EAGLE = "#3f7fe8"
PLAIN = "#828b99"
BONUS = "#c4701f"
"""For figures, which do not follow the page's theme: readable on light and on dark."""


def css_variables() -> str:
    """The palette as custom properties, dark values under `.dark`."""
    light = "".join(f"--ev-{name}:{shade.light};" for name, shade in PALETTE.items())
    dark = "".join(f"--ev-{name}:{shade.dark};" for name, shade in PALETTE.items())
    return f":root{{{light}}}\n.dark{{{dark}}}\n"

"""What a visitor entered, and its check.

Nothing that comes from a page is trusted: a page's own bounds are only for people.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.text import check_prompt


@dataclass(frozen=True)
class Ask:
    """The form as it came; None stands for a field left empty."""

    prompt: str
    max_new_tokens: float | None
    temperature: float | None
    seed: float | None
    tree: str

    def options(self) -> RunOptions:
        """Raises `PromptError` or `OptionError`."""
        check_prompt(self.prompt)
        return RunOptions(
            max_new_tokens=_whole("length", self.max_new_tokens),
            temperature=_number("temperature", self.temperature),
            seed=_whole("seed", self.seed),
            tree=self.tree,
        )


def _whole(name: str, value: object) -> int:
    number = _number(name, value)
    if not number.is_integer():
        raise OptionError(f"{name} {number:g}", expected="a whole number")
    return int(number)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"the {name} is missing", expected="a number")
    return float(value)

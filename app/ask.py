"""What a visitor entered, and its check.

Nothing that comes from a page is trusted: a page's own bounds are only for people.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle_core.errors import OptionError, PromptError
from eagle_core.options import RunOptions

MAX_PROMPT_CHARACTERS = 20_000
"""Far more than the default target's context holds; what fits is counted in tokens later."""


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
        if not self.prompt.strip():
            raise PromptError("the prompt is empty", hint="one of the examples")
        if len(self.prompt) > MAX_PROMPT_CHARACTERS:
            raise PromptError(
                f"a prompt of {len(self.prompt):,} characters",
                expected=f"at most {MAX_PROMPT_CHARACTERS:,}",
                hint="a shorter one",
            )
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

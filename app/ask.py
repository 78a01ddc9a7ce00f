"""What a visitor entered, and its check.

Nothing that comes from a page is trusted: a page's own bounds are only for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle_core.conversation import turns_in
from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.text import check_prompt
from eagle_core.trace import Turn

WHOLE = ("max_new_tokens", "top_k", "seed")
FLAGS = ("record_dropped",)
NUMBERS = (
    *("temperature", "top_p", "min_p", "repetition_penalty"),
    *("presence_penalty", "frequency_penalty"),
)


@dataclass(frozen=True)
class Ask:
    """The form as it came, and the conversation before it; None stands for a field left empty.

    `entered` has fields of `RunOptions`, `stop` one string a line; `earlier` is JSON, a list of
    turns. `head` names another than the head that was loaded first.
    """

    prompt: str
    entered: Mapping[str, Any] = field(default_factory=dict)
    earlier: str = "[]"
    head: str = ""

    def options(self) -> RunOptions:
        """Raises `PromptError` or `OptionError`."""
        check_prompt(self.prompt)
        return RunOptions(**{name: _read(name, value) for name, value in self.entered.items()})

    def turns(self) -> tuple[Turn, ...]:
        """Raises `PromptError`."""
        return turns_in(self.earlier)


def _read(name: str, value: object) -> Any:
    if name in WHOLE:
        return _whole(name, value)
    if name in NUMBERS:
        return _number(name, value)
    if name in FLAGS:
        return _flag(name, value)
    text = _text(name, value)
    return tuple(line for line in text.split("\n") if line) if name == "stop" else text.strip()


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise OptionError(f"the {_words(name)} is missing", expected="text")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"the {_words(name)} is missing", expected="yes or no")
    return value


def _whole(name: str, value: object) -> int:
    number = _number(name, value)
    if not number.is_integer():
        raise OptionError(f"{_words(name)} {number:g}", expected="a whole number")
    return int(number)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"the {_words(name)} is missing", expected="a number")
    try:
        return float(value)
    except OverflowError:  # JSON has whole numbers of any length
        raise OptionError(f"a {_words(name)} of very many digits", expected="a number") from None


def _words(name: str) -> str:
    return "length" if name == "max_new_tokens" else name.replace("_", " ")

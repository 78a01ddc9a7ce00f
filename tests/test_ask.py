"""What a visitor entered becomes options, or one sentence."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from app.ask import NUMBERS, WHOLE, Ask
from eagle_core.errors import OptionError, PromptError
from eagle_core.options import RunOptions

FORM: dict[str, Any] = {
    "max_new_tokens": 64.0,
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 40.0,
    "seed": 3,
    "tree": " ranks:0.1.00 ",
    "rule": "seeded",
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.2,
    "frequency_penalty": -0.1,
    "stop": "END\n\n two words\n",
    "record_dropped": True,
}


def test_every_option_of_a_run_can_be_entered() -> None:
    assert FORM.keys() == {field.name for field in fields(RunOptions)}
    assert Ask("Hi", FORM).options() == RunOptions(
        *(64, 0.7, 0.9, 40, 3, "ranks:0.1.00", "seeded"), *(0.05, 1.1, 0.2, -0.1),
        stop=("END", " two words"), record_dropped=True,
    )  # fmt: skip
    assert Ask("Hi").options() == RunOptions()


@pytest.mark.parametrize("name", [*WHOLE, *NUMBERS])
@pytest.mark.parametrize("value", [None, "1", True, [], float("nan"), float("inf")])
def test_a_number_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(OptionError) as caught:
        Ask("Hi", {name: value}).options()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tree", "rule", "stop"])
@pytest.mark.parametrize("value", [None, 5, ["auto"], {}])
def test_a_text_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"the {name} is missing; expected text"):
        Ask("Hi", {name: value}).options()


@pytest.mark.parametrize("value", [None, 1, "yes", []])
def test_a_yes_or_no_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(OptionError, match="the record dropped is missing; expected yes or no"):
        Ask("Hi", {"record_dropped": value}).options()


def test_an_empty_prompt_is_refused_before_all_else() -> None:
    with pytest.raises(PromptError, match="the prompt is empty"):
        Ask(" ", {"seed": None}).options()


@pytest.mark.parametrize("earlier", ["", "5", '["a"]', '[{"role": "judge", "content": "x"}]', "["])
def test_a_conversation_that_is_none_is_refused_in_one_sentence(earlier: str) -> None:
    with pytest.raises(PromptError) as caught:
        Ask("Hi", earlier=earlier).turns()
    assert "\n" not in str(caught.value)

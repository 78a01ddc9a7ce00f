"""Whatever the page's handlers are given: a run or one sentence, never a traceback.

The form's fields are read from the handler's own signature, so a new one is tried as well.
"""

from __future__ import annotations

import inspect
import json
import logging
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from benches import tiny_bench
from fake_bench import FakeBench
from hypothesis import given, settings
from hypothesis import strategies as st
from made import EXAMPLES

from app import runner as runners
from app.pages.acts import Acts
from app.replay import Recorded
from app.runner import Runner
from eagle_core.options import RunOptions

VISITOR: Any = SimpleNamespace(session_hash="me")
FIELDS = [
    name for name in inspect.signature(Acts.answer).parameters if name not in {"self", "request"}
]
ODD_TEXTS = [
    "",
    " ",
    "\udcff",
    "x" * 100_000,
    "日本",
    "a\x00b",
    "auto",
    "chain:²",
    "[]",
    "[" * 5000,
]
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e308, -0.0, 0.0005, 2.5]),
    st.sampled_from([10**400, -(10**400), 10**5000, 2**63, -1, 0, 1]),
    st.sampled_from(ODD_TEXTS),
    st.text(max_size=20),
    st.just(b"bytes"),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)
GOOD: dict[str, list[Any]] = {
    "prompt": ["why is the sky blue", "a"],
    "length": [1, 6, 8.0],
    "max_new_tokens": [1, 6, 8.0],
    "temperature": [0, 1.0, 0.7],
    "seed": [0, 3],
    "tree": ["auto", "chain:2", "tree:8", "dynamic:4"],
    "record_dropped": [False, True],
    "rule": ["auto"],
    "stop": [""],
    "earlier": ["[]"],
    "continues": [False],
}


def sensible(name: str) -> list[Any]:
    """Values that a field takes; of a field that is new here its default in `RunOptions`."""
    return GOOD.get(name, [getattr(RunOptions, name, "")])


@st.composite
def forms(draw: st.DrawFn) -> dict[str, Any]:
    """A few fields at most hold anything, so that some forms are valid."""
    odd = draw(st.lists(st.sampled_from(FIELDS), max_size=2, unique=True))
    return {
        name: draw(ANYTHING if name in odd else st.sampled_from(sensible(name))) for name in FIELDS
    }


def acts(bench: Any) -> Acts:
    recording = FakeBench().race("Hello", RunOptions(max_new_tokens=8))
    list(recording)
    runner = Runner(lambda _: bench)
    runner.start_loading()
    while runner.model.phase == "loading":
        time.sleep(0.01)
    return Acts(runner, [Recorded("Story", recording.trace())])


PAGE = acts(tiny_bench())


def message_of(item: Any) -> dict[str, Any] | None:
    """The viewer's, alone or before other updates; None where the viewer is left as it is."""
    first = item if isinstance(item, str) else item[0]
    return json.loads(first) if isinstance(first, str) else None


def assert_one_sentence(text: str) -> None:
    assert text != runners.UNEXPECTED
    assert 0 < len(text) < 600
    assert "\n" not in text
    assert text.endswith((".", "!", "?"))


@settings(EXAMPLES, max_examples=150)
@given(forms())
def test_any_form_gives_a_run_or_one_sentence(form: dict[str, Any]) -> None:
    with mock.patch.object(logging.Logger, "exception", side_effect=AssertionError("a bug")):
        told = [message_of(item) for item in PAGE.answer(*form.values(), VISITOR)]
    last = [message for message in told if message is not None][-1]
    assert last["kind"] in {"end", "error"}
    if last["kind"] == "error":
        assert_one_sentence(last["text"])
    else:
        assert told[0] is not None
        assert told[0]["kind"] == "start"


def test_a_sensible_form_gives_a_run() -> None:
    """So the test above is not one of sentences alone."""
    form = [sensible(name)[0] for name in FIELDS]
    told = [message_of(item) for item in PAGE.answer(*form, VISITOR)]
    assert [message["kind"] for message in told if message][-1] == "end"


LINKED = [
    "prompt",
    "head",
    "tree",
    "run",
    "temperature",
    "seed",
    "max_new_tokens",
    "length",
    "earlier",
]


@settings(EXAMPLES, max_examples=150)
@given(
    st.one_of(
        ANYTHING,
        st.dictionaries(
            st.one_of(st.sampled_from([*LINKED, "stop", "rule", "top_k"]), st.text(max_size=3)),
            st.one_of(ANYTHING, st.sampled_from(["0.5", "1e999", "nan", "٣", "Story", "chain:5"])),
        ),
    )
)
def test_any_link_fills_in_what_fits_and_never_fails(data: Any) -> None:
    PAGE.follow_link(SimpleNamespace(_data=data))  # type: ignore[arg-type]


@settings(EXAMPLES, max_examples=30)
@given(st.lists(st.sampled_from(["begin", "stop", "buttons", "answer"]), max_size=6))
def test_buttons_in_any_order_leave_a_page_that_answers(presses: list[str]) -> None:
    page = acts(FakeBench())
    form = [sensible(name)[0] for name in FIELDS]
    for press in presses:
        if press == "answer":
            list(page.answer(*form, VISITOR))
        else:
            getattr(page, press)(VISITOR)
    told = [message_of(item) for item in page.answer(*form, VISITOR)]
    assert [message["kind"] for message in told if message][-1] == "end"


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    "value", [None, 10**400, float("nan"), [], {}, "\udcff"], ids=lambda value: f"{value!r:.12}"
)
def test_each_field_by_itself_may_hold_anything(name: str, value: Any) -> None:
    form = {each: sensible(each)[0] for each in FIELDS} | {name: value}
    with mock.patch.object(logging.Logger, "exception", side_effect=AssertionError("a bug")):
        told = [message_of(item) for item in PAGE.answer(*form.values(), VISITOR)]
    assert [message["kind"] for message in told if message][-1] in {"end", "error"}

"""Links to the page: what fits the form is taken, the rest is dropped."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from app.links import BOUNDS, Link, read_link
from eagle_core.options import RULE_NAMES, RunOptions

PARTS = {
    "run": "Story",
    "prompt": "Why?",
    "lane": "eagle",
    "max_new_tokens": "64",
    "temperature": "0.35",
    "seed": "7",
    "tree": "ranks:0.1.00",
    "top_p": "0.9",
    "top_k": "40",
    "min_p": "0.05",
    "repetition_penalty": "1.1",
    "presence_penalty": "-1",
    "frequency_penalty": "0.5",
    "rule": "seeded",
    "stop": '["END", "#"]',
    "record_dropped": "true",
}


def test_every_part_that_fits_is_taken() -> None:
    link = read_link(PARTS)
    assert (link.run, link.prompt) == ("Story", "Why?")
    assert link.options == {
        "max_new_tokens": 64,
        "temperature": 0.35,
        "seed": 7,
        "tree": "ranks:0.1.00",
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": -1,
        "frequency_penalty": 0.5,
        "rule": "seeded",
        "stop": "END\n#",
        "record_dropped": True,
    }
    assert link.options.keys() == {field.name for field in fields(RunOptions)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_new_tokens", value) for value in ("15", "513", "64.5", "nan", "inf", "", "x", 64)),
        *(("temperature", value) for value in ("-0.1", "2.1", "nan", "1e999", [], True, None)),
        *(("seed", value) for value in ("-1", "0.5", str(2**64))),
        *(("tree", value) for value in ("tree:999999", "", 8, {}, "ranks:1", "ranks:")),
        *(("prompt", value) for value in ("", "   ", "a" * 100_000, "\ud800", 5)),
        *(("run", value) for value in (3, None, ["Story"])),
        *(("rule", value) for value in ("best", "", 3)),
        *(("stop", value) for value in ("END", "[5]", '["a\\nb"]', '[""]', "5", "[" * 100_000)),
        *(("top_p", value) for value in ("0", "1.1")),
        *(("record_dropped", value) for value in ("false", "1", "", True, None)),
        ("later", "x"),
    ],
)
def test_a_part_that_does_not_fit_leaves_its_field_alone(name: str, value: Any) -> None:
    assert read_link({name: value}) == Link()


def test_a_head_is_chosen_among_those_that_are_here() -> None:
    assert read_link({"head": "b"}, heads=("a", "b")) == Link(head="b")


@pytest.mark.parametrize("name", ["c", "../b", "<img src=x onerror=alert(1)>", "a" * 10_000])
def test_a_head_that_is_not_here_is_told_of_and_never_taken(name: str) -> None:
    assert read_link({"head": name}, heads=("a", "b")) == Link(lacks_head=True)


@pytest.mark.parametrize("name", ["", 3, None, ["b"]])
def test_a_link_without_a_head_keeps_the_one_that_is_chosen(name: Any) -> None:
    assert read_link({"head": name}, heads=("a", "b")) == Link()


@pytest.mark.parametrize("data", [None, [], "run=Story", 5, {}])
def test_what_is_no_link_is_nothing(data: Any) -> None:
    assert read_link(data) == Link()


@pytest.mark.parametrize("rule", RULE_NAMES)
@pytest.mark.parametrize("temperature", ["0", "0.2", "1"])
def test_the_rule_that_auto_stands_for_is_auto_again(rule: str, temperature: str) -> None:
    """Else moving the temperature would leave a rule that does not suit it."""
    usual = RunOptions(temperature=float(temperature)).resolved_rule
    link = read_link({"rule": rule, "temperature": temperature})
    assert link.options["rule"] == ("auto" if rule == usual else rule)


@pytest.mark.parametrize("name", BOUNDS)
def test_the_forms_bounds_lie_within_the_engines(name: str) -> None:
    for bound in BOUNDS[name]:
        RunOptions(**{name: bound})

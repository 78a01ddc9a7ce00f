"""Links to the page: what fits the form is taken, the rest is dropped."""

from __future__ import annotations

from typing import Any

import pytest

from app.links import Link, read_link

NOTHING = Link(None, None, None, None, None, None)


def test_every_part_that_fits_is_taken() -> None:
    link = read_link(
        {
            "run": "Story",
            "prompt": "Why?",
            "length": "64",
            "temperature": "0.35",
            "seed": "7",
            "tree": "tree:8",
        }
    )
    assert link.run == "Story"
    assert link.form == ("Why?", 64, 0.35, 7, "tree:8")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("length", value) for value in ("15", "513", "64.5", "nan", "inf", "", "x", 64, None)),
        *(("temperature", value) for value in ("-0.1", "2.1", "nan", "1e999", [], True)),
        *(("seed", value) for value in ("-1", "0.5", str(2**64))),
        *(("tree", value) for value in ("tree:999999", "", 8, {})),
        *(("prompt", value) for value in ("", "   ", "a" * 100_000, "\ud800", 5)),
        *(("run", value) for value in (3, None, ["Story"])),
    ],
)
def test_a_part_that_does_not_fit_leaves_its_field_alone(name: str, value: Any) -> None:
    assert read_link({name: value}) == NOTHING


@pytest.mark.parametrize("data", [None, [], "run=Story", 5, {}])
def test_what_is_no_link_is_nothing(data: Any) -> None:
    assert read_link(data) == NOTHING

"""The tree made by hand: its acts, its picture, and what it says a tree is worth."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from made import plain_and_eagle

from app.pages.tree_editor import CHANGES, _changing, pick, show, show_if_seen, take_tree
from app.views.plan_picture import expectation, plan_picture
from eagle_core.expected import RankRates
from eagle_core.shapes import read_shape
from eagle_core.trace_json import dump_trace

TREE = "ranks:0.1.00.01.10"
TRACE = dump_trace(plain_and_eagle())
RATES = RankRates.of([plain_and_eagle().lane("eagle")])


def changed(name: str, node: str, place: str = "root", tree: str = TREE) -> tuple[Any, ...]:
    return _changing(CHANGES[name])(TRACE, tree, node, place)


@pytest.mark.parametrize(
    ("name", "node", "place", "tree", "picked"),
    [
        ("Add child", "01", "root", "ranks:0.1.00.01.10.010", "010"),
        ("Add child", "root", "root", "ranks:0.1.2.00.01.10", "2"),
        ("Remove", "0", "root", "ranks:0.00", "root"),
        ("Earlier", "1", "root", "ranks:0.1.00.10.11", "0"),
        ("Later", "00", "root", "ranks:0.1.00.01.10", "01"),
        ("Move", "0", "1", "ranks:0.00.01.010.011", "01"),
    ],
)
def test_a_change_gives_the_new_tree_and_keeps_a_node_picked(
    name: str, node: str, place: str, tree: str, picked: str
) -> None:
    picture, worth, text, node_choice, place_choice = changed(name, node, place)
    assert (text, node_choice["value"]) == (tree, picked)
    assert f'data-node="{picked}"' in picture
    assert "expected τ" in worth
    assert picked in node_choice["choices"]
    assert place_choice["value"] in place_choice["choices"]


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (changed("Remove", "root"), "The root belongs to every tree"),
        (changed("Move", "0", "00"), "Node 0 under itself"),
        (changed("Add child", "7"), "No node 7 in this tree"),
        (changed("Add child", "<img>"), "Node '<img>'; expected root"),
        (changed("Remove", "0", tree="bush"), "Tree 'bush'; expected nodes in digits"),
        (show(TRACE, "ranks:1", "root", "root"), "Node 1 without node 0"),
        (take_tree("null", TREE, "root", "root"), "No finished run is on show."),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(shown: tuple[Any, ...], said: str) -> None:
    picture, worth, *rest = shown
    assert worth.startswith(said)
    assert all(value == gr.skip() for value in (picture, *rest))


def test_a_node_of_the_picture_can_be_pressed() -> None:
    event: Any = SimpleNamespace(_data={"node": "01"})
    assert pick(TRACE, TREE, "root", "root", event)[3]["value"] == "01"
    for data in (None, {}, {"node": "99"}, "x"):
        event = SimpleNamespace(_data=data)
        assert pick(TRACE, TREE, "root", "root", event)[3]["value"] == "root"


def test_the_runs_own_tree_can_be_taken() -> None:
    assert take_tree(TRACE, TREE, "0", "0")[2] == "ranks:0.00.000"


def test_a_closed_panel_and_a_damaged_trace_do_no_harm() -> None:
    assert all(value == gr.skip() for value in show_if_seen("", TREE, "root", "root"))
    _, worth, *_ = show('{"version": 1', TREE, "root", "root")
    assert worth.startswith("5 nodes. Run something first")


def test_the_picture_has_a_button_per_node_with_its_chance() -> None:
    picture = plan_picture(read_shape("ranks:0.1.00"), RATES, selected=(0,))
    nodes = re.findall(r'data-node="(\w+)" aria-label="([^"]*)" aria-pressed="(\w+)"', picture)
    assert nodes == [
        ("root", "root, depth 0", "false"),
        ("0", "0 50% kept, depth 1", "true"),
        ("1", "1 0% kept, depth 1", "false"),
        ("00", "00 50% kept, depth 2", "false"),
    ]


def test_its_worth_is_one_and_the_chances_of_its_nodes() -> None:
    assert expectation(read_shape("ranks:0.00"), RATES) == "2 nodes, expected τ 2.00."
    assert "Choice 2 was never drafted" in expectation(read_shape("ranks:0.1"), RATES)

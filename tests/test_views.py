"""Views are functions from trace to picture: their values are compared."""

from __future__ import annotations

import json

import networkx as nx
import pytest
from fake_bench import FakeBench

from app.views import messages
from app.views.graph import slot_graph, slot_places
from app.views.palette import PALETTE, css_variables
from eagle_core.options import RunOptions
from eagle_core.trace import Trace
from eagle_core.trace_json import trace_from_json


@pytest.fixture
def trace() -> Trace:
    recording = FakeBench().race("Hello", RunOptions(max_new_tokens=40, tree="tree:12", seed=5))
    assert len(list(recording)) > 40
    return recording.trace()


def test_the_end_message_carries_the_whole_trace(trace: Trace) -> None:
    message = json.loads(messages.end("r", 7, trace=trace, stopped=True, text="Stopped."))
    assert (message["v"], message["kind"], message["run"], message["seq"]) == (1, "end", "r", 7)
    assert message["stopped"] is True
    reread = trace_from_json(message["trace"])
    assert [lane.tokens for lane in reread.lanes] == [lane.tokens for lane in trace.lanes]


def test_events_name_their_lane_and_bring_new_pieces(trace: Trace) -> None:
    lane = trace.lane("eagle")
    happened = [
        messages.LaneEvent("eagle", event, texts)
        for event, texts in zip(lane.events[:2], lane.texts[:2], strict=True)
    ]
    text = messages.events("r", 1, happened=happened, pieces={3: " a", 4: "\n"})
    message = json.loads(text)
    assert [event["lane"] for event in message["events"]] == ["eagle", "eagle"]
    assert message["events"][0]["prefill_ms"] == lane.events[0].ms
    assert message["events"][1]["path"] == list(lane.steps[0].path)
    assert message["pieces"] == {"3": " a", "4": "\n"}


def test_no_message_contains_markup() -> None:
    hostile = "</script><img src=x onerror=alert(1)>${alert(2)}{{alert(3)}}"
    for text in (
        messages.error("r", hostile),
        messages.status(hostile, about="run"),
        messages.events("r", 1, happened=[], pieces={1: hostile}),
    ):
        assert "<" not in text
    assert json.loads(messages.error("r", hostile))["text"] == hostile


def test_a_runs_trees_fall_into_one_graph_of_places(trace: Trace) -> None:
    lane = trace.lane("eagle")
    graph = slot_graph(lane)
    assert nx.is_arborescence(graph)
    assert len(graph) == 13
    assert graph.nodes[()]["kept"] == lane.num_target_passes
    assert sum(counts["kept"] for slot, counts in graph.nodes(data=True) if slot) == sum(
        step.num_accepted for step in lane.steps
    )
    first = [counts["kept"] for slot, counts in graph.nodes(data=True) if len(slot) == 1]
    assert sum(first) == lane.accepted_by_depth[0].num_accepted
    places = slot_places(graph)
    assert len(set(places.values())) == len(graph)
    assert places[(0, 0)] == (2.0, 0.0)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["eagle", "plain", "bonus", "wrong"])
def test_inks_read_on_both_grounds(name: str) -> None:
    assert contrast(PALETTE[name].light, "#ffffff") >= 4.5
    assert contrast(PALETTE[name].dark, "#1e293b") >= 4.5


@pytest.mark.parametrize("name", ["eagle", "bonus"])
def test_inks_read_on_their_own_tint(name: str) -> None:
    soft = PALETTE[f"{name}-soft"]
    assert contrast(PALETTE[name].light, soft.light) >= 4.5
    assert contrast(PALETTE[name].dark, soft.dark) >= 4.5


def test_every_colour_has_a_dark_twin() -> None:
    assert css_variables().count("--ev-") == 2 * len(PALETTE)

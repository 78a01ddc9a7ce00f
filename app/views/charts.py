"""Figures of a finished run, in plotly: tokens over time, acceptance by depth, worth of branches.

A figure follows no theme: its ground is clear and its ink is set by the page's style sheet, so
that it reads on light and on dark. Only attributes as old as plotly.js 3 are used, since the page
draws with the copy that gradio bundles.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.graph import Slot, slot_graph, slot_places
from app.views.palette import EAGLE, PLAIN
from eagle_core.trace import Lane, Trace

HEIGHT = 280
ROW_HEIGHT = 24
INK = "#7d8694"
GRID = "rgba(125,134,148,0.25)"

LOOKS = {
    "plain": {"name": "Plain decoding", "color": PLAIN, "dash": "dash", "symbol": "square"},
    "eagle": {"name": "EAGLE", "color": EAGLE, "dash": "solid", "symbol": "circle"},
}


def tokens_over_time(trace: Trace) -> go.Figure:
    """Committed tokens against decode seconds, one stair per lane; the prefill is not counted."""
    figure = _figure("Tokens over time", x="decode time, s", y="tokens")
    for lane in trace.lanes:
        look = LOOKS[lane.method]
        times, tokens = stairs(lane)
        figure.add_scatter(
            x=times,
            y=tokens,
            mode="lines",
            name=look["name"],
            line={"color": look["color"], "dash": look["dash"], "width": 2, "shape": "hv"},
            hovertemplate="%{y} tokens after %{x:.2f} s<extra>" + look["name"] + "</extra>",
        )
    return figure


def stairs(lane: Lane) -> tuple[list[float], list[int]]:
    """Seconds of the decode phase after each step, and the tokens written by then."""
    times = accumulate((step.ms / 1000 for step in lane.steps), initial=0.0)
    tokens = accumulate((step.num_committed for step in lane.steps), initial=1)
    return list(times), list(tokens)


def acceptance_by_depth(trace: Trace) -> go.Figure:
    """How often a drafted token of each depth was kept, where one was tried there."""
    figure = _figure("Acceptance by depth of the tree", x="depth", y="share accepted")
    counts = trace.lane("eagle").accepted_by_depth
    figure.add_bar(
        x=[count.at for count in counts],
        y=[count.rate for count in counts],
        text=[f"{count.rate:.2f}" for count in counts],
        textposition="outside",
        customdata=[[count.num_accepted, count.num_reached] for count in counts],
        hovertemplate="depth %{x}: %{customdata[0]} of %{customdata[1]} steps<extra></extra>",
        marker={"color": EAGLE},
        width=0.6,
        showlegend=False,
    )
    figure.update_yaxes(range=[0, 1.12], tickvals=[0, 0.25, 0.5, 0.75, 1])
    figure.update_xaxes(dtick=1, range=[0.4, max(len(counts), 1) + 0.6])
    return figure


def branches(trace: Trace) -> go.Figure:
    """Every place of the draft tree with the share of steps that kept the node drafted there."""
    graph = slot_graph(trace.lane("eagle"))
    places = slot_places(graph)
    slots = sorted(graph)
    num_steps = max(graph.nodes[()]["kept"], 1)
    shares = [graph.nodes[slot]["kept"] / num_steps for slot in slots]
    rows = 1 - min(row for _, row in places.values())
    figure = _figure("What each branch was worth: share of steps that kept it", x="depth", y="")
    figure.update_layout(height=110 + ROW_HEIGHT * rows, showlegend=False)
    figure.add_scatter(
        x=[x for edge in graph.edges for x in (*(places[slot][0] for slot in edge), None)],
        y=[y for edge in graph.edges for y in (*(places[slot][1] for slot in edge), None)],
        mode="lines",
        line={"color": GRID, "width": 1.5},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[places[slot][0] for slot in slots],
        y=[places[slot][1] for slot in slots],
        mode="markers+text",
        text=[
            f"{share:.0%}" if slot and share else ""
            for slot, share in zip(slots, shares, strict=True)
        ],
        textposition="top right",
        hovertext=[_worth(slot, graph.nodes[slot]) for slot in slots],
        hoverinfo="text",
        marker={
            "size": [6 + 20 * share**0.5 for share in shares],
            "color": [EAGLE if share else PLAIN for share in shares],
            "symbol": ["circle" if share else "circle-open" for share in shares],
        },
    )
    figure.update_xaxes(dtick=1, range=[-0.3, max(map(len, slots)) + 0.7])
    figure.update_yaxes(visible=False, range=[0.5 - rows, 1.2], rangemode="normal")
    return figure


def _worth(slot: Slot, counts: Mapping[str, int]) -> str:
    if not slot:
        return f"root of {counts['kept']} steps"
    ranks = " → ".join(str(rank + 1) for rank in slot)
    return f"choices {ranks}: tried in {counts['tried']} steps, kept in {counts['kept']}"


def _figure(title: str, *, x: str, y: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=HEIGHT,
        title={"text": title, "x": 0, "xref": "paper", "font": {"size": 15, "color": INK}},
        font={"family": "IBM Plex Sans, system-ui, sans-serif", "size": 12, "color": INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 52, "r": 12, "t": 48, "b": 44},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"},
        showlegend=True,
    )
    figure.update_xaxes(title={"text": x}, gridcolor=GRID, zeroline=False, rangemode="tozero")
    figure.update_yaxes(title={"text": y}, gridcolor=GRID, zeroline=False, rangemode="tozero")
    return figure

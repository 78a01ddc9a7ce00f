"""How drafts fared: by depth, by child rank, by confidence, and branch by branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.figures import GRID, as_shares, blank
from app.views.graph import Slot, slot_graph, slot_places
from app.views.palette import EAGLE, PLAIN
from eagle_core.insight import calibration_error, confidence_bins
from eagle_core.trace import AcceptanceCount, Trace

ROW_HEIGHT = 24
CHOICES = {
    "first choices": {"is_first": True, "color": EAGLE, "symbol": "circle"},
    "later choices": {"is_first": False, "color": PLAIN, "symbol": "square-open"},
}


def acceptance_by_depth(trace: Trace) -> go.Figure:
    """How often a drafted token of each depth was kept, where one was tried there."""
    return _rates(trace.lane("eagle").accepted_by_depth, of="depth", shift=0)


def acceptance_by_rank(trace: Trace) -> go.Figure:
    """How often the first, second, … child was the one kept, where its parent had so many."""
    return _rates(trace.lane("eagle").accepted_by_rank, of="choice", shift=1)


def _rates(counts: Sequence[AcceptanceCount], *, of: str, shift: int) -> go.Figure:
    figure = blank(x=of, y="share accepted")
    figure.add_bar(
        x=[count.at + shift for count in counts],
        y=[count.rate for count in counts],
        text=[f"{count.rate:.2f}" for count in counts],
        textposition="outside",
        customdata=[[count.num_accepted, count.num_reached] for count in counts],
        hovertemplate=of + " %{x}: %{customdata[0]} of %{customdata[1]}<extra></extra>",
        marker={"color": EAGLE},
        width=0.6,
    )
    return as_shares(figure, num_columns=len(counts))


def calibration(trace: Trace) -> go.Figure:
    """Acceptance of tried nodes against their draft probability; on the diagonal both are equal."""
    figure = blank(x="draft probability", y="share accepted")
    diagonal = {"color": GRID, "dash": "dot", "width": 2}
    figure.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line=diagonal, hoverinfo="skip", showlegend=False
    )
    for name, look in CHOICES.items():
        bins = confidence_bins(trace.lane("eagle"), of_first_choices=bool(look["is_first"]))
        figure.add_scatter(
            x=[one.mean_confidence for one in bins],
            y=[one.rate for one in bins],
            mode="markers",
            name=f"{name}, off by {calibration_error(bins):.2f}" if bins else f"{name}: none",
            customdata=[[one.num_accepted, one.num_tried] for one in bins],
            hovertemplate="draft probability %{x:.2f}: %{customdata[0]} of %{customdata[1]}"
            "<extra>" + name + "</extra>",
            marker={
                "color": look["color"],
                "symbol": look["symbol"],
                "size": [min(7 + one.num_tried**0.5, 22) for one in bins],
            },
        )
    figure.update_xaxes(range=[-0.03, 1.03])
    figure.update_yaxes(range=[-0.06, 1.06])
    return figure


def branches(trace: Trace) -> go.Figure:
    """Every place of the draft tree with the share of steps that kept the node drafted there."""
    graph = slot_graph(trace.lane("eagle"))
    places = slot_places(graph)
    slots = sorted(graph)
    num_steps = max(graph.nodes[()]["kept"], 1)
    shares = [graph.nodes[slot]["kept"] / num_steps for slot in slots]
    rows = 1 - int(min(row for _, row in places.values()))
    figure = blank(x="depth", y="", height=90 + ROW_HEIGHT * rows)
    figure.update_layout(showlegend=False)
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

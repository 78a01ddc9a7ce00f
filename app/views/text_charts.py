"""A run along its text: what each step committed, and how open each choice of the target was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.figures import LOOKS, SOFT, as_shares, blank, say
from app.views.markup import in_figure, piece_of
from app.views.palette import EAGLE
from eagle_core.insight import Place, places
from eagle_core.trace import Trace

ORIGINS = {True: ("accepted", LOOKS["eagle"]), False: ("bonus token", LOOKS["bonus"])}


def tokens_per_step(trace: Trace) -> go.Figure:
    """How many steps committed one token, two, …"""
    figure = blank(x="tokens committed by a step", y="share of steps")
    counts = Counter(step.num_committed for step in trace.lane("eagle").steps)
    sizes = range(1, max(counts, default=0) + 1)
    shares = [counts[size] / counts.total() for size in sizes]
    figure.add_bar(
        x=list(sizes),
        y=shares,
        text=[str(counts[size]) for size in sizes],
        textposition="outside",
        hovertemplate="%{text} steps committed %{x}<extra></extra>",
        marker={"color": EAGLE},
        width=0.6,
    )
    return as_shares(figure, num_columns=len(sizes))


def committed_along_text(trace: Trace) -> go.Figure:
    """A block per step: as wide as the tokens that it wrote, and as high."""
    figure = blank(x="position in the text, tokens", y="tokens per step")
    steps = trace.lane("eagle").steps
    sizes = [step.num_committed for step in steps]
    starts = [1 + sum(sizes[:number]) for number in range(len(sizes))]
    figure.add_bar(
        x=starts,
        y=sizes,
        width=sizes,
        offset=-0.5,
        customdata=[[number + 1, step.num_drafts] for number, step in enumerate(steps)],
        hovertemplate="step %{customdata[0]} at token %{x}: %{y} of %{customdata[1]} + 1"
        "<extra></extra>",
        marker={"color": EAGLE, "line": {"width": 1, "color": "rgba(255,255,255,0.7)"}},
    )
    figure.update_layout(showlegend=False, bargap=0)
    figure.update_yaxes(dtick=1 if max(sizes, default=1) < 8 else None)
    return figure


def entropy_along_text(trace: Trace) -> go.Figure:
    """Entropy of the target law at every token, accepted runs as bands behind it."""
    figure = blank(x="position in the text, tokens", y="entropy, bits")
    found = [place for place in places(trace.lane("eagle")) if place.entropy_bits is not None]
    if not found:
        return say(figure, "This trace holds no laws of the target.")
    for first, last in accepted_runs(found):
        band = {"x0": first - 0.5, "x1": last + 0.5, "y0": 0, "y1": 1, "yref": "paper"}
        figure.add_shape(type="rect", layer="below", line={"width": 0}, fillcolor=SOFT, **band)
    for is_accepted, (name, look) in ORIGINS.items():
        here = [place for place in found if place.is_accepted is is_accepted]
        figure.add_scatter(
            x=[place.position for place in here],
            y=[place.entropy_bits for place in here],
            mode="markers",
            name=name,
            text=[in_figure(piece_of(trace, place.token)) for place in here],
            hovertemplate="%{text} at %{x}: %{y:.2f} bits<extra>" + name + "</extra>",
            marker={"color": look["color"], "symbol": look["symbol"], "size": 7},
        )
    return figure


def accepted_runs(found: Sequence[Place]) -> list[tuple[int, int]]:
    """First and last position of the accepted tokens of each step that has some."""
    runs: dict[int, tuple[int, int]] = {}
    for place in found:
        if place.is_accepted:
            first, _ = runs.get(place.step, (place.position, 0))
            runs[place.step] = (first, place.position)
    return list(runs.values())

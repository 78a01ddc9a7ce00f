"""Where a run's time went: tokens over time, and each lane's shares."""

from __future__ import annotations

from itertools import accumulate

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.figures import LOOKS, blank
from app.views.palette import EAGLE, PLAIN
from eagle_core.insight import time_shares
from eagle_core.trace import Lane, Trace

PARTS = {
    "draft": {"color": EAGLE},
    "verify": {"color": PLAIN},
    "commit": {"color": PLAIN, "pattern": {"shape": "/", "solidity": 0.6}},
}


def tokens_over_time(trace: Trace) -> go.Figure:
    """Committed tokens against decode seconds, one stair per lane; the prefill is not counted."""
    figure = blank(x="decode time, s", y="tokens")
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


def time_per_token(trace: Trace) -> go.Figure:
    """Milliseconds a token of each lane's decode phase, split into draft, verify, commit."""
    figure = blank(x="ms per token", y="")
    names = [LOOKS[lane.method]["name"] for lane in trace.lanes]
    shares = [time_shares(lane.steps) for lane in trace.lanes]
    num_tokens = [max(len(lane.tokens) - 1, 1) for lane in trace.lanes]
    for part, marker in PARTS.items():
        spent = [getattr(share, f"{part}_ms") for share in shares]
        figure.add_bar(
            y=names,
            x=[ms / count for ms, count in zip(spent, num_tokens, strict=True)],
            name=part,
            orientation="h",
            marker=marker,
            customdata=[
                ms / (share.total_ms or 1.0) for ms, share in zip(spent, shares, strict=True)
            ],
            hovertemplate=part + " %{x:.1f} ms, %{customdata:.0%} of the lane<extra></extra>",
        )
    figure.update_layout(barmode="stack", margin={"l": 110}, legend={"traceorder": "normal"})
    figure.update_yaxes(autorange="reversed", rangemode=None)
    return figure

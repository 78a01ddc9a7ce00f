"""The look that all plotly figures share.

A figure follows no theme: its ground is clear and its ink is set by the page's style sheet, so
that it reads on light and on dark. Only attributes as old as plotly.js 3 are used, since the page
draws with the copy that gradio bundles. Titles and formulas stand beside a figure, where they wrap.
"""

from __future__ import annotations

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.palette import BONUS, EAGLE, PLAIN

HEIGHT = 250
INK = "#7d8694"
GRID = "rgba(125,134,148,0.25)"
SOFT = "rgba(63,127,232,0.16)"

LOOKS = {
    "plain": {"name": "Plain decoding", "color": PLAIN, "dash": "dash", "symbol": "square"},
    "eagle": {"name": "EAGLE", "color": EAGLE, "dash": "solid", "symbol": "circle"},
    "bonus": {"name": "the target's own", "color": BONUS, "dash": "dot", "symbol": "diamond"},
}


def blank(*, x: str, y: str, height: int = HEIGHT) -> go.Figure:
    """Axes with their titles and nothing in them yet; both begin at zero."""
    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=height,
        font={"family": "IBM Plex Sans, system-ui, sans-serif", "size": 12, "color": INK},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 52, "r": 12, "t": 28, "b": 44},
        legend={"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom"},
        showlegend=True,
        bargap=0.35,
    )
    figure.update_xaxes(title={"text": x}, gridcolor=GRID, zeroline=False, rangemode="tozero")
    figure.update_yaxes(title={"text": y}, gridcolor=GRID, zeroline=False, rangemode="tozero")
    return figure


def say(figure: go.Figure, text: str) -> go.Figure:
    """Words in the middle of a figure that has nothing to draw."""
    figure.add_annotation(
        text=text, xref="paper", yref="paper", x=0.5, y=0.5, showarrow=False, font={"size": 13}
    )
    return figure


def as_shares(figure: go.Figure, *, num_columns: int) -> go.Figure:
    """Bars at 1, 2, … whose heights are shares, with room for a figure on top of each."""
    figure.update_yaxes(range=[0, 1.12], tickvals=[0, 0.25, 0.5, 0.75, 1])
    figure.update_xaxes(dtick=1, range=[0.4, max(num_columns, 1) + 0.6])
    figure.update_layout(showlegend=False)
    return figure

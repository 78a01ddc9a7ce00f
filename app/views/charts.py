"""The figures of a finished run: each with the formula of what it shows, made on demand.

A figure is a function of the trace alone; the page makes them when somebody opens their panel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views import acceptance_charts, text_charts, time_charts
from eagle_core.trace import Trace


@dataclass(frozen=True)
class Chart:
    """name: for the page's element; formula: what is counted, in a sentence or two."""

    name: str
    title: str
    formula: str
    draw: Callable[[Trace], go.Figure]
    is_wide: bool = False


CHARTS = (
    Chart(
        "over-time",
        "Tokens over time",
        "Tokens committed by each moment of the decode phase; the prefill and its first token come "
        "before 0.",
        time_charts.tokens_over_time,
    ),
    Chart(
        "per-token",
        "Where the time went",
        "Σ draft, Σ verify and Σ commit of a lane's steps, each ÷ (tokens - 1). Their sum is "
        "1000 ÷ (tokens/s).",
        time_charts.time_per_token,
    ),
    Chart(
        "by-depth",
        "Acceptance by depth",
        "Steps that kept a node of this depth ÷ steps whose walk tried one there.",
        acceptance_charts.acceptance_by_depth,
    ),
    Chart(
        "by-rank",
        "Acceptance by child rank",
        "Kept nodes whose 1st, 2nd, … child was kept next ÷ kept nodes that had such a child. "
        "The bars of a rank count its parents alone, so they need not add up to 1.",
        acceptance_charts.acceptance_by_rank,
    ),
    Chart(
        "calibration",
        "Draft confidence against acceptance",
        "Tried nodes in ten bins of their draft probability: accepted ÷ tried, at the bin's mean. "
        "Off by = Σ tried·|share - mean| ÷ Σ tried. A later choice is tried only once the "
        "earlier ones were refused, so it is kept more often than its draft probability says.",
        acceptance_charts.calibration,
    ),
    Chart(
        "per-step",
        "Tokens per step",
        "Steps that committed this many tokens (accepted + bonus) ÷ all steps. The mean is τ.",
        text_charts.tokens_per_step,
    ),
    Chart(
        "along-text",
        "Tokens per step, along the text",
        "A block per step, as wide and as high as the tokens it committed.",
        text_charts.committed_along_text,
        is_wide=True,
    ),
    Chart(
        "entropy",
        "Entropy of the target along the text",
        "-Σ p log2 p of the target law each token was taken from, over the recorded top of the law "
        "with the rest as one token: the entropy is at least this. Bands are runs of accepted "
        "tokens.",
        text_charts.entropy_along_text,
        is_wide=True,
    ),
    Chart(
        "by-branch",
        "What each branch was worth",
        "Steps that kept the node drafted at this place of the tree ÷ all steps.",
        acceptance_charts.branches,
        is_wide=True,
    ),
)

"""What another tree would have done: a table of two trees, and speedup by size."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.figures import GRID, blank
from app.views.markup import paragraph, table
from app.views.palette import BONUS, EAGLE, PLAIN
from eagle_core.latency import Clock, speedup
from eagle_core.trace import Trace
from eagle_core.whatif import Answer, WhatIf, fixed_plan
from eagle_core.whatif_runs import TreeRuns

CHAINS = tuple(f"chain:{length}" for length in (1, 2, 3, 4, 5, 6, 8))
TREES = tuple(f"tree:{size}" for size in (4, 6, 8, 10, 12, 16, 20, 25))

BASIS = {
    "exact": "exact at the recorded roots",
    "estimate": "an estimate: part of this tree was not drafted",
}
KINDS = {
    "chains": {"trees": CHAINS, "color": PLAIN, "symbol": "square"},
    "trees": {"trees": TREES, "color": EAGLE, "symbol": "circle"},
}


def tree_label(tree: str) -> str:
    kind, _, size = tree.partition(":")
    return f"{kind.capitalize()} of {size}" if size else tree


def other_tree(trace: Trace, tree: str, clock: Clock, runs: TreeRuns | None) -> str:
    """As HTML: the run as recorded beside the run with `tree`, then what the figures rest on.
    Raises `OptionError` where nothing can be said."""
    answer = WhatIf.of(trace).with_tree(fixed_plan(tree))
    rows = [
        ("τ, tokens per pass", f"{trace.lane('eagle').tau:.2f}", _marked(answer, answer.tau)),
        *_times(trace, tree, answer, clock),
    ]
    header = ("", f"{tree_label(trace.settings.tree)}, as recorded", f"{tree_label(tree)}, what if")
    notes = [_basis(answer), _pace(tree, clock), _error(trace, tree, runs), clock.source]
    return table("The run with another tree", header, rows) + "".join(
        paragraph(note) for note in notes if note
    )


def _times(trace: Trace, tree: str, answer: Answer, clock: Clock) -> list[tuple[str, str, str]]:
    plan, lane = fixed_plan(tree), trace.lane("eagle")
    ms = clock.step_ms(plan)
    recorded = trace.speedup
    return [
        ("ms per step", f"{lane.decode_ms / max(lane.num_target_passes, 1):.1f}", f"≈ {ms:.1f}"),
        ("tokens/s", f"{lane.tokens_per_s:.1f}", f"≈ {1000 * answer.tau / ms:.1f}"),
        (
            "speedup",
            "-" if recorded is None else f"{recorded:.2f}",
            f"≈ {speedup(clock, plan, answer.tau):.2f}",
        ),
    ]


def _marked(answer: Answer, tau: float) -> str:
    return f"{tau:.2f}" if answer.basis == "exact" else f"≈ {tau:.2f}"


def _basis(answer: Answer) -> str:
    if answer.basis == "estimate":
        return (
            "τ is an estimate: a node that a step did not draft counts with its parent's chance "
            "times how often a child of that depth and rank was kept; of a rank never drafted, "
            "with 0."
        )
    words = (
        "τ is exact for every recorded step: same root, same drafts, same decisions, tokens kept "
        "inside the smaller tree. A real run would begin its steps at other places."
    )
    if answer.bounds is None:
        return words
    low, high = answer.bounds.low, answer.bounds.high
    return f"{words} With this text, its τ lies between {low:.2f} and {high:.2f} for certain."


def _pace(tree: str, clock: Clock) -> str:
    rule = (
        "ms per step = draft at this depth + target pass over this many rows + commit, straight "
        f"lines between the points of: {clock.name}. Speedup = τ · plain ms per step ÷ ms per step."
    )
    beyond = (
        " This tree is larger than any measured there, so its line goes on past the last point."
    )
    return rule + ("" if clock.reaches(fixed_plan(tree)) else beyond)


def _error(trace: Trace, tree: str, runs: TreeRuns | None) -> str:
    """How such an answer fared against real runs."""
    errors = runs.errors(trace.settings.tree, tree) if runs else ()
    if not runs or not errors:
        return ""
    off, worst = sum(errors) / len(errors), max(map(abs, errors))
    return (
        f"Its error: {len(errors)} prompts were run with both trees ({runs.about}). From the runs "
        f"with {trace.settings.tree}, τ with {tree} came out {off:+.2f} from the real one on "
        f"average, {worst:.2f} at the worst."
    )


def speedup_by_size(trace: Trace, clock: Clock, *, chosen: str) -> go.Figure:
    """Speedup against drafted tokens, for chains and for trees; estimates are open."""
    whatif = WhatIf.of(trace)
    figure = blank(x="drafted tokens", y="speedup")
    for name, kind in KINDS.items():
        trees: Sequence[str] = [str(tree) for tree in kind["trees"]]
        plans = [fixed_plan(tree) for tree in trees]
        answers = [whatif.with_tree(plan) for plan in plans]
        pairs = list(zip(plans, answers, strict=True))
        opens = [a.basis == "estimate" or not clock.reaches(p) for p, a in pairs]
        figure.add_scatter(
            x=[plan.num_drafts for plan in plans],
            y=[speedup(clock, plan, answer.tau) for plan, answer in pairs],
            mode="lines+markers",
            name=name,
            customdata=[[f"{answer.tau:.2f}", BASIS[answer.basis]] for answer in answers],
            hovertemplate="%{x} drafted: speedup %{y:.2f}, τ %{customdata[0]}, %{customdata[1]}"
            "<extra>" + name + "</extra>",
            line={"color": kind["color"], "width": 1.5},
            marker={
                "color": kind["color"],
                "size": 8,
                "symbol": [f"{kind['symbol']}{'-open' if one else ''}" for one in opens],
            },
        )
    plan = fixed_plan(chosen)
    figure.add_scatter(
        x=[plan.num_drafts],
        y=[speedup(clock, plan, whatif.with_tree(plan).tau)],
        mode="markers",
        name="asked for",
        marker={"color": BONUS, "size": 16, "symbol": "circle-open", "line": {"width": 2}},
        hoverinfo="skip",
    )
    figure.add_hline(y=1, line={"color": GRID, "dash": "dot", "width": 2})
    return figure

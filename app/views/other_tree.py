"""What another tree would have done: a table of two trees, and speedup by size."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.figures import GRID, blank
from app.views.markup import paragraph, table
from app.views.palette import BONUS, EAGLE, PLAIN
from eagle_core.latency import LatencyCurve
from eagle_core.trace import Trace
from eagle_core.tree import TreePlan
from eagle_core.whatif import Answer, WhatIf, fixed_plan
from eagle_core.whatif_runs import TreeRuns

CHAINS = tuple(f"chain:{length}" for length in (1, 2, 3, 4, 5, 6, 8))
TREES = tuple(f"tree:{size}" for size in (4, 6, 8, 10, 12, 16, 20, 25))

BASIS = {
    "exact": "exact at the recorded roots",
    "estimate": "an estimate: part of this tree was never drafted",
}
KINDS = {
    "chains": {"trees": CHAINS, "color": PLAIN, "symbol": "square"},
    "trees": {"trees": TREES, "color": EAGLE, "symbol": "circle"},
}


def tree_label(tree: str) -> str:
    kind, _, size = tree.partition(":")
    return f"{kind.capitalize()} of {size}" if size else tree


def plan_of(tree: str) -> TreePlan:
    return fixed_plan(tree)


def other_tree(trace: Trace, tree: str, curve: LatencyCurve, runs: TreeRuns | None) -> str:
    """As HTML: the run as recorded beside the run with `tree`, then what the figures rest on.
    Raises `OptionError` where nothing can be said."""
    answer = WhatIf.of(trace).with_tree(plan_of(tree))
    rows = [
        ("τ, tokens per pass", f"{trace.lane('eagle').tau:.2f}", _marked(answer, answer.tau)),
        *_times(trace, tree, answer, curve),
    ]
    header = ("", f"{tree_label(trace.settings.tree)}, as recorded", f"{tree_label(tree)}, what if")
    notes = [_basis(answer), _pace(tree, curve), _error(trace, tree, runs), curve.source]
    return table("The run with another tree", header, rows) + "".join(
        paragraph(note) for note in notes if note
    )


def _times(
    trace: Trace, tree: str, answer: Answer, curve: LatencyCurve
) -> list[tuple[str, str, str]]:
    plan, lane = plan_of(tree), trace.lane("eagle")
    ms = curve.step_ms(plan)
    speedup = trace.speedup
    return [
        ("ms per step", f"{lane.decode_ms / max(lane.num_target_passes, 1):.1f}", f"≈ {ms:.1f}"),
        ("tokens/s", f"{lane.tokens_per_s:.1f}", f"≈ {1000 * answer.tau / ms:.1f}"),
        (
            "speedup",
            "-" if speedup is None else f"{speedup:.2f}",
            f"≈ {curve.speedup(plan, answer.tau):.2f}",
        ),
    ]


def _marked(answer: Answer, tau: float) -> str:
    return f"{tau:.2f}" if answer.basis == "exact" else f"≈ {tau:.2f}"


def _basis(answer: Answer) -> str:
    if answer.basis == "estimate":
        return (
            "τ is an estimate: nodes that were never drafted count with their parent's share times "
            "how often a child of that depth and rank was kept; of ranks never drafted, with 0."
        )
    words = (
        "τ is exact for every recorded step: same root, same drafts, same decisions, tokens kept "
        "inside the smaller tree. A real run would begin its steps at other places."
    )
    if answer.bounds is None:
        return words
    low, high = answer.bounds.low, answer.bounds.high
    return f"{words} With this text, its τ lies between {low:.2f} and {high:.2f} for certain."


def _pace(tree: str, curve: LatencyCurve) -> str:
    rule = (
        "ms per step = draft at this depth + target pass over this many rows + commit, straight "
        f"lines between the points of: {curve.name}. Speedup = τ · plain ms per step ÷ ms per step."
    )
    beyond = (
        " This tree is larger than any measured there, so its line goes on past the last point."
    )
    return rule + ("" if curve.reaches(plan_of(tree)) else beyond)


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


def speedup_by_size(trace: Trace, curve: LatencyCurve, *, chosen: str) -> go.Figure:
    """Speedup against drafted tokens, for chains and for trees; estimates are open."""
    whatif = WhatIf.of(trace)
    figure = blank(x="drafted tokens", y="speedup")
    for name, kind in KINDS.items():
        trees: Sequence[str] = [str(tree) for tree in kind["trees"]]
        plans = [plan_of(tree) for tree in trees]
        answers = [whatif.with_tree(plan) for plan in plans]
        pairs = list(zip(plans, answers, strict=True))
        opens = [a.basis == "estimate" or not curve.reaches(p) for p, a in pairs]
        figure.add_scatter(
            x=[plan.num_drafts for plan in plans],
            y=[curve.speedup(plan, answer.tau) for plan, answer in pairs],
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
    plan = plan_of(chosen)
    figure.add_scatter(
        x=[plan.num_drafts],
        y=[curve.speedup(plan, whatif.with_tree(plan).tau)],
        mode="markers",
        name="asked for",
        marker={"color": BONUS, "size": 16, "symbol": "circle-open", "line": {"width": 2}},
        hoverinfo="skip",
    )
    figure.add_hline(y=1, line={"color": GRID, "dash": "dot", "width": 2})
    return figure

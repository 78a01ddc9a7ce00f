"""One step at another temperature: what each child's chance would be, and both target laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go  # type: ignore[import-untyped]  # ships no types

from app.views.figures import blank
from app.views.markup import in_figure, paragraph, piece_of, table
from app.views.palette import EAGLE, PLAIN
from eagle_core.errors import OptionError
from eagle_core.reheat import Visit, reheat, rule_at
from eagle_core.trace import Step, Trace

NUM_SHOWN = 8
HEADER = ("child", "after", "draft", "target", "acceptance", "as recorded")
NOTE = (
    "Each probability p of a recorded law becomes p ^ (T ÷ T'), scaled to sum to one; the drafted "
    "tokens stay. Of a law only the top is recorded; its rest counts as tokens as probable as they "
    "can be: colder, a probability is at least what is shown; hotter, at most. After a refusal of "
    "a drawn child, what is left is known for the recorded tops only."
)


def step_of(trace: Trace, number: int) -> Step:
    """EAGLE's step of that number, from 0. Raises `OptionError` where there is none."""
    steps = trace.lane("eagle").steps
    if not 0 <= number < len(steps):
        raise OptionError(f"step {number + 1}", expected=f"one of {len(steps)} steps of EAGLE")
    return steps[number]


def other_temperature(trace: Trace, number: int, temperature: float) -> str:
    """As HTML: every tried or untried child of the path's nodes, now and as recorded.
    Raises `OptionError` where nothing can be said."""
    step = step_of(trace, number)
    visits = reheat(step, trace.settings, temperature=temperature)
    rows = [row for visit in visits for row in _rows(trace, step, visit)]
    rule = rule_at(temperature, trace.settings).replace("_", " ")
    was = f"{trace.settings.temperature:g}"
    title = f"Step {number + 1} at T = {temperature:g}, rule {rule}; recorded at T = {was}"
    return (
        table(title, HEADER, rows)
        + paragraph(_kept(visits))
        + paragraph(NOTE)
        + paragraph(_check(trace, step))
    )


def _rows(trace: Trace, step: Step, visit: Visit) -> list[Sequence[str]]:
    after = piece_of(trace, step.nodes[visit.node].token)
    return [
        (
            piece_of(trace, child.token),
            after,
            _share(child.draft_prob),
            _share(child.target_prob),
            _share(child.accept_prob),
            _share(child.recorded),
        )
        for child in visit.children
    ]


def _kept(visits: Sequence[Visit]) -> str:
    first = visits[0]
    return (
        "Chance that the root keeps one of its children, 1 - Π (1 - acceptance): "
        f"{first.kept_prob:.2f}, as recorded {first.recorded_kept_prob:.2f}."
    )


def _check(trace: Trace, step: Step) -> str:
    """The same computation at the recorded temperature, against the record."""
    again = reheat(step, trace.settings, temperature=trace.settings.temperature)
    errors = [
        abs(child.accept_prob - child.recorded) for visit in again for child in visit.children
    ]
    return (
        "Check: at the recorded temperature this gives the recorded acceptance to within "
        f"{max(errors, default=0.0):.3f}."
    )


def laws_at(trace: Trace, number: int, temperature: float, *, node: int | None) -> go.Figure:
    """The most probable tokens after a node of the path, the root by default, then and now."""
    step = step_of(trace, number)
    visits = reheat(step, trace.settings, temperature=temperature)
    visit = next((one for one in visits if one.node == node), visits[0])
    best = sorted(visit.target.probs, key=lambda token: -visit.recorded_target.prob(token))
    tokens = best[:NUM_SHOWN]
    names = [in_figure(piece_of(trace, token)) for token in tokens]
    figure = blank(
        x=in_figure(f"target law after {piece_of(trace, step.nodes[visit.node].token)}"), y=""
    )
    looks = (
        (f"T = {trace.settings.temperature:g}, as recorded", visit.recorded_target, PLAIN),
        (f"T = {temperature:g}", visit.target, EAGLE),
    )
    for name, law, color in looks:
        figure.add_bar(
            x=list(range(len(tokens) + 1)),
            y=[*(law.prob(token) for token in tokens), law.rest + _others(law.probs, tokens)],
            name=name,
            marker={"color": color},
            hovertemplate="%{y:.3f}<extra>" + name + "</extra>",
        )
    ticks = [*names, "others"]
    figure.update_xaxes(tickvals=list(range(len(ticks))), ticktext=ticks, rangemode="normal")
    figure.update_yaxes(range=[0, 1.02])
    return figure


def _others(probs: Mapping[int, float], shown: Sequence[int]) -> float:
    return sum(prob for token, prob in probs.items() if token not in shown)


def _share(prob: float) -> str:
    if 0 < prob < 0.005:
        return "<.01"
    return ">.99" if 0.995 <= prob < 1 else f"{prob:.2f}"

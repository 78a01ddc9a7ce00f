"""A trace as a table of text: what both lanes did, and what the figures mean.

A view: a pure function of the trace, without torch.
"""

from __future__ import annotations

from collections.abc import Callable

from eagle_core.trace import Lane, Trace, first_difference

FORMULAS = (
    "τ = (tokens - 1) ÷ target passes; tokens/s counts the decode phase, prefill is shown apart; "
    "speedup = EAGLE's tokens/s ÷ plain's."
)

_ROWS: tuple[tuple[str, Callable[[Lane], str]], ...] = (
    ("tokens", lambda lane: str(len(lane.tokens))),
    ("target passes", lambda lane: str(lane.num_target_passes)),
    ("τ, tokens per pass", lambda lane: f"{lane.tau:.2f}"),
    ("prefill ms", lambda lane: f"{lane.prefill.ms:.0f}" if lane.prefill else "-"),
    ("draft ms", lambda lane: f"{sum(step.draft_ms for step in lane.steps):.0f}"),
    ("verify ms", lambda lane: f"{sum(step.verify_ms for step in lane.steps):.0f}"),
    ("commit ms", lambda lane: f"{sum(step.commit_ms for step in lane.steps):.0f}"),
    ("tokens/s", lambda lane: f"{lane.tokens_per_s:.1f}"),
    ("ended by", lambda lane: lane.stop.value if lane.stop else "-"),
)


def summary_table(trace: Trace) -> str:
    """Both lanes side by side, accepted tokens per depth, speedup, and whether the texts agree."""
    lines = [_line("", [lane.method for lane in trace.lanes])]
    lines += [_line(name, [cell(lane) for lane in trace.lanes]) for name, cell in _ROWS]
    lines += [*_accepted_per_depth(trace), "", *_verdicts(trace), FORMULAS]
    return "\n".join(lines)


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<22}" + "".join(f"{cell:>16}" for cell in cells)


def _accepted_per_depth(trace: Trace) -> list[str]:
    counts = [count for lane in trace.lanes for count in lane.accepted_by_depth]
    if not counts:
        return []
    cells = [f"{c.at}: {c.num_accepted}/{c.num_reached} ({c.rate:.0%})" for c in counts]
    return ["accepted per depth    " + "  ".join(cells)]


def _verdicts(trace: Trace) -> list[str]:
    env, settings = trace.environment, trace.settings
    lines = [
        f"{env.target}, head {env.head}, {settings.tree}, rule {settings.rule}, "
        f"T = {settings.temperature:g}, {env.dtype} on {env.device}, {env.threads} threads"
    ]
    if not settings.is_lossless:
        lines.append(f"LOSSY: under rule {settings.rule} EAGLE's text is not the target's own")
    if trace.speedup is not None:
        lines.append(f"speedup {trace.speedup:.2f}")
    if len(trace.lanes) == 2 and (settings.temperature == 0 or settings.rule == "seeded"):
        lines.append(_equality(*trace.lanes))
    return lines


def _equality(plain: Lane, eagle: Lane) -> str:
    differs_at = first_difference(plain, eagle)
    if differs_at is None:
        return "both texts are equal"
    if differs_at == min(len(plain.tokens), len(eagle.tokens)):
        return f"both texts are equal over the {differs_at} tokens that both lanes reached"
    return f"the texts differ from token {differs_at} on"

"""What a replay found, with intervals over the questions.

Knows counts. Knows nothing of models or files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch

from eagle_core.bench.run import Counts, LaneFigures

if TYPE_CHECKING:
    from eagle_core.trace import Environment

NUM_RESAMPLINGS = 1000
MIDDLE = (0.025, 0.975)
FORMULAS = (
    "τ = Σ (tokens - 1) ÷ Σ target passes; n-alpha = agreeing ÷ counted drafts with n estimated "
    "features, from every place where the n before it agreed\n"
    f"in brackets: the middle 95 % of {NUM_RESAMPLINGS:,} resamplings of the questions"
)


@dataclass(frozen=True)
class Ratio:
    """Σ parts ÷ Σ wholes, an entry of each per question."""

    wholes: tuple[int, ...]
    parts: tuple[int, ...]

    @property
    def value(self) -> float:
        return sum(self.parts) / max(sum(self.wholes), 1)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Bootstrap percentiles over the questions, the same at every call."""
        generator = torch.Generator().manual_seed(0)
        num = len(self.wholes)
        picks = torch.randint(num, (NUM_RESAMPLINGS, num), generator=generator)
        sums = torch.tensor([self.parts, self.wholes], dtype=torch.float64)[:, picks].sum(-1)
        low, high = (sums[0] / sums[1].clamp_min(1)).quantile(torch.tensor(MIDDLE).double())
        return float(low), float(high)


def ratios(counts: Sequence[Sequence[Counts]]) -> tuple[Ratio, ...]:
    """Place by place, from every question's reached and accepted ones at place 0, 1, …"""
    places = zip_longest(*counts, fillvalue=(0, 0))
    return tuple(Ratio(*map(tuple, zip(*place, strict=True))) for place in places)


@dataclass(frozen=True)
class Replay:
    """One head over the answers to a set of questions; an entry per question in every figure."""

    environment: Environment
    questions: str  # the set's name
    temperature: float
    num_tokens: int
    plans: Mapping[str, Sequence[LaneFigures]]
    alphas: Sequence[Sequence[Counts]]

    def tau(self, plan: str) -> Ratio:
        lanes = self.plans[plan]
        passes = tuple(lane.num_target_passes or 0 for lane in lanes)  # ours all count them
        return Ratio(passes, tuple(lane.num_tokens for lane in lanes))

    def by_depth(self, plan: str) -> tuple[Ratio, ...]:
        """From depth 1 on."""
        return ratios([lane.accepted_by_depth for lane in self.plans[plan]])

    def by_rank(self, plan: str) -> tuple[Ratio, ...]:
        return ratios([lane.accepted_by_rank for lane in self.plans[plan]])

    def to_json(self) -> dict[str, Any]:
        """Every figure as [value, low, high]."""
        return {
            "questions": self.questions,
            "temperature": self.temperature,
            "num_questions": len(self.alphas),
            "num_tokens": self.num_tokens,
            "plans": {
                plan: {
                    "tau": _numbers(self.tau(plan)),
                    "accepted_by_depth": [_numbers(ratio) for ratio in self.by_depth(plan)],
                    "accepted_by_rank": [_numbers(ratio) for ratio in self.by_rank(plan)],
                }
                for plan in self.plans
            },
            "alphas": [_numbers(ratio) for ratio in ratios(self.alphas)],
        }


def to_json(replays: Sequence[Replay]) -> dict[str, Any]:
    """Those of one head, at least one."""
    where = replays[0].environment
    told = {"target": where.target, "head": where.head, "dtype": where.dtype}
    return {**told, "replays": [replay.to_json() for replay in replays]}


def report(replays: Sequence[Replay]) -> str:
    """Those of one head, at least one."""
    where = replays[0].environment
    title = f"{where.target}, head {where.head}, {where.dtype}"
    return "\n\n".join([title, *map(_section, replays), FORMULAS])


def _section(replay: Replay) -> str:
    lines = [
        f"{replay.questions}, T = {replay.temperature:g}: {len(replay.alphas)} answers, "
        f"{replay.num_tokens:,} tokens, replayed"
    ]
    for plan in replay.plans:
        lines.append(f"{plan:<10} τ {_said(replay.tau(plan), '.2f')}")
        lines += [f"  accepted by depth       {_listed(replay.by_depth(plan), first=1)}"]
        lines += [f"  accepted by child rank  {_listed(replay.by_rank(plan), first=0)}"]
    lines += [f"n-alpha    {_listed(ratios(replay.alphas), first=0)}"]
    return "\n".join(lines)


def _listed(found: Sequence[Ratio], *, first: int) -> str:
    return "  ".join(f"{at}: {_said(ratio, '.1%')}" for at, ratio in enumerate(found, start=first))


def _said(ratio: Ratio, form: str) -> str:
    low, high = ratio.interval
    return f"{ratio.value:{form}} [{low:{form}}, {high:{form}}]"


def _numbers(ratio: Ratio) -> list[float]:
    return [round(number, 4) for number in (ratio.value, *ratio.interval)]

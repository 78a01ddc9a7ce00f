"""What a finished lane tells beyond its totals: calibration, tokens along the text, time shares.

Pure functions of a lane. Knows traces. Knows nothing of models or pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eagle_core.trace import Lane, Step, TopLaw, Verdict

NUM_BINS = 10
TRIED = (Verdict.ACCEPTED, Verdict.REFUSED)


@dataclass(frozen=True)
class ConfidenceBin:
    """Tried nodes of like draft probability, and how many of them were accepted."""

    mean_confidence: float
    num_tried: int
    num_accepted: int

    @property
    def rate(self) -> float:
        return self.num_accepted / self.num_tried


@dataclass(frozen=True)
class Place:
    """A token of the text after the first: who gave it, in which step, and how open the choice was.

    entropy_bits: of the target law it was taken from, see `entropy_bits`; None where the trace
        holds no law.
    """

    position: int  # of the token, counted from the start of the answer
    step: int
    token: int
    is_accepted: bool
    entropy_bits: float | None


@dataclass(frozen=True)
class TimeShares:
    """Where the milliseconds of a decode phase went."""

    draft_ms: float
    verify_ms: float
    commit_ms: float

    @property
    def total_ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.commit_ms


def confidence_bins(lane: Lane, *, of_first_choices: bool) -> tuple[ConfidenceBin, ...]:
    """Tried nodes by draft probability, in ten equal bins of which the empty ones are left out.

    First choices stand trial unconditionally; later siblings only where all before were refused.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(NUM_BINS)]
    for confidence, is_accepted in _trials(lane, of_first_choices):
        bins[min(int(confidence * NUM_BINS), NUM_BINS - 1)].append((confidence, is_accepted))
    return tuple(
        ConfidenceBin(
            mean_confidence=sum(confidence for confidence, _ in trials) / len(trials),
            num_tried=len(trials),
            num_accepted=sum(is_accepted for _, is_accepted in trials),
        )
        for trials in bins
        if trials
    )


def _trials(lane: Lane, of_first_choices: bool) -> Iterator[tuple[float, bool]]:
    for step in lane.steps:
        firsts = {children[0] for children in step.children if children}
        for node, tried in enumerate(step.nodes):
            if tried.verdict in TRIED and (node in firsts) is of_first_choices:
                yield tried.draft_prob or 0.0, tried.verdict is Verdict.ACCEPTED


def calibration_error(bins: Sequence[ConfidenceBin]) -> float:
    """Mean distance of acceptance from confidence, over all trials: Σ tried·|rate - confidence| ÷
    Σ tried (the expected calibration error)."""
    num_tried = sum(one.num_tried for one in bins)
    gaps = sum(one.num_tried * abs(one.rate - one.mean_confidence) for one in bins)
    return gaps / num_tried if num_tried else 0.0


def places(lane: Lane) -> tuple[Place, ...]:
    """Every token that the steps committed, in order; the prefill's token has position 0."""
    found: list[Place] = []
    start = 0 if lane.prefill is None else 1
    for number, step in enumerate(lane.steps):
        laws = {laws.node: laws.target for laws in step.laws}
        for place, token in enumerate(step.committed):
            law = laws.get(step.path[place])
            found.append(
                Place(
                    position=start + len(found),
                    step=number,
                    token=token,
                    is_accepted=place < step.num_accepted,
                    entropy_bits=None if law is None else entropy_bits(law),
                )
            )
    return tuple(found)


def entropy_bits(law: TopLaw) -> float:
    """Of a law known by its top, the rest counted as one token: the true entropy is at least this.

    -Σ p log2 p over the recorded tokens and the rest.
    """
    rest = 1.0 - sum(law.probs)
    return -sum(prob * math.log2(prob) for prob in (*law.probs, rest) if prob > 0) + 0.0


def time_shares(steps: Sequence[Step]) -> TimeShares:
    return TimeShares(
        draft_ms=sum(step.draft_ms for step in steps),
        verify_ms=sum(step.verify_ms for step in steps),
        commit_ms=sum(step.commit_ms for step in steps),
    )

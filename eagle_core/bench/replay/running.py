"""Replay a head over stored answers: the same engine, over a target that remembers.

Knows workbenches, answers and counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from eagle_core.bench.replay.alphas import alphas
from eagle_core.bench.replay.figures import Replay
from eagle_core.bench.replay.known import KnownTarget
from eagle_core.bench.run import Counts, LaneFigures, figures
from eagle_core.compare import as_lane
from eagle_core.options import RunOptions

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.bench.replay.answers import Answer, AnswerStore
    from eagle_core.trace import Lane
    from eagle_core.workbench import Workbench


@dataclass(frozen=True)
class Replayed:
    """One head over one answer."""

    answer: Answer
    plans: dict[str, LaneFigures]
    alphas: tuple[Counts, ...]


def answers_to(
    bench: Workbench, prompts: Sequence[Sequence[int]], store: AnswerStore, *, options: RunOptions
) -> Iterator[Answer]:
    """Plain decoding's answers, those in the store as they are."""
    for prompt in prompts:
        yield store.answer(prompt, partial(_plainly, bench, prompt, options))


def _plainly(bench: Workbench, prompt: Sequence[int], options: RunOptions) -> tuple[int, ...]:
    return as_lane("plain", bench.plain(list(prompt), options)).tokens


def replay_answer(
    bench: Workbench,
    answer: Answer,
    features: Tensor,
    *,
    plans: Sequence[str],
    max_new_tokens: int,
) -> Replayed:
    """features: (R, K·D), along the answer, at the head's taps."""
    options = [RunOptions(max_new_tokens=max_new_tokens, tree=plan) for plan in plans]
    lanes = {
        wanted.tree: figures(replay_lane(bench, answer, features, wanted)) for wanted in options
    }
    levels = alphas(bench, answer.text, features, num_prompt_tokens=len(answer.prompt))
    return Replayed(answer, lanes, levels)


def replay_lane(bench: Workbench, answer: Answer, features: Tensor, options: RunOptions) -> Lane:
    """What EAGLE's lane would do, target passes left out; `options` are of temperature 0."""
    known = KnownTarget(bench.target, answer.text, features)
    return as_lane("eagle", replace(bench, target=known).eagle(list(answer.prompt), options))


def joined(
    bench: Workbench, done: Sequence[Replayed], *, questions: str, temperature: float
) -> Replay:
    """One head over the answers to a set of questions."""
    return Replay(
        environment=bench.environment,
        questions=questions,
        temperature=temperature,
        num_tokens=sum(len(each.answer.tokens) for each in done),
        plans={plan: [each.plans[plan] for each in done] for plan in done[0].plans},
        alphas=[each.alphas for each in done],
    )

"""Prove on a loaded target and head that drafting changes nothing.

    greedy     both lanes write the same tokens, or part where two logits are as good as equal
    sampled    the tokens of many short steps, drafted and judged anew each time from the same
               context, follow the target's own law there

A proof by counting has an error and a reach, and knows both. Knows workbenches and lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagle_core.compare import Divergence, as_lane, find_divergence
from eagle_core.errors import PromptError
from eagle_core.options import RunOptions
from eagle_core.sampled_steps import DEPTH, SampledSteps

if TYPE_CHECKING:
    from eagle_core.chi_square import Fit
    from eagle_core.progress import Progress
    from eagle_core.workbench import Workbench

NUM_CONTEXTS = 2
ERROR = 1e-3  # chance that a proof of what is exact fails
POWER = 0.95


@dataclass(frozen=True)
class GreedyProof:
    """Both lanes over several prompts at temperature 0; a divergence per text that differs."""

    num_prompts: int
    num_tokens: int
    divergences: tuple[Divergence, ...]

    @property
    def holds(self) -> bool:
        return all(divergence.is_numerics for divergence in self.divergences)


@dataclass(frozen=True)
class SampledProof:
    """One fit per law that sampled tokens were compared with."""

    fits: tuple[Fit, ...]

    @property
    def error(self) -> float:
        """Of each fit, so that all together keep `ERROR`."""
        return ERROR / len(self.fits)

    @property
    def holds(self) -> bool:
        return all(fit.p_value >= self.error for fit in self.fits)

    @property
    def num_samples(self) -> int:
        return sum(fit.num_samples for fit in self.fits)

    @property
    def smallest_deviation(self) -> float:
        """Total variation that the first token of a step could not have had unnoticed."""
        return max(f.smallest_deviation(error=self.error, power=POWER) for f in self.fits[::2])


@dataclass(frozen=True)
class Proof:
    greedy: GreedyProof
    sampled: SampledProof

    @property
    def holds(self) -> bool:
        return self.greedy.holds and self.sampled.holds


def prove(
    bench: Workbench,
    prompts: Sequence[str],
    options: RunOptions,
    *,
    num_samples: int,
    progress: Progress,
) -> Proof:
    """options: of the sampled steps; the greedy texts take their length and tree from it.

    num_samples: short steps per context. Raises `PromptError` for a prompt that cannot be used.
    """
    encoded = [_encoded(bench, prompt, options) for prompt in prompts]
    lanes = _GreedyLanes(bench, RunOptions(options.max_new_tokens, tree=options.tree))
    divergences, contexts = [], []
    for done, tokens in enumerate(encoded):
        progress("greedy texts, plainly and with EAGLE", done / len(encoded))
        answer, divergence = lanes.compare(tokens)
        divergences.append(divergence)
        contexts.append((tokens, answer))
    greedy = GreedyProof(
        len(encoded), options.max_new_tokens, tuple(d for d in divergences if d is not None)
    )
    fits: list[Fit] = []
    for number, (tokens, answer) in enumerate(contexts[:NUM_CONTEXTS], start=1):
        told = _of_stage(progress, f"sampled steps, context {number} of {NUM_CONTEXTS}")
        fits += SampledSteps(bench, tokens, answer, options).fits(num_samples, told)
    return Proof(greedy, SampledProof(tuple(fits)))


def _encoded(bench: Workbench, prompt: str, options: RunOptions) -> list[int]:
    """Refused where a sampled step would not fit behind the answer: nothing would be drafted."""
    tokens = bench.encode(prompt)
    limits = (bench.target.spec.max_positions, bench.open_drafter().max_positions)
    room = min(limit for limit in limits if limit is not None) - options.max_new_tokens - DEPTH
    if len(tokens) > room:
        raise PromptError(
            f"a prompt of {len(tokens):,} tokens",
            expected=f"at most {max(room, 0):,}, so that an answer of {options.max_new_tokens:,} "
            "and a draft tree fit the context of target and head",
            hint="a shorter one, or a smaller --max-new-tokens",
        )
    return tokens


@dataclass(frozen=True)
class _GreedyLanes:
    bench: Workbench
    options: RunOptions

    def compare(self, prompt: list[int]) -> tuple[tuple[int, ...], Divergence | None]:
        """Plain decoding's answer, and where EAGLE's parts from it."""
        plain = as_lane("plain", self.bench.plain(prompt, self.options))
        eagle = as_lane("eagle", self.bench.eagle(prompt, self.options))
        return plain.tokens, find_divergence(self.bench.target, prompt, plain, eagle)


def _of_stage(progress: Progress, stage: str) -> Callable[[float], None]:
    return lambda share: progress(stage, share)

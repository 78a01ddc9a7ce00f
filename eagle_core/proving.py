"""Prove on a loaded target and head that drafting changes nothing.

    greedy     both lanes write the same tokens, or part where two logits are as good as equal
    sampled    the tokens of many short steps, drafted and judged anew each time from the same
               context, follow the target's own law there

A proof by counting has an error and a reach, and says both. Knows workbenches and steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from eagle_core.chi_square import Fit, fit
from eagle_core.compare import Divergence, as_lane, find_divergence
from eagle_core.decoding import chance_for
from eagle_core.options import RunOptions
from eagle_core.sampling import LawMaker
from eagle_core.sequence import Sequence as Text
from eagle_core.tree import DraftTree
from eagle_core.verify import choose, walk

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.progress import Progress
    from eagle_core.targets.base import Target
    from eagle_core.workbench import Workbench

DEPTH = 2  # of a sampled step's tree: root, child, grandchild, so that two laws are judged
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
    encoded = [bench.encode(prompt) for prompt in prompts]
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
        fits += _SampledSteps(bench, tokens, answer, options).fits(num_samples, told)
    return Proof(greedy, SampledProof(tuple(fits)))


@dataclass(frozen=True)
class _GreedyLanes:
    bench: Workbench
    options: RunOptions

    def compare(self, prompt: list[int]) -> tuple[tuple[int, ...], Divergence | None]:
        """Plain decoding's answer, and where EAGLE's parts from it."""
        plain = as_lane("plain", self.bench.plain(prompt, self.options))
        eagle = as_lane("eagle", self.bench.eagle(prompt, self.options))
        return plain.tokens, find_divergence(self.bench.target, prompt, plain, eagle)


class _SampledSteps:
    """Short steps from one context, each drafted, judged and committed anew.

    The context is the greedy answer up to where the next token is least certain.
    The target is asked once per path: that a tree's logits are those of its paths is for the
    greedy texts to show.
    """

    def __init__(
        self, bench: Workbench, prompt: list[int], answer: Sequence[int], options: RunOptions
    ) -> None:
        self._options = options
        self._rule = options.resolved_rule
        self._text = Text(prompt)
        self._text.commit(answer[: least_certain(bench.target, prompt, answer) + 1])
        self._laws = LawMaker(options).after(self._text)
        planner = bench.planner_for(options)
        self._plan = planner.next_plan(len(prompt)).within(DEPTH)
        self._drafter = bench.open_drafter()
        self._before = torch.tensor(self._text.tokens[:-1], device=bench.target.spec.device)
        self._run = bench.target.open()
        self._read = self._run.prefill(self._before, taps=self._drafter.taps)
        self._known: dict[tuple[int, ...], Tensor] = {}

    def fits(self, num_samples: int, told: Callable[[float], None]) -> list[Fit]:
        """Of a step's first token, and of the token after the most frequent first one."""
        committed = []
        for number in range(num_samples):
            told(number / num_samples)
            committed.append(self._two_tokens(number))
        firsts = Counter(first for first, _ in committed)
        most_frequent = firsts.most_common(1)[0][0]
        seconds = Counter(second for first, second in committed if first == most_frequent)
        return [fit(firsts, self._law(())), fit(seconds, self._law((most_frequent,)))]

    def _two_tokens(self, number: int) -> tuple[int, int]:
        """What a step commits; a step of one token is followed by a plain one."""
        seeded = replace(self._options, seed=(self._options.seed + number) % 2**63)
        chance = chance_for(seeded).ahead(len(self._text))
        self._drafter.begin(self._before, self._read)
        tree = self._drafter.grow_tree(
            self._text.root, plan=self._plan, laws=self._laws, chance=chance
        )

        def law(node: int) -> Tensor:
            return self._law(tree.tokens_on(tree.path_to(node)[1:]))

        first, *more = walk(tree, law, rule=self._rule, chance=chance).committed
        if more:
            return first, more[0]
        return first, choose(self._law((first,)), rule=self._rule, chance=chance.ahead(1))

    def _law(self, path: tuple[int, ...]) -> Tensor:
        """The target's law, (V,), after the context and `path`."""
        if path not in self._known:
            tokens = (self._text.root, *path)
            chain = DraftTree(tokens, (None, *range(len(path))), (0.0,) * len(tokens))
            law = self._laws.of(chain, self._run.score_tree(chain))
            self._known |= {path[:depth]: law(depth) for depth in range(len(tokens))}
        return self._known[path]


def least_certain(target: Target, prompt: Sequence[int], answer: Sequence[int]) -> int:
    """Index of the token of `answer` after which the target's law has the largest entropy."""
    run = target.open()
    run.prefill(torch.tensor(prompt, device=target.spec.device))
    chain = DraftTree(tuple(answer), (None, *range(len(answer) - 1)), (0.0,) * len(answer))
    laws = run.score_tree(chain).logits.float().softmax(-1)
    return int(torch.special.entr(laws).sum(-1).argmax())


def _of_stage(progress: Progress, stage: str) -> Callable[[float], None]:
    return lambda share: progress(stage, share)


def report(proof: Proof, options: RunOptions, *, where: str) -> str:
    """The verdict, with the numbers that it rests on."""
    greedy, sampled = proof.greedy, proof.sampled
    num_equal = greedy.num_prompts - len(greedy.divergences)
    lines = [
        where,
        f"greedy   {num_equal} of {greedy.num_prompts} texts of up to {greedy.num_tokens} tokens "
        "are equal",
        *(f"         {_told(divergence)}" for divergence in greedy.divergences),
        f"sampled  rule {options.resolved_rule}, T = {options.temperature:g}: "
        f"{sampled.num_samples:,} tokens against {len(sampled.fits)} exact laws",
    ]
    lines += [f"         {_fitted(each, sampled.error)}" for each in sampled.fits]
    reach = sampled.smallest_deviation
    lines += [
        f"         a first token whose law is off by a total variation of {reach:.3f} or more",
        f"         would have been noticed {POWER:.0%} of the time; false alarms {ERROR:.1%}",
        _verdict(proof),
    ]
    return "\n".join(lines)


def _fitted(fit: Fit, error: float) -> str:
    if fit.num_cells < 2 and fit.p_value == 1.0:
        return f"n = {fit.num_samples:,}: too few tokens to tell this law from another"
    verdict = "follows its law" if fit.p_value >= error else "DOES NOT FOLLOW ITS LAW"
    return (
        f"χ² {fit.statistic:.1f} over {fit.num_cells} cells, n = {fit.num_samples:,}, "
        f"p = {fit.p_value:.2g}: {verdict}"
    )


def _told(divergence: Divergence) -> str:
    kind = "numerics" if divergence.is_numerics else "A FAULT"
    return (
        f"first difference at token {divergence.position}, where the two best logits are "
        f"{divergence.logit_gap:.2g} apart (tolerance {divergence.tolerance:g}): {kind}"
    )


def _verdict(proof: Proof) -> str:
    if not proof.holds:
        return "FAILED: drafting changes the text"
    if proof.greedy.divergences:
        return "HOLDS UP TO NUMERICS: texts part only where two logits are as good as equal"
    return "HOLDS: no difference between decoding with and without drafts was found"

"""Many short steps from one context, each drafted, judged and committed anew.

    prompt, greedy answer … │ root ─┬─ child ── grandchild     a step commits two tokens or more:
          read once         │       └─ child                   each is counted against its own law

The context is prefilled once and the drafter begins once; every step starts from there. The target
is asked once per path: that a tree's logits are those of its paths is for greedy texts to show.

Knows workbenches, steps and laws. Knows nothing of verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from eagle_core.chi_square import Fit, fit
from eagle_core.decoding import chance_for
from eagle_core.plans import chain
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.sequence import Sequence as Text
from eagle_core.targets.base import TargetRead
from eagle_core.tree import ROOT, DraftTree
from eagle_core.verify import Acceptance, choose, decide

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.options import RunOptions
    from eagle_core.sampling import TargetLaw
    from eagle_core.workbench import Workbench

DEPTH = 2  # of a sampled step's tree: root, child, grandchild, so that two laws are judged
NUM_SCORED_AHEAD = 64  # first tokens whose laws one pass brings; rarer ones are asked for singly

Path = tuple[int, ...]


class SampledSteps:
    """Steps from the place in a greedy `answer` where counting them tells most."""

    def __init__(
        self, bench: Workbench, prompt: list[int], answer: Sequence[int], options: RunOptions
    ) -> None:
        self._options = options
        self._rule = options.resolved_rule
        self._text = Text(prompt)
        self._text.commit(answer[: most_telling(bench, prompt, answer, options) + 1])
        self._laws = LawMaker(options).after(self._text)
        self._plan = bench.planner_for(options).next_plan(len(self._text)).within(DEPTH)
        before = torch.tensor(self._text.tokens[:-1], device=bench.target.spec.device)
        self._drafter, self._run = bench.open_drafter(), bench.target.open()
        self._drafter.begin(before, self._run.prefill(before, taps=self._drafter.taps))
        self._known: dict[Path, Tensor] = {}
        self._most_probable = int(self._law(()).argmax())
        self._score_ahead()

    def fits(self, num_samples: int, told: Callable[[float], None]) -> list[Fit]:
        """Of a step's first token, and of the token that follows the most probable first one."""
        firsts, seconds = Counter[int](), Counter[int]()
        for number in range(num_samples):
            told(number / num_samples)
            first, *more = self._committed(number)
            firsts[first] += 1
            if first == self._most_probable:
                seconds[more[0]] += 1
        return [fit(firsts, self._law(())), fit(seconds, self._law((self._most_probable,)))]

    def _committed(self, number: int) -> tuple[int, ...]:
        """What a step commits; a plain one follows where it is the most probable token alone."""
        seeded = replace(self._options, seed=(self._options.seed + number) % 2**63)
        chance = chance_for(seeded).ahead(len(self._text))
        tree = self._drafter.grow_tree(
            self._text.root, plan=self._plan, laws=self._laws, chance=chance
        )

        def law(node: int) -> Tensor:
            if tree.depths[node] == DEPTH:  # decides a third token, at which nobody looks
                return self._law(())
            return self._law(tree.tokens_on(tree.path_to(node)[1:]))

        committed = decide(tree, law, rule=self._rule, chance=chance).committed
        if committed != (self._most_probable,):
            return committed
        return *committed, choose(self._law(committed), rule=self._rule, chance=chance.ahead(1))

    def _law(self, path: Path) -> Tensor:
        """The target's law, (V,), after the context and `path`."""
        if path not in self._known:
            law = self._scored((self._text.root, *path), (None, *range(len(path))))
            self._known[path] = law(len(path))
        return self._known[path]

    def _score_ahead(self) -> None:
        """Most steps begin with one of a few tokens: one pass for the laws after these."""
        probs, tokens = self._law(()).topk(min(NUM_SCORED_AHEAD, len(self._law(()))))
        firsts = tokens[probs > 0].tolist()
        law = self._scored((self._text.root, *firsts), (None, *(ROOT,) * len(firsts)))
        self._known |= {(first,): law(node) for node, first in enumerate(firsts, start=1)}

    def _scored(self, tokens: tuple[int, ...], parents: tuple[int | None, ...]) -> TargetLaw:
        tree = DraftTree(tokens, parents, (0.0,) * len(tokens))
        return self._laws.of(tree, self._run.score_tree(tree))


def most_telling(
    bench: Workbench, prompt: list[int], answer: Sequence[int], options: RunOptions
) -> int:
    """Index of the token of the greedy `answer` after which two tokens are best counted.

    Where target and draft leave most open, there and one token later: then drafts are kept as
    often as refused, half of the steps go on to the second law, and few tokens share the counts.
    """
    off = _off_even_odds(bench, prompt, answer, options)
    both = [this + following for this, following in pairwise(off)]
    return both.index(min(both)) if both else ROOT


def _off_even_odds(
    bench: Workbench, prompt: list[int], answer: Sequence[int], options: RunOptions
) -> list[float]:
    """Per token of `answer` how far the most probable next token, and a draft's being kept, are
    from one chance in two."""
    before, text = torch.tensor(prompt, device=bench.target.spec.device), Text(prompt)
    drafter, run = bench.open_drafter(), bench.target.open()
    drafter.begin(before, run.prefill(before, taps=drafter.taps))
    tree = DraftTree(tuple(answer), (None, *range(len(answer) - 1)), (0.0,) * len(answer))
    read = run.score_tree(tree, taps=drafter.taps)
    one_draft, off = chain(1, "without_replacement"), []
    for row, token in enumerate(answer):
        text.commit([token])
        laws = LawMaker(options).after(text)
        law = laws.law(read.logits[row])
        drawn = drafter.grow_tree(token, plan=one_draft, laws=laws, chance=SeededChance(0))
        kept = float(torch.minimum(law, drawn.laws[ROOT]).sum())
        off.append(abs(float(law.max()) - 0.5) + abs(kept - 0.5))
        alone = Acceptance(DraftTree.root_only(token), (ROOT,), None, (None,))
        drafter.observe(alone, TargetRead(read.logits[row][None], read.features[row][None]))
    return off

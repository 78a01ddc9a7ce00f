"""EAGLE-2's dynamic tree against the plain words of its paper, and how it is kept small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES
from torch import Tensor
from toys import TableTarget, eagle_drafter, open_decoding

from eagle_core.drafters.growth import Growth
from eagle_core.dynamic import DynamicPlan
from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.trace import Step
from eagle_core.tree import DraftTree

ROOT = 0


class Head:
    """Logits by the last two tokens, and how many rows were asked for."""

    def __init__(self, vocab_size: int, seed: int, *, coarse: bool = False) -> None:
        logits = torch.randn(
            vocab_size, vocab_size, vocab_size, generator=torch.Generator().manual_seed(seed)
        ).double()
        self.logits = logits.round() if coarse else logits  # coarse ones tie often
        self.vocab_size = vocab_size

    def after(self, text: Sequence[int]) -> Tensor:
        return self.logits[text[-2] if len(text) > 1 else 0, text[-1]]

    def prob(self, text: Sequence[int]) -> float:
        return float(self.after(text[:-1]).softmax(-1)[text[-1]])


def grown(head: Head, plan: DynamicPlan) -> DraftTree:
    growth = Growth(
        ROOT,
        plan=plan,
        laws=LawMaker(RunOptions()),
        chance=SeededChance(0),
        vocab_size=head.vocab_size,
    )
    while growth.frontier:
        texts = [[*map(growth.token, growth.path(node))] for node in growth.frontier]
        growth.add_level(torch.stack([head.after(text) for text in texts]))
    return growth.finish()


def texts_of(tree: DraftTree) -> list[tuple[int, ...]]:
    return [tree.tokens_on(tree.path_to(node)) for node in range(1, len(tree))]


def reference(head: Head, plan: DynamicPlan) -> set[tuple[int, ...]]:
    """Expand the best of each level, then take the best of all: as the paper says it, naively."""
    worth = {(ROOT,): 1.0}
    frontier = [(ROOT,)]
    for _ in range(plan.depth):
        level = []
        for text in frontier:
            probs = head.after(text).softmax(-1)
            for token in probs.topk(min(plan.top_k, head.vocab_size)).indices.tolist():
                worth[(*text, token)] = worth[text] * float(probs[token])
                level.append((*text, token))
        frontier = sorted(level, key=lambda text: -worth[text])[: plan.top_k]
    drafts = [text for text in worth if text != (ROOT,)]
    return set(sorted(drafts, key=lambda text: -worth[text])[: plan.num_drafts])


plans = st.builds(DynamicPlan, st.integers(1, 40), st.integers(1, 5), st.integers(1, 6))


@EXAMPLES
@given(plans, st.integers(0, 50))
def test_the_tree_is_the_one_that_the_paper_describes(plan: DynamicPlan, seed: int) -> None:
    head = Head(7, seed)
    assert set(texts_of(grown(head, plan))) == reference(head, plan)


def test_with_room_for_all_it_is_the_best_of_all_texts() -> None:
    """Brute force: no text of up to three tokens that is left out is worth more than one kept."""
    head, plan = Head(4, 3), DynamicPlan(12, depth=3, top_k=16)
    worth = {}
    for length in (1, 2, 3):
        for text in product(range(4), repeat=length):
            probs = [head.prob((ROOT, *text[: end + 1])) for end in range(length)]
            worth[(ROOT, *text)] = float(torch.tensor(probs, dtype=torch.float64).prod())
    best = sorted(worth, key=lambda text: -worth[text])[:12]
    assert set(texts_of(grown(head, plan))) == set(best)


@EXAMPLES
@given(plans, st.integers(0, 50))
def test_of_equals_the_shallower_is_taken_so_that_every_node_has_its_parent(
    plan: DynamicPlan, seed: int
) -> None:
    """Where a law holds one token for certain its node ties with its parent."""
    head = Head(5, seed, coarse=True)
    head.logits[:, ::2, 1] = 80.0
    tree = grown(head, plan)
    assert tree.num_drafts <= plan.num_drafts
    assert max(tree.depths) <= plan.depth
    assert list(tree.depths) == sorted(tree.depths)


def test_a_head_that_is_certain_drafts_a_chain_and_ties_go_to_the_shallower() -> None:
    head = Head(5, 0)
    head.logits[:] = 0.0
    head.logits[..., 2] = 800.0  # all others have probability zero, and are left out
    assert grown(head, DynamicPlan(3, depth=6)).tokens == (ROOT, 2, 2, 2)


def test_what_could_not_be_kept_is_not_drafted_further() -> None:
    """Below a node nothing is worth more than it: the least of those kept is not looked below."""
    head = Head(6, 1)
    head.logits[:] = 0.0  # nowhere is a token worth more than a sixth
    head.logits[0, 0] = torch.tensor([9.0, 8.9, 8.8, 0.0, 0.0, 0.0])
    assert grown(head, DynamicPlan(3, depth=5, top_k=3)).draft_rows == (1, 2)
    assert grown(head, DynamicPlan(4, depth=5, top_k=3)).draft_rows == (1, 3)


@dataclass(frozen=True)
class Doubting(DynamicPlan):
    """Learnt, as it may happen, that a confident head is wrong and a doubtful one right."""

    def chance_kept(self, depth: int, prob: float) -> float:
        return 0.09 if prob > 0.5 else 0.85


def test_a_choice_is_kept_only_with_the_better_ones_before_it() -> None:
    head = Head(4, 0)
    head.logits[:] = torch.tensor([0.60, 0.35, 0.04, 0.01]).log()
    for num_drafts in range(1, 9):
        tree = grown(head, Doubting(num_drafts, depth=2, top_k=3))
        for node in tree.inner_nodes:
            children = tree.children[node]
            assert [tree.tokens[child] for child in children] == [*range(len(children))]


def test_the_rows_that_the_head_read_are_noted() -> None:
    tree = grown(Head(6, 1), DynamicPlan(30, depth=3, top_k=4))
    assert tree.draft_rows == (1, 4, 4)


def test_a_plan_within_less_depth_is_the_same_but_for_its_depth() -> None:
    plan = DynamicPlan(9, depth=4, top_k=3)
    assert [plan.within(depth).depth for depth in (9, 4, 2, 0, -1)] == [4, 4, 2, 0, 0]
    assert plan.within(2) == DynamicPlan(9, depth=2, top_k=3)
    assert texts_of(grown(Head(5, 1), plan.within(0))) == []


@pytest.mark.parametrize(("rule", "temperature"), [("one_hot", 0.9), ("seeded", 0.9)])
def test_a_dynamic_tree_serves_every_rule_that_judges_one_hot_siblings(
    rule: str, temperature: float
) -> None:
    target = TableTarget(vocab_size=30, seed=1)
    options = RunOptions(max_new_tokens=20, temperature=temperature, rule=rule, tree="dynamic:9")
    plan = DynamicPlan(9)
    events = list(
        Engine(open_decoding(target, options), eagle_drafter(target), plan=plan).steps((1, 2, 0))
    )
    assert {step.num_drafts for step in events if isinstance(step, Step)} >= {9}

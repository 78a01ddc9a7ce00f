"""Whatever is drafted, the text's law is the target's: proved by taking every branch.

One step over a whole tree is proved for every rule and every processing of the logits; that steps
follow each other rightly is proved by running the loop to its end on a few of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from toys import (
    AlwaysZero,
    KnowingDrafter,
    Law,
    TableTarget,
    eagle3_drafter,
    eagle_drafter,
    enumerate_outcomes,
    hopeless_drafter,
    open_decoding,
    perfect_drafter,
    total_variation,
)

from eagle_core.drafters.base import Drafter
from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.plans import chain, static_tree
from eagle_core.sampling import Chance, LawMaker
from eagle_core.trace import Event, Prefill, Step
from eagle_core.tree import DraftTree, TreePlan
from eagle_core.verify import Rule, walk

MakeDrafter = Callable[[TableTarget], Drafter]

PROMPT = (1, 2, 0)
PROCESSORS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.4},
    {"temperature": 1.7},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 0.8, "top_k": 2},
    {"temperature": 1.2, "top_k": 3, "top_p": 0.9},
]
SAMPLED_RULES: list[Rule] = ["one_hot", "without_replacement"]

#     root ─┬─ o ─┬─ o
#           ├─ o  └─ o          three siblings, then two, so that a refusal changes a law twice
#           └─ o
BUSHY = (None, 0, 0, 0, 1, 1)
#     root ─┬─ o
#           └─ o ── o ── o      three levels below a second child
DEEP = (None, 0, 0, 2, 3)
#     root ─┬─ o ── o           two levels, small enough for whole texts of several steps
#           └─ o
SMALL = (None, 0, 0, 1)


def text_of(events: Iterable[Event]) -> tuple[int, ...]:
    return tuple(token for event in events for token in event.committed)


def law_of_one_step(
    target: TableTarget, options: RunOptions, plan: TreePlan, make_drafter: MakeDrafter
) -> Law:
    """What a step commits below the last token of the prompt, over every draw and every coin.

    A step that commits less than the tree is deep is followed by the target's own law, as the next
    steps would; so all texts are one token longer than the tree is deep.
    """
    rule, laws = options.resolved_rule, LawMaker(options)
    run, drafter = target.open(), make_drafter(target)
    before = torch.tensor(PROMPT[:-1])
    prompt_read = run.prefill(before, taps=drafter.taps)

    def grow(chance: Chance) -> DraftTree:
        drafter.begin(before, prompt_read)
        return drafter.grow_tree(PROMPT[-1], plan=plan, laws=laws, chance=chance)

    committed: Law = defaultdict(float)
    for tree, prob in enumerate_outcomes(grow).items():
        law = laws.of(run.score_tree(tree))

        def play(chance: Chance, tree: DraftTree = tree, law: Any = law) -> tuple[int, ...]:
            return walk(tree, law, rule=rule, chance=chance).committed  # type: ignore[arg-type]

        for text, share in enumerate_outcomes(play).items():
            committed[text] += prob * share
    return continued(target, committed, plan.depth + 1, laws)


def continued(target: TableTarget, law: Law, length: int, laws: LawMaker) -> Law:
    """The texts of `law`, the shorter ones continued by the target to `length` tokens."""
    whole: Law = defaultdict(float)
    for text, prob in law.items():
        rest = target.law_of_texts((*PROMPT, *text), length - len(text), laws)
        for more, share in rest.items():
            whole[(*text, *more)] += prob * share
    return whole


def law_of_whole_texts(
    target: TableTarget, options: RunOptions, plan: TreePlan, prompt: tuple[int, ...] = PROMPT
) -> Law:
    def play(chance: Chance) -> tuple[int, ...]:
        decoding = open_decoding(target, options, chance)
        return text_of(Engine(decoding, eagle_drafter(target), plan=plan).steps(prompt))

    return enumerate_outcomes(play)


def assert_one_step_keeps_the_law(
    target: TableTarget, options: RunOptions, plan: TreePlan, make_drafter: MakeDrafter
) -> None:
    reached = law_of_one_step(target, options, plan, make_drafter)
    expected = target.law_of_texts(PROMPT, plan.depth + 1, LawMaker(options))
    assert total_variation(reached, expected) < 1e-9


@pytest.mark.parametrize("shape", [BUSHY, DEEP], ids=["bushy", "deep"])
@pytest.mark.parametrize("processors", PROCESSORS, ids=str)
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_step_over_a_whole_tree_leaves_the_targets_law(
    rule: Rule, processors: dict[str, Any], shape: tuple[int | None, ...]
) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(rule=rule, **processors)
    assert_one_step_keeps_the_law(target, options, TreePlan(shape, rule), eagle_drafter)


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_draft_vocabulary_smaller_than_the_targets_changes_no_law(rule: Rule) -> None:
    target = TableTarget(vocab_size=4, seed=2)
    options = RunOptions(temperature=1.0, rule=rule)
    known = torch.tensor([3, 0, 2])
    assert_one_step_keeps_the_law(
        target, options, TreePlan(SMALL, rule), lambda t: eagle_drafter(t, vocabulary=known)
    )


@pytest.mark.parametrize("make_drafter", [eagle3_drafter, perfect_drafter, hopeless_drafter])
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_other_drafters_change_no_law_either(rule: Rule, make_drafter: MakeDrafter) -> None:
    target = TableTarget(vocab_size=3, seed=8)
    options = RunOptions(temperature=1.0, rule=rule)
    assert_one_step_keeps_the_law(target, options, TreePlan(BUSHY, rule), make_drafter)


@pytest.mark.parametrize("end_tokens", [frozenset(), frozenset({1})], ids=["cap", "end"])
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_whole_texts_of_several_steps_have_the_targets_law(
    rule: Rule, end_tokens: frozenset[int]
) -> None:
    """The first token is the prefill's, then come trees of two levels, one, and none."""
    target, prompt = TableTarget(vocab_size=2, seed=4, end_tokens=end_tokens), (1, 1, 0)
    options = RunOptions(max_new_tokens=4, temperature=1.0, rule=rule)

    reached = law_of_whole_texts(target, options, TreePlan(SMALL, rule), prompt)

    expected = target.law_of_texts(prompt, 4, LawMaker(options))
    assert total_variation(reached, expected) < 1e-9


@pytest.mark.parametrize("processors", [PROCESSORS[0], PROCESSORS[4]], ids=str)
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_whole_texts_over_three_tokens_have_the_targets_law(
    rule: Rule, processors: dict[str, Any]
) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(max_new_tokens=3, rule=rule, **processors)

    reached = law_of_whole_texts(target, options, TreePlan((None, 0, 0), rule))

    assert total_variation(reached, target.law_of_texts(PROMPT, 3, LawMaker(options))) < 1e-9


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_draw_of_zero_never_keeps_a_token_the_target_rules_out(rule: str) -> None:
    target = TableTarget(vocab_size=8, seed=3)
    options = RunOptions(max_new_tokens=30, temperature=1.0, top_k=2, rule=rule)
    drafter = hopeless_drafter(target)
    engine = Engine(
        open_decoding(target, options, AlwaysZero()),
        drafter,
        plan=chain(2, rule),  # type: ignore[arg-type]
    )

    steps = [event for event in engine.steps(PROMPT) if isinstance(event, Step)]

    ruled_out = [n for s in steps for n in s.nodes[1:] if n.target_prob == 0.0]
    assert ruled_out, "a hopeless drafter proposes tokens outside the target's top 2"
    assert not any(node.verdict == "accepted" for node in ruled_out)


def unsure_drafter(target: TableTarget) -> KnowingDrafter:
    """Right as often as not, so that paths of every length are kept."""
    noise = torch.randn(target.logits.shape, generator=torch.Generator().manual_seed(9))
    logits = target.logits + 1.5 * noise.to(target.logits.dtype)
    return KnowingDrafter(target, lambda text: logits[text[-2], text[-1]])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "make_drafter",
    [eagle_drafter, eagle3_drafter, perfect_drafter, unsure_drafter, hopeless_drafter],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize(
    "plan",
    [chain(1), chain(5), static_tree(8), static_tree(25)],
    ids=["chain:1", "chain:5", "tree:8", "tree:25"],
)
def test_greedy_text_equals_plain_text(
    plan: TreePlan, make_drafter: MakeDrafter, seed: int
) -> None:
    target = TableTarget(vocab_size=30, seed=seed, end_tokens=frozenset({7}))
    options = RunOptions(max_new_tokens=30)
    drafter = make_drafter(target)

    plain = list(Plain(open_decoding(target, options)).steps(PROMPT))
    eagle = list(Engine(open_decoding(target, options), drafter, plan=plan).steps(PROMPT))

    assert text_of(eagle) == text_of(plain)
    assert eagle[-1].stop == plain[-1].stop


def test_a_perfect_chain_is_kept_whole_and_a_hopeless_one_never() -> None:
    target = TableTarget(vocab_size=30, seed=1)
    options = RunOptions(max_new_tokens=25)

    def accepted(drafter: object) -> list[int]:
        engine = Engine(open_decoding(target, options), drafter, plan=chain(5))  # type: ignore[arg-type]
        return [e.num_accepted for e in engine.steps(PROMPT) if isinstance(e, Step)]

    assert accepted(perfect_drafter(target)) == [5, 5, 5, 5]
    assert accepted(hopeless_drafter(target)) == [0] * 24


@pytest.mark.parametrize("max_new_tokens", range(1, 12))
def test_never_more_than_max_new_tokens_are_written(max_new_tokens: int) -> None:
    target = TableTarget(vocab_size=30, seed=1)
    options = RunOptions(max_new_tokens=max_new_tokens)
    decoding = open_decoding(target, options)

    events = list(Engine(decoding, perfect_drafter(target), plan=chain(5)).steps(PROMPT))

    assert isinstance(events[0], Prefill)
    assert len(text_of(events)) == max_new_tokens
    assert decoding.run.num_cached == len(PROMPT) + max_new_tokens - 1


def test_the_context_limit_ends_the_answer_and_is_never_passed() -> None:
    target = TableTarget(vocab_size=30, seed=1, max_positions=17)
    options = RunOptions(max_new_tokens=100)
    decoding = open_decoding(target, options)

    events = list(Engine(decoding, perfect_drafter(target), plan=chain(5)).steps(PROMPT))

    assert len(PROMPT) + len(text_of(events)) == 17
    assert events[-1].stop == "context"


def test_past_the_heads_limit_steps_are_plain_and_say_so_once() -> None:
    target = TableTarget(vocab_size=30, seed=1)
    drafter = perfect_drafter(target)
    drafter.max_positions = 20
    options = RunOptions(max_new_tokens=40)

    events = list(Engine(open_decoding(target, options), drafter, plan=chain(5)).steps(PROMPT))

    plain = list(Plain(open_decoding(target, options)).steps(PROMPT))
    steps = [event for event in events if isinstance(event, Step)]
    assert text_of(events) == text_of(plain)
    assert len([step for step in steps if step.notice]) == 1
    assert {step.num_drafts for step in steps[-10:]} == {0}


def test_the_same_seed_gives_the_same_trace() -> None:
    target = TableTarget(vocab_size=30, seed=1)
    options = RunOptions(max_new_tokens=30, temperature=0.9, seed=11)

    def nodes() -> list[object]:
        plan = static_tree(12, "without_replacement")
        engine = Engine(open_decoding(target, options), eagle_drafter(target), plan=plan)
        return [e.nodes for e in engine.steps(PROMPT) if isinstance(e, Step)]

    assert nodes() == nodes()

"""Whatever is drafted, the text's law is the target's: proved by taking every branch.

One step over a whole tree is proved for every rule and every processing of the logits; that steps
follow each other rightly is proved by running the loop to its end on a few of them.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from proofs import (
    BUSHY,
    CHAIN,
    DEEP,
    PROMPT,
    SMALL,
    MakeDrafter,
    a_draw_of_zero_keeps_nothing_the_target_rules_out,
    a_step_keeps_the_law,
    law_of_one_step,
    planned,
    shapes_of_one_step,
    text_of,
)
from toys import (
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

from eagle_core.auto import AutoPlanner
from eagle_core.cost import Curve, Profile
from eagle_core.dynamic import DynamicPlan
from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.planning import Plan, Planner
from eagle_core.plans import chain, static_tree
from eagle_core.rules import FACTS, Rule
from eagle_core.sampling import Chance, LawMaker
from eagle_core.trace import Prefill, Step
from eagle_core.tree import SiblingKind, TreePlan

PROCESSORS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.4},
    {"temperature": 1.7},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 0.8, "top_k": 2},
    {"temperature": 1.2, "top_k": 3, "top_p": 0.9},
    {"temperature": 1.0, "min_p": 0.3},
    {"temperature": 0.9, "repetition_penalty": 1.6},
    {"temperature": 1.0, "presence_penalty": 0.7, "frequency_penalty": 0.4},
    {"temperature": 1.3, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 0.7},
]
SAMPLED_RULES: list[Rule] = ["one_hot", "without_replacement", "iid", "seeded"]


def law_of_whole_texts(
    target: TableTarget, options: RunOptions, plan: TreePlan, prompt: tuple[int, ...] = PROMPT
) -> Law:
    def play(chance: Chance) -> tuple[int, ...]:
        decoding = open_decoding(target, options, chance)
        return text_of(Engine(decoding, eagle_drafter(target), plan=plan).steps(prompt))

    return enumerate_outcomes(play)


@pytest.mark.parametrize("shape", [BUSHY, DEEP], ids=["bushy", "deep"])
@pytest.mark.parametrize("processors", PROCESSORS, ids=str)
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_step_over_a_whole_tree_leaves_the_targets_law(
    rule: Rule, processors: dict[str, Any], shape: tuple[int | None, ...]
) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(rule=rule, **processors)
    a_step_keeps_the_law(target, options, planned(shape, rule), eagle_drafter)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("processors", PROCESSORS, ids=str)
def test_a_block_leaves_the_targets_law(processors: dict[str, Any], length: int) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(rule="block", **processors)
    plan = planned(CHAIN[: length + 1], "block")
    a_step_keeps_the_law(target, options, plan, eagle_drafter)


@pytest.mark.parametrize("make_drafter", [perfect_drafter, hopeless_drafter])
def test_blocks_of_perfect_and_hopeless_drafts_change_no_law(make_drafter: MakeDrafter) -> None:
    target = TableTarget(vocab_size=3, seed=8)
    options = RunOptions(temperature=1.0, rule="block")
    a_step_keeps_the_law(target, options, planned(CHAIN, "block"), make_drafter)


def test_a_block_keeps_no_fewer_tokens_than_its_tokens_one_by_one() -> None:
    """Equally many where the target backs each draft as much as it can; more elsewhere."""
    gains = []
    for seed in range(4):
        target, kept = TableTarget(vocab_size=3, seed=seed), {}
        for rule in ("block", "iid"):
            options = RunOptions(temperature=1.0, rule=rule)
            law = law_of_one_step(target, options, planned(CHAIN, rule), eagle_drafter)
            kept[rule] = sum(prob * (len(text) - 1) for text, prob in law.items())
        gains.append(kept["block"] - kept["iid"])
    assert min(gains) > -1e-12
    assert max(gains) > 0.01


def test_the_lossy_rule_is_lossy_and_its_plain_lane_is_not() -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(max_new_tokens=3, temperature=1.0, rule="lossy_typical")
    expected = target.law_of_texts(PROMPT, 3, LawMaker(options))

    def plain(chance: Chance) -> tuple[int, ...]:
        return text_of(Plain(open_decoding(target, options, chance)).steps(PROMPT))

    eagle = law_of_whole_texts(target, options, planned(SMALL, "lossy_typical"))
    assert total_variation(eagle, expected) > 0.05
    assert total_variation(enumerate_outcomes(plain), expected) < 1e-9


@pytest.mark.parametrize("siblings", ["one_hot", "without_replacement", "iid"])
def test_seeded_matching_judges_trees_of_any_kind(siblings: SiblingKind) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(rule="seeded", temperature=0.8)
    a_step_keeps_the_law(target, options, TreePlan(BUSHY, siblings), eagle_drafter)


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_draft_vocabulary_smaller_than_the_targets_changes_no_law(rule: Rule) -> None:
    target = TableTarget(vocab_size=4, seed=2)
    options = RunOptions(temperature=1.0, rule=rule)
    known = torch.tensor([3, 0, 2])
    a_step_keeps_the_law(
        target, options, planned(SMALL, rule), lambda t: eagle_drafter(t, vocabulary=known)
    )


@pytest.mark.parametrize("make_drafter", [eagle3_drafter, perfect_drafter, hopeless_drafter])
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_other_drafters_change_no_law_either(rule: Rule, make_drafter: MakeDrafter) -> None:
    target = TableTarget(vocab_size=3, seed=8)
    options = RunOptions(temperature=1.0, rule=rule)
    a_step_keeps_the_law(target, options, planned(BUSHY, rule), make_drafter)


@pytest.mark.parametrize("end_tokens", [frozenset(), frozenset({1})], ids=["cap", "end"])
@pytest.mark.parametrize("rule", [*SAMPLED_RULES, "block"])
def test_whole_texts_of_several_steps_have_the_targets_law(
    rule: Rule, end_tokens: frozenset[int]
) -> None:
    """The first token is the prefill's, then come trees of two levels, one, and none."""
    target, prompt = TableTarget(vocab_size=2, seed=4, end_tokens=end_tokens), (1, 1, 0)
    options = RunOptions(max_new_tokens=4, temperature=1.0, rule=rule)
    plan = planned(CHAIN[:3] if rule == "block" else SMALL, rule)

    reached = law_of_whole_texts(target, options, plan, prompt)

    expected = target.law_of_texts(prompt, 4, LawMaker(options))
    assert total_variation(reached, expected) < 1e-9


@pytest.mark.parametrize("processors", [PROCESSORS[at] for at in (0, 4, 7, 8)], ids=str)
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_whole_texts_over_three_tokens_have_the_targets_law(
    rule: Rule, processors: dict[str, Any]
) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(max_new_tokens=3, rule=rule, **processors)

    reached = law_of_whole_texts(target, options, planned((None, 0, 0), rule))

    assert total_variation(reached, target.law_of_texts(PROMPT, 3, LawMaker(options))) < 1e-9


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_draw_of_zero_never_keeps_a_token_the_target_rules_out(rule: Rule) -> None:
    a_draw_of_zero_keeps_nothing_the_target_rules_out(rule)


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
    [chain(1), chain(5), static_tree(8), static_tree(25), DynamicPlan(12)],
    ids=["chain:1", "chain:5", "tree:8", "tree:25", "dynamic:12"],
)
def test_greedy_text_equals_plain_text(plan: Planner, make_drafter: MakeDrafter, seed: int) -> None:
    target = TableTarget(vocab_size=30, seed=seed, end_tokens=frozenset({7}))
    options = RunOptions(max_new_tokens=30)
    drafter = make_drafter(target)

    plain = list(Plain(open_decoding(target, options)).steps(PROMPT))
    eagle = list(Engine(open_decoding(target, options), drafter, plan=plan).steps(PROMPT))

    assert text_of(eagle) == text_of(plain)
    assert eagle[-1].stop == plain[-1].stop


# Plans that change from step to step.


def auto_planner(rule: Rule, *, row_ms: float) -> AutoPlanner:
    """For rows so cheap that every draft is worth one, or so dear that few are."""
    verify = Curve((1, 2), (40.0, 40.0 + row_ms))
    kept = (((10, 5), (10, 3)),)
    facts = FACTS[rule]
    return AutoPlanner(
        Profile((10, 20), (verify, verify), Curve((1,), (row_ms,)), row_ms, 1.0, kept),
        rate=1 / 40,
        siblings=facts.siblings,
        is_chain=facts.is_for_chains,
    )


def auto_plan(rule: Rule, *, row_ms: float, depth: int) -> Plan:
    return auto_planner(rule, row_ms=row_ms).next_plan(3).within(depth)


@pytest.mark.parametrize("row_ms", [0.1, 3.0])
@pytest.mark.parametrize("processors", [PROCESSORS[at] for at in (0, 4, 7)], ids=str)
@pytest.mark.parametrize("rule", [*SAMPLED_RULES, "block"])
def test_a_step_of_the_auto_plan_leaves_the_targets_law(
    rule: Rule, processors: dict[str, Any], row_ms: float
) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(rule=rule, **processors)
    plan = auto_plan(rule, row_ms=row_ms, depth=2)
    a_step_keeps_the_law(target, options, plan, eagle_drafter)


@pytest.mark.parametrize("rule", ["without_replacement", "iid", "seeded"])
def test_the_auto_plan_does_decide_by_what_was_drawn(rule: Rule) -> None:
    """So that the proof above is one of adaptive trees: they differ in shape."""
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(rule=rule, temperature=1.0)
    plan = auto_plan(rule, row_ms=3.0, depth=2)
    assert len(shapes_of_one_step(target, options, plan, eagle_drafter)) > 2


@pytest.mark.parametrize("processors", PROCESSORS, ids=str)
@pytest.mark.parametrize("rule", ["one_hot", "seeded"])
def test_a_dynamic_tree_leaves_the_targets_law(rule: Rule, processors: dict[str, Any]) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(rule=rule, tree="dynamic:4", **processors)
    a_step_keeps_the_law(target, options, DynamicPlan(4, depth=3, top_k=2), eagle_drafter)


@pytest.mark.parametrize("row_ms", [0.1, 3.0])
@pytest.mark.parametrize("rule", [*SAMPLED_RULES, "block"])
def test_whole_texts_under_auto_have_the_targets_law(rule: Rule, row_ms: float) -> None:
    """Its trees depend on what became of the earlier ones."""
    target, prompt = TableTarget(vocab_size=2, seed=4), (1, 1, 0)
    options = RunOptions(max_new_tokens=4, temperature=1.0, rule=rule)

    def play(chance: Chance) -> tuple[int, ...]:
        planner = auto_planner(rule, row_ms=row_ms)
        decoding = open_decoding(target, options, chance)
        return text_of(Engine(decoding, eagle_drafter(target), plan=planner).steps(prompt))

    expected = target.law_of_texts(prompt, 4, LawMaker(options))
    assert total_variation(enumerate_outcomes(play), expected) < 1e-9


def test_a_perfect_chain_is_kept_whole_and_a_hopeless_one_never() -> None:
    target = TableTarget(vocab_size=30, seed=1)
    options = RunOptions(max_new_tokens=25)

    def accepted(drafter: object) -> list[int]:
        engine = Engine(open_decoding(target, options), drafter, plan=chain(5))  # type: ignore[arg-type]
        return [e.num_accepted for e in engine.steps(PROMPT) if isinstance(e, Step)]

    assert accepted(perfect_drafter(target)) == [5, 5, 5, 5]
    assert accepted(hopeless_drafter(target)) == [0] * 24


def test_a_perfect_chain_is_kept_whole_under_penalties_too() -> None:
    """The drafter's logits are penalised by the text and the path as the target's are."""
    target = TableTarget(vocab_size=30, seed=1)
    options = RunOptions(max_new_tokens=25, repetition_penalty=1.8, frequency_penalty=0.6)
    decoding = open_decoding(target, options)
    engine = Engine(decoding, perfect_drafter(target), plan=chain(5))

    events = list(engine.steps(PROMPT))

    assert [e.num_accepted for e in events if isinstance(e, Step)] == [5, 5, 5, 5]
    assert text_of(events) == text_of(Plain(open_decoding(target, options)).steps(PROMPT))


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

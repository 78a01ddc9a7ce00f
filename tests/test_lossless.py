"""Whatever is drafted, the text's law is the target's: proved by taking every branch."""

from __future__ import annotations

import pytest
import torch
from toys import (
    AlwaysZero,
    TableTarget,
    eagle_drafter,
    enumerate_outcomes,
    hopeless_drafter,
    open_decoding,
    perfect_drafter,
    total_variation,
)

from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.plans import chain, static_tree
from eagle_core.sampling import LawMaker
from eagle_core.trace import Prefill, Step
from eagle_core.tree import TreePlan

PROMPT = (1, 2, 0)
PROCESSORS = [
    {"temperature": 1.0},
    {"temperature": 0.4},
    {"temperature": 1.7},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 0.8, "top_k": 2},
    {"temperature": 1.2, "top_k": 3, "top_p": 0.9},
]
SAMPLED_RULES = ["one_hot", "without_replacement"]

#     root ─┬─ o ─┬─ o
#           ├─ o  └─ o          three siblings, then two, so that a refusal changes a law twice
#           └─ o
BUSHY = (None, 0, 0, 0, 1, 1)
#     root ─┬─ o ── o ── o      three levels, and a second child with a child of its own
#           └─ o ── o
DEEP = (None, 0, 0, 1, 2, 3)


def text_of(events: object) -> tuple[int, ...]:
    return tuple(token for event in events for token in event.committed)  # type: ignore[attr-defined]


def law_of_engine(
    target: TableTarget, options: RunOptions, plan: TreePlan, make_drafter: object
) -> dict[tuple[int, ...], float]:
    def play(chance: object) -> tuple[int, ...]:
        engine = Engine(
            open_decoding(target, options, chance),  # type: ignore[arg-type]
            make_drafter(target),  # type: ignore[operator]
            plan=plan,
        )
        return text_of(engine.steps(PROMPT))

    return enumerate_outcomes(play)


@pytest.mark.parametrize("shape", [BUSHY, DEEP, (None, 0)], ids=["bushy", "deep", "chain"])
@pytest.mark.parametrize("processors", PROCESSORS, ids=str)
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_text_law_of_sampled_eagle_equals_the_targets(
    rule: str, processors: dict[str, float], shape: tuple[int | None, ...]
) -> None:
    target = TableTarget(vocab_size=3, seed=5)
    options = RunOptions(max_new_tokens=3, rule=rule, **processors)  # type: ignore[arg-type]
    plan = TreePlan(shape, rule)  # type: ignore[arg-type]

    reached = law_of_engine(target, options, plan, eagle_drafter)

    expected = target.law_of_texts(PROMPT, 3, LawMaker(options))
    assert total_variation(reached, expected) < 1e-9


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_a_draft_vocabulary_smaller_than_the_targets_changes_no_law(rule: str) -> None:
    target = TableTarget(vocab_size=4, seed=2)
    options = RunOptions(max_new_tokens=3, temperature=1.0, rule=rule)
    known = torch.tensor([0, 2, 3])

    reached = law_of_engine(
        target,
        options,
        TreePlan((None, 0, 0, 1), rule),  # type: ignore[arg-type]
        lambda target: eagle_drafter(target, vocabulary=known),
    )

    assert total_variation(reached, target.law_of_texts(PROMPT, 3, LawMaker(options))) < 1e-9


@pytest.mark.parametrize("make_drafter", [perfect_drafter, hopeless_drafter])
@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_perfect_and_hopeless_drafters_change_no_law(rule: str, make_drafter: object) -> None:
    target = TableTarget(vocab_size=3, seed=8)
    options = RunOptions(max_new_tokens=3, temperature=1.0, rule=rule)

    reached = law_of_engine(target, options, TreePlan(BUSHY, rule), make_drafter)  # type: ignore[arg-type]

    assert total_variation(reached, target.law_of_texts(PROMPT, 3, LawMaker(options))) < 1e-9


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_end_tokens_at_any_depth_change_no_law(rule: str) -> None:
    target = TableTarget(vocab_size=3, seed=4, end_tokens=frozenset({1}))
    options = RunOptions(max_new_tokens=3, temperature=1.0, rule=rule)

    reached = law_of_engine(target, options, TreePlan(DEEP, rule), eagle_drafter)  # type: ignore[arg-type]

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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "make_drafter", [eagle_drafter, perfect_drafter, hopeless_drafter], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("plan", [chain(1), chain(5), static_tree(8), static_tree(25)], ids=str)
def test_greedy_text_equals_plain_text(plan: TreePlan, make_drafter: object, seed: int) -> None:
    target = TableTarget(vocab_size=30, seed=seed, end_tokens=frozenset({7}))
    options = RunOptions(max_new_tokens=40)
    drafter = make_drafter(target)  # type: ignore[operator]

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

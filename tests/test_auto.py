"""`auto`: as much of a tree as pays, judged by hand-made prices and chances."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from toys import (
    KnowingDrafter,
    TableTarget,
    eagle_drafter,
    hopeless_drafter,
    open_decoding,
    perfect_drafter,
)

from eagle_core.auto import FIRST_WAIT, AutoPlan, AutoPlanner
from eagle_core.calibration import Calibration
from eagle_core.cost import Curve, Profile
from eagle_core.drafters.base import Drafter
from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.planning import Candidates
from eagle_core.plans import chain, static_tree
from eagle_core.trace import Event, Step
from eagle_core.tree import SiblingKind

PROMPT = (1, 2, 0)
KEPT = (((1000, 600), (1000, 150), (1000, 50)),)


def profile(*, row_ms: float = 0.5, level_ms: float = 2.0, base_ms: float = 40.0) -> Profile:
    verify = Curve((1, 101), (base_ms, base_ms + 100 * row_ms))
    return Profile((100, 200), (verify, verify), Curve((1,), (level_ms,)), level_ms, 1.0, KEPT)


def plan(
    *, siblings: SiblingKind = "one_hot", rate: float = 1 / 41, depth: int = 8, **costs: float
) -> AutoPlan:
    prices = profile(**costs).prices(100)
    return AutoPlan(
        siblings, prices, rate, Calibration(KEPT, is_drawn=siblings != "one_hot"), depth
    )


def candidates(*nodes: tuple[int, float]) -> Candidates:
    """Each a parent and a chance; ranks follow."""
    made = Candidates(0)
    for parent, chance in nodes:
        rank = sum(1 for other in made.parents if other == parent)
        made.add(parent, len(made), rank=rank, log_prob=0.0, chance=chance)
    return made


# One plan.


def test_nodes_are_kept_while_their_chance_is_worth_their_row() -> None:
    """A row takes half a millisecond, in which the run commits 1/82 of a token."""
    made = candidates((0, 0.5), (0, 1 / 70), (0, 1 / 90), (1, 0.5), (1, 1 / 50))
    assert plan().kept(made) == [0, 1, 2, 4]  # 5 is worth 0.5/50


def test_what_is_kept_is_the_best_of_all_ways_to_cut() -> None:
    """Also over a curve with a step: eight rows cost as much as two."""
    steps = Curve((1, 2, 8, 9, 100), (40.0, 44.0, 44.0, 60.0, 200.0))
    generator = random.Random(3)
    for _ in range(50):
        made = candidates(*((0, generator.random() ** 2) for _ in range(12)))
        chosen = plan(rate=0.02)
        chosen = replace(chosen, prices=replace(chosen.prices, verify=steps))
        values = sorted(made.values[1:], reverse=True)

        def gain(count: int, values: list[float] = values) -> float:
            return sum(values[:count]) - 0.02 * (steps(1 + count) - steps(1))

        kept = chosen.kept(made)
        assert gain(len(kept) - 1) == pytest.approx(max(map(gain, range(13))))
        assert sum(made.values[node] for node in kept[1:]) == pytest.approx(
            sum(values[: len(kept) - 1])
        )


def test_drawn_nodes_are_kept_whatever_their_chance() -> None:
    made = candidates((0, 0.5), (0, 1e-6), (1, 1e-9))
    assert list(plan(siblings="without_replacement").kept(made)) == [0, 1, 2, 3]


def test_how_many_are_drawn_is_decided_by_rank_and_parent_alone() -> None:
    made = candidates((0, 0.8), (0, 0.001))
    drawing = plan(siblings="without_replacement", row_ms=1.0)
    counts = [drawing.num_children(made, node) for node in (0, 1, 2)]
    assert counts == [3, 3, 1], "no fourth rank was ever seen; a hopeless node gets but one"
    same = candidates((0, 0.8), (0, 0.001))
    same.log_probs = [0.0, -9.0, -0.1]
    assert [drawing.num_children(same, node) for node in (0, 1, 2)] == counts


def test_the_growth_goes_on_from_nodes_that_carry_their_share_of_a_level() -> None:
    made = candidates((0, 0.9), (0, 0.05), (0, 0.002))
    assert plan().frontier(made, [1, 2, 3]) == [1, 2]
    assert plan(level_ms=30.0).frontier(made, [1, 2, 3]) == []
    assert plan(depth=1).frontier(made, [1, 2, 3]) == []
    assert plan().frontier(made, []) == []


def test_a_level_that_pays_only_with_the_next_ones_is_still_drafted() -> None:
    """Its first level alone takes longer than the 0.75 tokens it brings would."""
    dear_start = replace(plan().prices, first_ms=40.0)
    assert replace(plan(), prices=dear_start).pays
    assert not replace(plan(depth=1), prices=dear_start).pays


def test_within_no_depth_nothing_is_drafted() -> None:
    assert plan().within(0).depth == 0
    assert not plan().within(0).pays
    assert plan().within(99).depth == 8


# Whole runs.


def planner(siblings: SiblingKind = "one_hot", **costs: float) -> AutoPlanner:
    return AutoPlanner(profile(**costs), rate=1 / 40, siblings=siblings)


def steps_with(
    drafter: Drafter, target: TableTarget, auto: AutoPlanner, options: RunOptions | None = None
) -> list[Step]:
    wanted = options or RunOptions(max_new_tokens=200)
    events = Engine(open_decoding(target, wanted), drafter, plan=auto).steps(PROMPT)
    return [event for event in events if isinstance(event, Step)]


@pytest.fixture
def target() -> TableTarget:
    return TableTarget(vocab_size=30, seed=1, max_positions=400)


def test_a_perfect_head_is_given_deep_trees_and_a_hopeless_one_soon_none(
    target: TableTarget,
) -> None:
    deep = steps_with(perfect_drafter(target), target, planner())
    assert max(max(step.depths) for step in deep) >= 5
    assert sum(step.num_drafts > 0 for step in deep) >= len(deep) - 1  # the last has no room
    none = steps_with(hopeless_drafter(target), target, planner())
    assert 1 <= sum(step.num_drafts > 0 for step in none) < 40
    assert sum(step.num_drafts > 0 for step in none[-40:]) <= 1


def test_where_rows_are_dear_steps_are_plain_but_for_a_trial_now_and_then(
    target: TableTarget,
) -> None:
    options = RunOptions(max_new_tokens=350)
    steps = steps_with(perfect_drafter(target), target, planner(row_ms=60.0), options)
    drafted = [index for index, step in enumerate(steps) if step.num_drafts]
    assert {step.num_drafts for step in steps} == {0, 2}
    assert drafted == [32, 32 + 65, 32 + 65 + 129], "each vain trial doubles the wait"


def test_a_drafter_that_slept_through_plain_steps_has_read_them_when_it_wakes(
    target: TableTarget,
) -> None:
    """Its rows are those of a drafter that drafted at every step."""
    options = RunOptions(max_new_tokens=80)
    sleeping, waking = eagle_drafter(target), eagle_drafter(target)
    rare = steps_with(sleeping, target, planner(row_ms=60.0), options)
    steps_with(waking, target, planner(row_ms=0.01), options)
    assert [step.num_drafts for step in rare].count(0) > 40
    sleeping_rows, waking_rows = sleeping._cache.num_rows, waking._cache.num_rows
    shared = min(sleeping_rows, waking_rows)
    assert shared > FIRST_WAIT
    torch.testing.assert_close(
        sleeping._cache.layers[0].keys[:, :shared], waking._cache.layers[0].keys[:, :shared]
    )


@pytest.mark.parametrize("make", [eagle_drafter, perfect_drafter, hopeless_drafter])
@pytest.mark.parametrize("row_ms", [0.01, 1.0, 60.0])
def test_greedy_text_is_that_of_plain_decoding(make: object, row_ms: float) -> None:
    for seed in range(3):
        target = TableTarget(vocab_size=30, seed=seed, end_tokens=frozenset({7}), max_positions=400)
        options = RunOptions(max_new_tokens=120)
        drafter = make(target)  # type: ignore[operator]
        auto = Engine(open_decoding(target, options), drafter, plan=planner(row_ms=row_ms))
        plain = Plain(open_decoding(target, options))
        assert text_of(auto.steps(PROMPT)) == text_of(plain.steps(PROMPT))


def text_of(events: Iterator[Event]) -> list[int]:
    return [token for event in events for token in event.committed]


def unsure_drafter(target: TableTarget) -> KnowingDrafter:
    noise = torch.randn(target.logits.shape, generator=torch.Generator().manual_seed(9))
    logits = target.logits + 1.5 * noise.to(target.logits.dtype)
    return KnowingDrafter(target, lambda text: logits[text[-2], text[-1]])


@pytest.mark.parametrize("rule", ["greedy", "one_hot", "without_replacement", "iid", "seeded"])
def test_the_same_seed_gives_the_same_trees_whatever_the_clock_says(
    rule: str, target: TableTarget
) -> None:
    temperature = 0.0 if rule == "greedy" else 0.9
    options = RunOptions(max_new_tokens=60, temperature=temperature, rule=rule, seed=5)
    kind: SiblingKind = {"greedy": "one_hot", "seeded": "iid"}.get(rule, rule)  # type: ignore[assignment]
    one, other = (
        steps_with(unsure_drafter(target), target, planner(kind), options) for _ in range(2)
    )
    assert [step.nodes for step in one] == [step.nodes for step in other]
    assert len({step.num_drafts for step in one}) > 2, "the trees do change from step to step"


def test_trees_grow_where_rows_are_cheap_and_shrink_where_they_are_dear(
    target: TableTarget,
) -> None:
    sizes = []
    for row_ms in (0.02, 0.5, 4.0):
        steps = steps_with(unsure_drafter(target), target, planner(row_ms=row_ms))
        sizes.append(sum(step.num_drafts for step in steps) / len(steps))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[-1]


@pytest.mark.parametrize("row_ms", [0.02, 0.5, 3.0, 30.0])
def test_auto_loses_little_to_the_best_fixed_tree_at_the_prices_it_was_told(row_ms: float) -> None:
    """In modelled time, over several targets; the trials cost something where nothing pays."""
    told = profile(row_ms=row_ms)
    prices = told.prices(100)
    fixed = {"plain": chain(1).within(0)} | {
        f"tree {size}": static_tree(size) for size in (1, 3, 8, 16, 25)
    }
    spent = dict.fromkeys([*fixed, "auto"], 0.0)
    for seed in range(4):
        target = TableTarget(vocab_size=30, seed=seed, max_positions=400)
        options = RunOptions(max_new_tokens=150)
        for name in spent:
            plan = fixed.get(name) or AutoPlanner(told, rate=1 / 40, siblings="one_hot")
            drafter = unsure_drafter(target)
            for event in Engine(open_decoding(target, options), drafter, plan=plan).steps(PROMPT):
                if isinstance(event, Step):
                    widths = [0] * (max(event.depths) + 1)
                    for node, children in enumerate(event.children):
                        widths[event.depths[node]] += bool(children)
                    draft_rows = [width for width in widths if width]
                    spent[name] += prices.step_ms(len(event.nodes), draft_rows)
    best = min(spent[name] for name in fixed)
    assert spent["auto"] < 1.03 * best, spent

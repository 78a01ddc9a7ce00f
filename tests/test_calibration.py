"""Chances of drafts: first guesses, and what a run's own outcomes make of them."""

from __future__ import annotations

import math

import pytest

from eagle_core.calibration import MEMORY, WEIGHT, Calibration, Ratio, rank_rates
from eagle_core.tree import DraftTree
from eagle_core.verify import Acceptance

KEPT = (((100, 50), (100, 20), (100, 5)), ((40, 30), (10, 1)))


def step(
    parents: tuple[int | None, ...],
    path: tuple[int, ...],
    *,
    probs: tuple[float, ...],
    bonus: int | None = 9,
) -> Acceptance:
    logs = (0.0, *map(math.log, probs))
    tree = DraftTree(tuple(range(len(parents))), parents, logs)
    return Acceptance(tree, path, bonus, (None,) * len(parents))


def calibration(*, is_drawn: bool = False) -> Calibration:
    return Calibration(KEPT, is_drawn=is_drawn)


def test_rates_where_little_was_seen_lean_on_those_of_all_depths() -> None:
    first, second = rank_rates(KEPT)
    pooled = 80 / 150
    assert first[0] == pytest.approx((50 + 10 * pooled) / 110, rel=0.02)
    assert second[0] == pytest.approx((30 + 10 * pooled) / 50, rel=0.02)
    assert len(second) == 3, "a rank never seen at a depth has the rate of the others"
    assert 0 < second[2] < 0.06


def test_at_first_the_head_is_taken_at_its_word_for_its_best_tokens() -> None:
    for prob in (0.01, 0.3, 1.0):
        assert [calibration().chance_kept(depth, prob) for depth in (1, 2, 9)] == pytest.approx(
            [prob] * 3
        )


def test_a_drawn_token_is_worth_less_than_the_head_says_and_more_than_nothing() -> None:
    drawn = calibration(is_drawn=True)
    assert 0.0 < drawn.chance_kept(1, 0.0) < 0.1
    assert drawn.chance_kept(1, 0.9) < 0.9


def test_outcomes_correct_the_guesses_of_their_own_cell_alone() -> None:
    """Twice a child of probability 0.6 was not kept."""
    made = calibration()
    for _ in range(2):
        made.learn(step((None, 0), (0,), probs=(0.6,)))
    happened = WEIGHT * MEMORY**2
    assert made.chance_kept(1, 0.7) == pytest.approx(
        0.7 * happened / (happened + 0.6 * (MEMORY + 1))
    )
    assert made.chance_kept(2, 0.7) == pytest.approx(0.7)
    assert made.chance_kept(1, 0.9) == pytest.approx(0.9)


def test_what_happened_long_ago_is_forgotten() -> None:
    ratio = Ratio()
    for happened in [1.0] * 200 + [0.0] * 200:
        ratio.add(0.5, happened)
    assert ratio.corrected(0.5) < 0.01


def test_a_chance_never_exceeds_one() -> None:
    made = calibration()
    for _ in range(50):
        made.learn(step((None, 0), (0, 1), probs=(0.21,)))
    assert made.chance_kept(1, 0.45) == 1.0


def test_ranks_and_going_on_are_learnt_from_the_nodes_of_the_path() -> None:
    """The second child is kept, whose only child is not; the first child's child stays unheard."""
    before, made = calibration(), calibration()
    for _ in range(20):
        made.learn(step((None, 0, 0, 1, 2), (0, 2), probs=(0.5, 0.3, 0.9, 0.9)))
    assert made.chance_of_rank(1, 0) < before.chance_of_rank(1, 0)
    assert made.chance_of_rank(1, 1) > before.chance_of_rank(1, 1)
    assert made.chance_of_rank(2, 0) < before.chance_of_rank(2, 0)
    assert made.chance_going_on(1) > before.chance_going_on(1)
    assert made.chance_going_on(2) < before.chance_going_on(2)
    assert made.chance_kept(2, 0.9) < 0.9
    assert made.chance_kept(2, 0.6) == pytest.approx(0.6), "nothing of it stood trial"


def test_below_the_last_depth_measured_chances_are_its_own() -> None:
    made = calibration()
    assert made.chance_of_rank(7, 0) == made.chance_of_rank(2, 0)
    assert made.chance_of_rank(1, 3) == 0.0, "no child of that rank was ever seen"


def test_children_that_a_stop_cut_off_teach_nothing() -> None:
    made = calibration()
    made.learn(step((None, 0, 1), (0, 1), probs=(0.6, 0.6), bonus=None))
    assert made.chance_kept(2, 0.6) == pytest.approx(0.6)
    assert made.chance_kept(1, 0.6) > 0.6

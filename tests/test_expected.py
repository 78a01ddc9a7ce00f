"""Expected τ of a tree, from what a run kept by depth and rank."""

from __future__ import annotations

import pytest
from made import chain_step, lane, prefill, step

from eagle_core.expected import RankRates
from eagle_core.shapes import read_shape

# root ─┬─ 1 ── 3      kept: the first child and its child; the second child; nothing.
#       └─ 2
PARENTS = (None, 0, 0, 1)
LANE = lane(
    "eagle",
    prefill(),
    step((5, 6, 7, 8), PARENTS, path=(0, 1, 3)),
    step((5, 6, 7, 8), PARENTS, path=(0, 2)),
    step((5, 6, 7, 8), PARENTS, path=(0,)),
    step((5, 6, 7, 8), PARENTS, path=(0, 1)),
)
RATES = RankRates.of([LANE])


def test_shares_are_kept_over_kept_parents_that_had_such_a_child() -> None:
    assert RATES.share(1, 0) == 2 / 4
    assert RATES.share(1, 1) == 1 / 4
    assert RATES.share(2, 0) == 1 / 2


def test_a_depth_without_such_a_child_takes_the_rank_over_all_depths() -> None:
    assert RATES.share(3, 0) == 3 / 6
    assert RATES.share(2, 1) == 1 / 4
    assert RATES.share(1, 2) is None


def test_expected_tau_is_one_and_the_chances_of_all_nodes() -> None:
    assert RATES.expected_tau(read_shape("ranks:0.1.00")) == pytest.approx(1 + 0.5 + 0.25 + 0.25)
    assert RATES.expected_tau(read_shape("ranks:0.1.2")) == pytest.approx(1.75), "2 is worth 0"
    assert RATES.chance((0, 0, 1)) == pytest.approx(0.5 * 0.5 * 0.25)


def test_for_the_tree_that_was_run_it_is_the_runs_own_tau() -> None:
    """Where depth and rank say all: each rank of a depth here has one place only."""
    committed = sum(each.num_committed for each in LANE.steps)
    assert RATES.expected_tau(read_shape("ranks:0.1.00")) == pytest.approx(committed / 4)


def test_for_a_chain_it_is_the_runs_own_tau() -> None:
    steps = [chain_step(5, 6, 7, 8, kept=kept, bonus=9) for kept in (3, 0, 2, 1, 3)]
    made = lane("eagle", prefill(), *steps)
    assert RankRates.of([made]).expected_tau(read_shape("ranks:0.00.000")) == pytest.approx(
        made.tau
    )


def test_without_a_run_nothing_is_known() -> None:
    assert RankRates.of([]).is_empty
    assert RankRates.of([]).expected_tau(read_shape("ranks:0")) == 1.0

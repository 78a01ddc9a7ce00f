"""Measuring a machine: what is asked of target and head, and what is made of the times."""

from __future__ import annotations

from typing import Any

import pytest
from made import chain_step, step
from toys import TableTarget, eagle_drafter

from eagle_core import measuring
from eagle_core.cost import Profile
from eagle_core.measuring import LEVEL_ROWS, NUM_ROUNDS, ROWS, Measuring, kept_by_rank
from eagle_core.tree import DraftTree


class Clock:
    """Time that passes only with the rows that are read."""

    def __init__(self) -> None:
        self.now_ms = 0.0


class TimedTarget(TableTarget):
    """`ms` by rows and cached tokens; notes the rows of every pass."""

    def __init__(self, clock: Clock, row_ms: float) -> None:
        super().__init__(vocab_size=30, max_positions=400)
        self.clock, self.row_ms = clock, row_ms
        self.passes: list[tuple[int, int]] = []

    def open(self) -> Any:
        run, score = super().open(), super().open().score_tree

        def timed(tree: DraftTree, **more: Any) -> Any:
            self.passes.append((run.num_cached, len(tree)))
            self.clock.now_ms += 30.0 + self.row_ms * len(tree) + 0.01 * run.num_cached
            return score(tree, **more)

        run.score_tree = timed  # type: ignore[method-assign]
        return run


def measured(monkeypatch: pytest.MonkeyPatch, *, row_ms: float = 1.0) -> tuple[Profile, Any, list]:
    clock, told = Clock(), []
    target = TimedTarget(clock, row_ms)

    class Watch:
        def __init__(self, device: object) -> None:
            self._last = clock.now_ms

        def restart(self) -> None:
            self._last = clock.now_ms

        def lap(self) -> float:
            began, self._last = self._last, clock.now_ms
            return clock.now_ms - began

    def open_drafter() -> Any:
        drafter = eagle_drafter(target)
        run_head = drafter._run_head

        def timed(tokens: Any, *more: Any, **most: Any) -> Any:
            clock.now_ms += 2.0 + 0.5 * len(tokens)
            return run_head(tokens, *more, **most)

        drafter._run_head = timed  # type: ignore[method-assign]
        return drafter

    monkeypatch.setattr(measuring, "Stopwatch", Watch)
    profile = Measuring(
        target,
        open_drafter,
        prompts=[(1, 2, 3), (4, 5)],
        answer=lambda prompt: [chain_step(1, 2, 3, kept=len(prompt) - 2, bonus=4)],
        progress=lambda what, share: told.append((what, share)),
    ).profile()
    return profile, target, told


def test_the_curves_are_the_medians_of_what_passes_took(monkeypatch: pytest.MonkeyPatch) -> None:
    profile, target, _ = measured(monkeypatch)
    assert profile.contexts == (100, 200), "a quarter and a half of what can be read"
    for curve, context in zip(profile.verify, profile.contexts, strict=True):
        assert curve.rows == ROWS
        assert curve.ms == pytest.approx([30.0 + rows + 0.01 * context for rows in ROWS])
    assert profile.other_ms == 1.0
    passes = [row for row in target.passes if row[1] == 128]
    assert passes == [(100, 128)] * (1 + NUM_ROUNDS) + [(200, 128)] * (1 + NUM_ROUNDS)


def test_a_level_is_what_a_draft_of_two_takes_more_than_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile, _, _ = measured(monkeypatch)
    assert profile.level.rows == LEVEL_ROWS
    assert profile.level.ms == pytest.approx([2.0 + 0.5 * rows for rows in LEVEL_ROWS])
    assert profile.first_ms == pytest.approx(2.5)


def test_sizes_that_no_tree_is_worth_are_left_after_one_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile, target, _ = measured(monkeypatch, row_ms=20.0)
    assert max(profile.verify[0].rows) == 32
    assert [rows for _, rows in target.passes].count(128) == 2


def test_how_often_drafts_are_kept_comes_from_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    profile, _, _ = measured(monkeypatch)
    assert profile.kept_by_rank == (((2, 1),), ((1, 0),))


def test_the_visitor_is_told_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, told = measured(monkeypatch)
    assert {what for what, _ in told} == {"measuring how long passes take here, once"}
    assert [share for _, share in told] == [0.0, 0.25, 0.5, 0.75]


def test_children_are_counted_by_depth_and_rank_where_the_walk_came() -> None:
    """Of 2 and 3 the second is kept; below it a lone child is refused, below the other untried."""
    steps = [
        step((1, 2, 3, 4, 5), (None, 0, 0, 1, 2), path=(0, 2)),
        step((1, 2), (None, 0), path=(0, 1)),
        step((1,), (None,)),
    ]
    assert kept_by_rank(steps) == (((2, 1), (1, 1)), ((1, 0),))
    assert kept_by_rank([]) == (((0, 0),),)

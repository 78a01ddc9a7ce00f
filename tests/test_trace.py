"""Figures of a trace, recounted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import chain_step, lane, plain_and_eagle, prefill, step, trace

from eagle_core.errors import TraceError
from eagle_core.trace import AcceptanceCount, Lane, StopReason, first_difference

EAGLE = plain_and_eagle().lane("eagle")
PLAIN = plain_and_eagle().lane("plain")


def test_a_step_commits_its_accepted_tokens_and_then_the_bonus() -> None:
    kept = chain_step(5, 6, 7, 1, kept=2, bonus=8)
    assert kept.committed == (6, 7, 8)
    assert (kept.num_drafts, kept.num_accepted, kept.num_committed) == (3, 2, 3)
    assert (kept.depths, kept.children) == ((0, 1, 2, 3), ((1,), (2,), (3,), ()))
    assert chain_step(5, 6, 7, kept=1, bonus=None).committed == (6,)
    assert kept.ms == 65.0


def test_a_prefill_commits_the_first_token() -> None:
    assert (prefill(5, ms=80.0).committed, prefill(5, ms=80.0).ms) == ((5,), 80.0)


def test_acceptance_length_leaves_the_prefill_out_on_both_sides() -> None:
    """EAGLE wrote 5 tokens: one by the prefill, four in two passes."""
    assert (len(EAGLE.tokens), EAGLE.num_target_passes, EAGLE.tau) == (5, 2, 2.0)
    assert PLAIN.tau == 1.0


def test_speed_counts_the_decode_phase_alone() -> None:
    assert (EAGLE.decode_ms, EAGLE.tokens_per_s) == (130.0, 4 / 0.13)
    assert PLAIN.tokens_per_s == pytest.approx(20.0)
    assert plain_and_eagle().speedup == pytest.approx((4 / 0.13) / 20.0)


def test_figures_follow_the_cut_of_a_stop() -> None:
    """The end token is the first of three drafts, and what lay behind it was cut off."""
    cut = lane("eagle", prefill(), chain_step(5, 6, 7, 1, kept=1, bonus=None))
    assert (cut.tokens, cut.tau) == ((5, 6), 1.0)


def test_acceptance_by_depth_counts_the_steps_that_got_there() -> None:
    """Of three chains of three: kept 2, 0 and 3; and a tree of one level, not kept."""
    steps = [
        chain_step(5, 6, 7, 1, kept=2, bonus=8),
        chain_step(8, 6, 7, 1, kept=0, bonus=9),
        chain_step(9, 6, 7, 1, kept=3, bonus=2),
        step((2, 3, 4), (None, 0, 0), path=(0,), bonus=5),
    ]
    assert lane("eagle", prefill(), *steps).accepted_by_depth == (
        AcceptanceCount(at=1, num_reached=4, num_accepted=2),
        AcceptanceCount(at=2, num_reached=2, num_accepted=2),
        AcceptanceCount(at=3, num_reached=2, num_accepted=1),
    )


def test_a_kept_leaf_does_not_count_as_a_try_below_it() -> None:
    # root ─┬─ kept          only the refused branch is deeper
    #       └─ o ── o
    leaf = step((5, 6, 7, 1), (None, 0, 0, 2), path=(0, 1), bonus=8)
    assert lane("eagle", prefill(), leaf).accepted_by_depth == (
        AcceptanceCount(1, 1, 1),
        AcceptanceCount(2, 0, 0),
    )
    assert AcceptanceCount(2, 0, 0).rate == 0.0
    assert AcceptanceCount(1, 4, 3).rate == 0.75


def test_below_the_cut_of_a_stop_nothing_was_tried() -> None:
    cut = chain_step(5, 6, 7, 1, kept=1, bonus=None, stop=StopReason.END_TOKEN)
    assert lane("eagle", prefill(), cut).accepted_by_depth == (
        AcceptanceCount(1, 1, 1),
        AcceptanceCount(2, 0, 0),
        AcceptanceCount(3, 0, 0),
    )


def test_a_lane_knows_its_text_its_prefill_and_its_end() -> None:
    assert EAGLE.text == "<5><6><7><8><9>"
    assert EAGLE.prefill == prefill()
    assert EAGLE.stop is StopReason.MAX_NEW_TOKENS


def test_a_lane_that_never_began_has_no_figures() -> None:
    empty = Lane("eagle", (), ())
    assert (empty.tau, empty.tokens_per_s, empty.text) == (0.0, 0.0, "")
    assert (empty.prefill, empty.stop, empty.accepted_by_depth) == (None, None, ())


def test_an_answer_of_one_token_has_no_decode_phase() -> None:
    only = lane("eagle", prefill(stop=StopReason.END_TOKEN))
    assert (only.tau, only.tokens_per_s, only.num_target_passes) == (0.0, 0.0, 0)


def test_there_is_no_speedup_unless_both_lanes_decoded() -> None:
    assert trace(PLAIN).speedup is None
    assert trace(PLAIN, lane("eagle", prefill())).speedup is None
    assert trace(lane("plain", prefill()), EAGLE).speedup is None
    timeless = replace(EAGLE.steps[0], draft_ms=0.0, verify_ms=0.0, commit_ms=0.0)
    assert trace(PLAIN, lane("eagle", prefill(), timeless)).speedup is None


def test_lanes_are_found_by_their_method() -> None:
    assert plain_and_eagle().lane("eagle").method == "eagle"
    with pytest.raises(TraceError, match="without the lane medusa"):
        plain_and_eagle().lane("medusa")


@pytest.mark.parametrize(
    ("one", "other", "differs_at"),
    [
        ((5, 6, 7), (5, 6, 7), None),
        ((5, 6, 7), (5, 9, 7), 1),
        ((5, 6), (5, 6, 7), 2),
        ((5, 6, 7), (5,), 1),
        ((4, 6), (5, 6), 0),
        ((), (), None),
    ],
)
def test_the_first_difference_is_where_tokens_or_lengths_part(
    one: tuple[int, ...], other: tuple[int, ...], differs_at: int | None
) -> None:
    first, second = (lane("x", *(prefill(token) for token in row)) for row in (one, other))
    assert first_difference(first, second) == differs_at


def test_acceptance_by_rank_counts_the_children_that_were_there_to_try() -> None:
    #  5 ─┬─ 7 ── 8        kept: rank 0, then rank 0; at the leaf there is nothing to try
    #     └─ 9
    first = step((5, 7, 9, 8), (None, 0, 0, 1), path=(0, 1, 3), bonus=1)
    second = step((1, 2, 3), (None, 0, 0), path=(0, 2), bonus=4)  # rank 1
    none_kept = step((4, 5), (None, 0), path=(0,), bonus=6)

    counted = lane("eagle", prefill(), first, second, none_kept).accepted_by_rank

    assert counted == (
        AcceptanceCount(at=0, num_reached=4, num_accepted=2),
        AcceptanceCount(at=1, num_reached=2, num_accepted=1),
    )

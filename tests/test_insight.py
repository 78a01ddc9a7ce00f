"""What a lane tells beyond its totals, on lanes made by hand."""

from __future__ import annotations

import math

import pytest
from made import chain_step, lane, prefill, step

from eagle_core.insight import (
    ConfidenceBin,
    calibration_error,
    confidence_bins,
    entropy_bits,
    places,
    time_shares,
)
from eagle_core.trace import StopReason, TopLaw


def test_first_choices_and_later_ones_are_kept_apart() -> None:
    """Made nodes have draft probability 0.5; 7 is refused, its sibling 9 kept."""
    one = step((5, 7, 9), (None, 0, 0), path=(0, 2), bonus=11)
    two = step((5, 7, 9), (None, 0, 0), path=(0, 1), bonus=11)
    eagle = lane("eagle", prefill(), one, two)
    assert confidence_bins(eagle, of_first_choices=True) == (ConfidenceBin(0.5, 2, 1),)
    assert confidence_bins(eagle, of_first_choices=False)[0].num_accepted == 1


def test_the_calibration_error_is_the_mean_distance_over_all_trials() -> None:
    bins = (ConfidenceBin(0.9, 3, 3), ConfidenceBin(0.5, 1, 0))
    assert calibration_error(bins) == pytest.approx((3 * 0.1 + 0.5) / 4)
    assert calibration_error(()) == 0.0


def test_places_tell_accepted_tokens_from_bonus_tokens() -> None:
    cut = chain_step(8, 9, 1, kept=1, bonus=None, stop=StopReason.END_TOKEN)
    eagle = lane("eagle", prefill(), chain_step(5, 6, 7, kept=1, bonus=8), cut)
    found = places(eagle)
    assert [(place.position, place.step, place.token) for place in found] == [
        (1, 0, 6),
        (2, 0, 8),
        (3, 1, 9),
    ]
    assert [place.is_accepted for place in found] == [True, False, True]
    assert tuple(place.token for place in found) == eagle.tokens[1:]


def test_the_rest_of_a_law_counts_as_one_token() -> None:
    assert entropy_bits(TopLaw((1, 2), (0.5, 0.25))) == pytest.approx(1.5)
    assert entropy_bits(TopLaw((1,), (1.0,))) == 0.0
    assert entropy_bits(TopLaw((1, 2), (0.7, 0.301))) > 0, "rounded a little above one"
    whole = [0.4, 0.3, 0.2, 0.05, 0.05]
    true = -sum(prob * math.log2(prob) for prob in whole)
    assert entropy_bits(TopLaw((1, 2), (0.4, 0.3))) < true


def test_time_shares_add_up_to_the_decode_time() -> None:
    eagle = lane("eagle", prefill(), chain_step(5, 6, kept=1, bonus=8), step((8,), bonus=9))
    shares = time_shares(eagle.steps)
    assert (shares.draft_ms, shares.verify_ms, shares.commit_ms) == (8.0, 120.0, 2.0)
    assert shares.total_ms == eagle.decode_ms

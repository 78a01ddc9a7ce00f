"""Committed text and the rules that end it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES

from eagle_core.sequence import Sequence, Stops
from eagle_core.trace import StopReason
from eagle_core.tree import DraftTree
from eagle_core.verify import Acceptance

FAR = Stops(end_tokens=frozenset({0}), max_new_tokens=100, max_positions=1000)


def kept(*accepted: int, bonus: int | None = 9) -> Acceptance:
    """A chain kept whole below root 5."""
    size = len(accepted) + 1
    tree = DraftTree((5, *accepted), (None, *range(size - 1)), (0.0,) * size)
    return Acceptance(tree, tuple(range(size)), bonus, (None,) * size)


def written(*new: int, prompt: tuple[int, ...] = (1, 2)) -> Sequence:
    sequence = Sequence(prompt)
    sequence.commit(new)
    return sequence


def test_a_sequence_is_the_prompt_and_what_was_committed() -> None:
    sequence = written(7, 8)
    sequence.commit([9])
    assert sequence.tokens == (1, 2, 7, 8, 9)
    assert (len(sequence), sequence.num_prompt_tokens, sequence.num_new) == (5, 2, 3)
    assert sequence.root == 9


def test_a_sequence_does_not_change_the_prompt_it_was_given() -> None:
    prompt = [1, 2]
    Sequence(prompt).commit([3])
    assert prompt == [1, 2]


@pytest.mark.parametrize(
    ("taken", "committed"),
    [
        (kept(3, 0, 4), (3, 0)),
        (kept(0, 3), (0,)),
        (kept(3, 4, bonus=0), (3, 4, 0)),
        (kept(bonus=0), (0,)),
        (kept(0, 0), (0,)),
        (kept(3, 4), (3, 4, 9)),
    ],
)
def test_a_cut_ends_with_the_first_end_token(taken: Acceptance, committed: tuple[int, ...]) -> None:
    assert FAR.cut(taken, written(7)).committed == committed


@pytest.mark.parametrize(
    ("stops", "committed", "reason"),
    [
        (replace(FAR, max_new_tokens=3), (3, 4), StopReason.MAX_NEW_TOKENS),
        (replace(FAR, max_positions=5), (3, 4), StopReason.CONTEXT),
        (replace(FAR, max_new_tokens=3, max_positions=4), (3,), StopReason.CONTEXT),
        (replace(FAR, max_new_tokens=2, max_positions=5), (3,), StopReason.MAX_NEW_TOKENS),
        (FAR, (3, 4, 0), StopReason.END_TOKEN),
        (replace(FAR, max_new_tokens=4), (3, 4, 0), StopReason.END_TOKEN),
    ],
)
def test_the_earliest_stop_wins(
    stops: Stops, committed: tuple[int, ...], reason: StopReason
) -> None:
    sequence = written(7)
    taken = stops.cut(kept(3, 4, 0, 6), sequence)
    assert taken.committed == committed
    sequence.commit(taken.committed)
    assert stops.reason(sequence) is reason


def test_an_end_token_of_the_prompt_ends_nothing() -> None:
    assert FAR.reason(Sequence((1, 0))) is None
    assert FAR.reason(written(7, prompt=(0, 0))) is None
    assert FAR.reason(written(0)) is StopReason.END_TOKEN


def test_room_is_what_length_and_context_both_allow() -> None:
    sequence = written(7)  # one of five new tokens, three of six positions
    assert replace(FAR, max_new_tokens=5, max_positions=20).room(sequence) == 4
    assert replace(FAR, max_new_tokens=50, max_positions=6).room(sequence) == 3


tokens = st.integers(0, 5)


@EXAMPLES
@given(st.lists(tokens, max_size=6), tokens, st.integers(1, 9), st.integers(4, 12))
def test_what_is_committed_is_the_text_scanned_token_by_token(
    accepted: list[int], bonus: int, max_new_tokens: int, max_positions: int
) -> None:
    stops = Stops(frozenset({0, 3}), max_new_tokens, max_positions)
    sequence, by_hand = Sequence((1, 2, 4)), Sequence((1, 2, 4))
    if stops.reason(sequence) is None and stops.room(sequence) > 0:
        sequence.commit(stops.cut(kept(*accepted, bonus=bonus), sequence).committed)
        for token in (*accepted, bonus):
            if stops.reason(by_hand) is None:
                by_hand.commit([token])
    assert sequence.tokens == by_hand.tokens
    assert sequence.num_new <= max_new_tokens
    assert len(sequence) <= max_positions

"""Many texts in one pass: each must come out as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from corpus_toys import NUM_WORDS, tiny_chat

from eagle_core.decoding import Decoding
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.targets.hf import HfTarget
from eagle_core.training.corpus.batching import RIDE_ALONG, Batch

NUM_NEW = 24
CONTEXTS = [
    [3 + (7 * seat + 5 * i) % NUM_WORDS for i in range(length)]
    for seat, length in enumerate((1, 5, RIDE_ALONG, RIDE_ALONG + 1, 60, 17, 300))
]


@pytest.fixture(scope="module")
def target() -> HfTarget:
    """Without end tokens and with strong attention: long texts that differ."""
    return tiny_chat(spread=0.4, has_end=False)


def plainly(target: HfTarget, context: Sequence[int]) -> list[int]:
    options = RunOptions(max_new_tokens=NUM_NEW)
    events = Plain(Decoding.open(target, options)).steps(context)
    return [token for event in events for token in event.committed]


class Seats:
    """A batch whose every seat takes the most probable token, and is read by itself."""

    def __init__(self, target: HfTarget, num_seats: int) -> None:
        self.batch = Batch(target, num_seats=num_seats)
        self.unread: list[list[int]] = [[] for _ in range(num_seats)]
        self.written: list[list[int] | None] = [None] * num_seats

    def begin(self, seat: int, context: Sequence[int]) -> None:
        self.unread[seat], self.written[seat] = self.batch.begin(seat, context), []

    def step(self) -> None:
        fed = [
            None if written is None else unread.pop(0) if unread else written[-1]
            for unread, written in zip(self.unread, self.written, strict=True)
        ]
        chosen = self.batch.step(fed).argmax(-1).tolist()
        for unread, written, token in zip(self.unread, self.written, chosen, strict=True):
            if written is not None and not unread:
                written.append(token)


def agrees(target: HfTarget, context: Sequence[int], written: Sequence[int] | None) -> bool:
    assert written is not None
    return list(written[:NUM_NEW]) == plainly(target, context)


def test_the_texts_to_be_compared_do_differ(target: HfTarget) -> None:
    assert len({tuple(plainly(target, context)) for context in CONTEXTS}) == len(CONTEXTS)


def test_greedy_texts_of_all_lengths_side_by_side_equal_plain_decoding(target: HfTarget) -> None:
    seats = Seats(target, len(CONTEXTS))
    for seat, context in enumerate(CONTEXTS):
        seats.begin(seat, context)
    for _ in range(NUM_NEW + RIDE_ALONG):
        seats.step()
    for context, written in zip(CONTEXTS, seats.written, strict=True):
        assert agrees(target, context, written)


def test_a_text_that_takes_a_seat_over_sees_nothing_of_the_one_before(target: HfTarget) -> None:
    seats = Seats(target, 3)
    seats.begin(0, CONTEXTS[4])
    seats.begin(2, CONTEXTS[6])
    for _ in range(9):
        seats.step()
    seats.begin(0, CONTEXTS[1])  # shorter than what is there
    seats.begin(1, CONTEXTS[4])  # nobody sat there
    for _ in range(NUM_NEW + RIDE_ALONG):
        seats.step()
    assert agrees(target, CONTEXTS[1], seats.written[0])
    assert agrees(target, CONTEXTS[4], seats.written[1])
    assert agrees(target, CONTEXTS[6], seats.written[2])


def test_a_longer_context_reads_only_what_its_seat_does_not_hold(target: HfTarget) -> None:
    seats = Seats(target, 1)
    seats.begin(0, CONTEXTS[6])
    for _ in range(5):
        seats.step()
    assert seats.written[0] is not None
    longer = [*CONTEXTS[6], *seats.written[0][:4], 9, 8]
    seats.begin(0, longer)
    assert seats.unread[0] == [9, 8]
    for _ in range(NUM_NEW + 2):
        seats.step()
    assert agrees(target, longer, seats.written[0])


def test_a_context_known_to_its_end_still_gives_logits(target: HfTarget) -> None:
    batch = Batch(target, num_seats=1)
    once = [batch.step([token]) for token in batch.begin(0, CONTEXTS[1])][-1]
    again = batch.begin(0, CONTEXTS[1])
    assert again == CONTEXTS[1][-1:]
    torch.testing.assert_close(batch.step(again), once)

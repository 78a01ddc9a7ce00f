"""The loop that writes: who sits where, whose token comes next, what is handed in.

    recipes ─▶ seats ─one pass─▶ a token each ─▶ dialogues ─▶ in order of number ─▶ shards

A seat whose dialogue has ended is given to the next recipe at once. Each conversation draws from
its own chance and is handed in after all with lower numbers, so a corpus does not depend on the
number of seats or on where a run was interrupted (but for near-ties: kernels round differently).

Knows dialogues, laws and shards. Knows nothing of templates, models or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from eagle_core.sampling import LawMaker
from eagle_core.training.corpus.dialogue import (
    Conversation,
    Dialogue,
    Recipe,
    Request,
    loop_length,
)
from eagle_core.training.corpus.shards import ShardFolder

SAVE_EVERY = 32  # conversations
MAX_CANDIDATES = 256
"""A sampled token is one of so many most probable ones. More are dear: of 49,152 tokens in 64 rows
the best 64 are found in 11 ms, 256 in 20 and 1,024 in 50 (one thread of a Xeon with AMX)."""


class Decoder(Protocol):
    """Seats of a target; see `batching.Batch`."""

    def begin(self, seat: int, context: Sequence[int]) -> list[int]: ...

    def step(self, tokens: Sequence[int | None]) -> Tensor: ...


@dataclass
class Sitter:
    """A dialogue on its seat, and the turn it is writing."""

    recipe: Recipe
    dialogue: Dialogue
    request: Request
    unread: list[int]  # of the request's context; the coming steps bring them
    written: list[int] = field(default_factory=list)

    def next_token(self) -> int:
        """The token that the target reads next."""
        return self.unread.pop(0) if self.unread else self.written[-1]

    @property
    def is_full(self) -> bool:
        return len(self.written) >= self.request.max_tokens


class Writer:
    """Writes conversations into `folder`, which says where to begin."""

    def __init__(
        self,
        recipes: Iterator[Recipe],
        decoder: Decoder,
        folder: ShardFolder,
        *,
        num_seats: int,
        end_tokens: frozenset[int],
        begin: Callable[[Recipe], Dialogue],
        finished: Callable[[Conversation | None], object] = lambda conversation: None,
    ) -> None:
        first = self._next_number = folder.next_number
        self._waiting: dict[int, Conversation | None] = {c.number: c for c in folder.waiting}
        done = set(self._waiting)
        self._recipes = (r for r in recipes if r.number >= first and r.number not in done)
        self._decoder, self._folder = decoder, folder
        self._seats: list[Sitter | None] = [None] * num_seats
        self._end_tokens, self._begin, self._finished = end_tokens, begin, finished
        self._num_unsaved = 0
        self._is_done: Callable[[], bool] = lambda: False

    def run(self, *, is_done: Callable[[], bool]) -> None:
        """Go on until that is true or the recipes are used up; then save, also after an error."""
        self._is_done = is_done
        try:
            self._keep_in_order()
            self._fill_seats()
            while not is_done() and any(self._seats):
                self._step()
                self._fill_seats()
        finally:
            self._save()

    def _step(self) -> None:
        """One pass, one token for everybody who has read his context."""
        sitters = self._seats
        logits = self._decoder.step([each.next_token() if each else None for each in sitters])
        writing = {i: each for i, each in enumerate(sitters) if each and not each.unread}
        tokens = chosen(logits[list(writing)], list(writing.values()))
        for (seat, sitter), token in zip(writing.items(), tokens, strict=True):
            sitter.written.append(token)
            if token in self._end_tokens or sitter.is_full or loop_length(sitter.written):
                self._go_on(seat, sitter.recipe, sitter.dialogue, sitter.written)

    def _fill_seats(self) -> None:
        for seat in range(len(self._seats)):
            while self._seats[seat] is None and not self._is_done():
                recipe = next(self._recipes, None)
                if recipe is None:
                    return
                self._go_on(seat, recipe, self._begin(recipe), None)

    def _go_on(
        self, seat: int, recipe: Recipe, dialogue: Dialogue, written: Sequence[int] | None
    ) -> None:
        """Send a dialogue what it asked for, None to begin it; seat its next turn or hand it in."""
        try:
            request = next(dialogue) if written is None else dialogue.send(written)
        except StopIteration as ended:
            self._seats[seat] = None
            self._hand_in(recipe.number, ended.value)
            return
        unread = self._decoder.begin(seat, request.context)
        self._seats[seat] = Sitter(recipe, dialogue, request, unread)

    def _hand_in(self, number: int, conversation: Conversation | None) -> None:
        self._finished(conversation)
        self._waiting[number] = conversation
        self._keep_in_order()
        self._num_unsaved += 1
        if self._num_unsaved >= SAVE_EVERY:
            self._save()

    def _keep_in_order(self) -> None:
        """Keep all who waited for the one that came last, up to the end of the corpus."""
        while self._next_number in self._waiting and not self._is_done():
            ready = self._waiting.pop(self._next_number)
            self._next_number += 1
            if ready is not None:
                self._folder.add(ready)

    def _save(self) -> None:
        self._folder.save([each for each in self._waiting.values() if each is not None])
        self._num_unsaved = 0


def chosen(logits: Tensor, sitters: Sequence[Sitter]) -> list[int]:
    """The next token for every row of logits, (B, V), in its sitter's style, by its own chance."""
    logits = logits.float()
    tokens: list[int] = logits.argmax(-1).tolist()
    drawn = [row for row, each in enumerate(sitters) if each.request.style.temperature > 0]
    best = logits[drawn].topk(min(MAX_CANDIDATES, logits.shape[-1]))
    for row, scores, candidates in zip(drawn, best.values.cpu(), best.indices.cpu(), strict=True):
        law = LawMaker(sitters[row].request.style).law(scores)
        tokens[row] = int(candidates[sitters[row].recipe.chance.draw(law)])
    return tokens

"""The committed text of a run, token by token, and where it ends.

    prompt │ first ─ accepted ─ accepted ─ bonus ─ …
           └ of the prefill        the last one is the next step's root

Knows token ids, and is handed what finds stop strings in them. Knows nothing of trees beyond
cutting an acceptance short.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagle_core.trace import StopReason

if TYPE_CHECKING:
    from eagle_core.text import StopStrings
    from eagle_core.verify import Acceptance


class Sequence:
    """Prompt and answer of one run; `commit` is the only thing that changes it."""

    def __init__(self, prompt: Tokens[int]) -> None:
        self._tokens = list(prompt)
        self.num_prompt_tokens = len(prompt)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self._tokens)

    @property
    def answer(self) -> tuple[int, ...]:
        return tuple(self._tokens[self.num_prompt_tokens :])

    @property
    def num_new(self) -> int:
        return len(self._tokens) - self.num_prompt_tokens

    @property
    def root(self) -> int:
        """The newest committed token."""
        return self._tokens[-1]

    def commit(self, tokens: Tokens[int]) -> None:
        self._tokens.extend(tokens)


@dataclass(frozen=True)
class Stops:
    """The rules that end an answer; the earliest one met in committed order wins."""

    end_tokens: frozenset[int]
    max_new_tokens: int
    max_positions: int
    strings: StopStrings | None = None

    def room(self, sequence: Sequence) -> int:
        """Tokens that may still be committed."""
        return min(
            self.max_new_tokens - sequence.num_new,
            self.max_positions - len(sequence),
        )

    def cut(self, taken: Acceptance, sequence: Sequence) -> Acceptance:
        """`taken` up to the first stop, the stopping token included."""
        allowed = min(self.room(sequence), self._num_until_end(taken.committed, sequence.answer))
        return taken.first(allowed)

    def reason(self, sequence: Sequence) -> StopReason | None:
        """Why the answer ends here, None while it goes on."""
        if sequence.num_new and sequence.root in self.end_tokens:
            return StopReason.END_TOKEN
        if sequence.num_new and self._completes_string(sequence.answer):
            return StopReason.STOP_STRING
        if sequence.num_new >= self.max_new_tokens:
            return StopReason.MAX_NEW_TOKENS
        if len(sequence) >= self.max_positions:
            return StopReason.CONTEXT
        return None

    def _num_until_end(self, tokens: Tokens[int], answer: Tokens[int]) -> int:
        """How many of `tokens`, which follow `answer`, there are up to an end token or string."""
        ends = [index + 1 for index, token in enumerate(tokens) if token in self.end_tokens]
        if self.strings is not None:
            ends.append(self.strings.num_until(answer, tokens) or len(tokens))
        return min([*ends, len(tokens)])

    def _completes_string(self, answer: Tokens[int]) -> bool:
        strings = self.strings
        return strings is not None and strings.num_until(answer[:-1], answer[-1:]) is not None

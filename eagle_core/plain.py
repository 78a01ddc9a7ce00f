"""Plain decoding, the yardstick: one target pass, one token.

The sibling of `engine`: same target run, same laws, same stops, and the same `Step`, whose tree
is the root alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_core.decoding import Decoding, StepClock, as_step
from eagle_core.sequence import Sequence
from eagle_core.trace import Event, Prefill
from eagle_core.tree import DraftTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as Tokens

    from eagle_core.trace import Step


class Plain:
    """Decodes one answer without drafting."""

    def __init__(self, decoding: Decoding) -> None:
        self._decoding = decoding

    def steps(self, prompt: Tokens[int]) -> Iterator[Event]:
        """One `Prefill`, then a `Step` per target pass until a stop rule ends the answer."""
        sequence = Sequence(prompt)
        stops = self._decoding.stops
        yield self._prefill(sequence)
        while stops.reason(sequence) is None:
            yield self._step(sequence)

    def _prefill(self, sequence: Sequence) -> Prefill:
        decoding = self._decoding
        decoding.watch.restart()
        read = decoding.run.prefill(decoding.prompt_tensor(sequence))
        first = decoding.first_token(read, sequence)
        sequence.commit([first])
        return Prefill(
            num_prompt_tokens=sequence.num_prompt_tokens,
            token=first,
            prefill_ms=decoding.watch.lap(),
            stop=decoding.stops.reason(sequence),
        )

    def _step(self, sequence: Sequence) -> Step:
        decoding = self._decoding
        decoding.watch.restart()
        tree = DraftTree.root_only(sequence.root)
        read = decoding.run.score_tree(tree)
        verify_ms = decoding.watch.lap()
        taken = decoding.accept(tree, decoding.target_law(tree, read, sequence), sequence)
        sequence.commit(taken.committed)
        clock = StepClock(0.0, verify_ms, decoding.watch.lap())
        return as_step(taken, clock, stop=decoding.stops.reason(sequence))

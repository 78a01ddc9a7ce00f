"""The speculative loop: draft a tree, let the target check it whole, keep a path.

`Engine` joins a target run, a drafter and a rule. Everything that decodes speculatively (page,
command line, benchmark, proofs) reads this one loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagle_core.decoding import Decoding, StepClock, as_step, dropped_of, top_laws
from eagle_core.sequence import Sequence
from eagle_core.trace import Event, Prefill
from eagle_core.tree import DraftTree
from eagle_core.verify import with_untried

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as Tokens

    from eagle_core.drafters.base import Drafter
    from eagle_core.planning import Planner
    from eagle_core.trace import Step


class Engine:
    """Decodes one answer with a drafter; the text's law is the target's, whatever is drafted.

    plan: of every step; a fixed one, or a planner that learns from step to step.
    """

    def __init__(self, decoding: Decoding, drafter: Drafter, *, plan: Planner) -> None:
        self._decoding = decoding
        self._drafter = drafter
        self._planner = plan
        self._is_drafting = True

    def steps(self, prompt: Tokens[int]) -> Iterator[Event]:
        """One `Prefill`, then a `Step` per target pass until a stop rule ends the answer.

        Past the drafter's context limit the steps are plain ones, and the first of them says so.
        """
        sequence = Sequence(prompt)
        stops = self._decoding.stops
        yield self._prefill(sequence)
        while stops.reason(sequence) is None:
            yield self._step(sequence)

    def _prefill(self, sequence: Sequence) -> Prefill:
        decoding, drafter = self._decoding, self._drafter
        decoding.watch.restart()
        prompt = decoding.prompt_tensor(sequence)
        read = decoding.run.prefill(prompt, taps=drafter.taps)
        first = decoding.first_token(read, sequence)
        sequence.commit([first])
        if self._room(sequence) > 0:
            drafter.begin(prompt, read)
        return Prefill(
            num_prompt_tokens=sequence.num_prompt_tokens,
            token=first,
            prefill_ms=decoding.watch.lap(),
            stop=decoding.stops.reason(sequence),
        )

    def _step(self, sequence: Sequence) -> Step:
        decoding, drafter = self._decoding, self._drafter
        decoding.watch.restart()
        notice = self._leave_drafter_behind(sequence)
        tree = self._grow_tree(sequence)
        draft_ms = decoding.watch.lap()
        read = decoding.run.score_tree(tree, taps=drafter.taps)
        verify_ms = decoding.watch.lap()
        law = decoding.target_law(tree, read, sequence)
        taken = decoding.accept(tree, law, sequence)
        if self._is_drafting:
            drafter.observe(taken, read)
            self._planner.learn(taken)
        sequence.commit(taken.committed)
        clock = StepClock(draft_ms, verify_ms, decoding.watch.lap())
        stop = decoding.stops.reason(sequence)
        # The picture is made after the clock was read: it is no part of the step.
        shown = with_untried(taken, law, rule=decoding.rule)
        return as_step(
            shown,
            clock,
            stop=stop,
            notice=notice,
            laws=top_laws(taken, law),
            dropped=dropped_of(tree) if decoding.records_dropped else None,
        )

    def _grow_tree(self, sequence: Sequence) -> DraftTree:
        decoding = self._decoding
        depth = min(self._room(sequence), decoding.stops.room(sequence) - 1)
        if not self._is_drafting or depth <= 0:
            return DraftTree.root_only(sequence.root)
        plan = self._planner.next_plan(decoding.run.num_cached).within(depth)
        if plan.depth == 0:
            return DraftTree.root_only(sequence.root)
        return self._drafter.grow_tree(
            sequence.root,
            plan=plan,
            laws=decoding.laws.after(sequence),
            chance=decoding.chance.ahead(len(sequence)),
        )

    def _room(self, sequence: Sequence) -> int:
        """Positions up to the drafter's context limit, the target's where it has none."""
        limit = self._drafter.max_positions
        return (self._decoding.stops.max_positions if limit is None else limit) - len(sequence)

    def _leave_drafter_behind(self, sequence: Sequence) -> str | None:
        """Go on without drafting once the text has outgrown the drafter; says so once."""
        if not self._is_drafting or self._room(sequence) > 0:
            return None
        self._is_drafting = False
        limit = self._drafter.max_positions
        return f"The head was made for {limit} positions; from here on the steps are plain ones."

"""What the two decoding loops share: one target run and the rules of one answer.

Knows targets, laws, stops and clocks. Knows nothing of drafters: `engine` and `plain` add those.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from eagle_core.errors import TargetError
from eagle_core.noise import KeyedChance
from eagle_core.sampling import LawMaker, SeededChance
from eagle_core.sequence import Stops
from eagle_core.text import StopStrings
from eagle_core.trace import (
    LEAST_SHOWN,
    NUM_TOP,
    Candidate,
    Dropped,
    Node,
    NodeLaws,
    Step,
    StopReason,
    TopLaw,
    Verdict,
)
from eagle_core.tree import ROOT
from eagle_core.verify import choose, decide

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.options import RunOptions
    from eagle_core.rules import Rule
    from eagle_core.sampling import Chance, TargetLaw
    from eagle_core.sequence import Sequence
    from eagle_core.targets.base import Target, TargetRead, TargetRun
    from eagle_core.text import Decode
    from eagle_core.tree import DraftTree
    from eagle_core.verify import Acceptance


class Stopwatch:
    """Milliseconds of finished device work between laps."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.restart()

    def restart(self) -> None:
        self._last = self._now()

    def lap(self) -> float:
        """Milliseconds since the last lap or restart."""
        began, self._last = self._last, self._now()
        return (self._last - began) * 1000

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


@dataclass(frozen=True)
class StepClock:
    """Where the milliseconds of one step went."""

    draft_ms: float
    verify_ms: float
    commit_ms: float


@dataclass(frozen=True, eq=False)
class Decoding:
    """One answer in the making: the run with its cache, laws, rule, chance, stops, watch."""

    run: TargetRun
    laws: LawMaker
    rule: Rule
    chance: Chance
    stops: Stops
    watch: Stopwatch
    device: torch.device
    records_dropped: bool = False

    @classmethod
    def open(cls, target: Target, options: RunOptions, *, decode: Decode | None = None) -> Decoding:
        """decode: of tokens to text, needed where the options have stop strings."""
        spec = target.spec
        assert decode or not options.stop, "stop strings are looked for in text"
        return cls(
            run=target.open(),
            laws=LawMaker(options),
            rule=options.resolved_rule,
            chance=chance_for(options),
            stops=Stops(
                spec.end_tokens,
                options.max_new_tokens,
                spec.max_positions,
                StopStrings(options.stop, decode) if options.stop and decode else None,
            ),
            watch=Stopwatch(spec.device),
            device=spec.device,
            records_dropped=options.record_dropped,
        )

    def prompt_tensor(self, sequence: Sequence) -> Tensor:
        return torch.tensor(sequence.tokens, dtype=torch.int64, device=self.device)  # (P,)

    def first_token(self, read: TargetRead, sequence: Sequence) -> int:
        """Raises `TargetError` where the target has overflowed, as some do in half precision."""
        if bool(read.logits[-1].isnan().any()):
            dtype = str(read.logits.dtype).removeprefix("torch.")
            raise TargetError(
                f"a target whose logits are no numbers in {dtype}",
                expected="numbers",
                hint="another --dtype, such as bfloat16 or float32",
            )
        law = self.laws.after(sequence).law(read.logits[-1])
        return choose(law, rule=self.rule, chance=self.chance.ahead(len(sequence)))

    def target_law(self, tree: DraftTree, read: TargetRead, sequence: Sequence) -> TargetLaw:
        """The processed law at each node of the scored tree, the text so far before it."""
        return self.laws.after(sequence).of(tree, read)

    def accept(self, tree: DraftTree, law: TargetLaw, sequence: Sequence) -> Acceptance:
        """Walk the scored tree, cut at a stop, and keep just that path in the cache."""
        here = self.chance.ahead(len(sequence))
        taken = decide(tree, law, rule=self.rule, chance=here)
        taken = self.stops.cut(taken, sequence)
        self.run.keep_path(taken.path)
        return taken


def top_laws(taken: Acceptance, target: TargetLaw) -> tuple[NodeLaws, ...]:
    """The tops of both laws at the nodes that the walk visited, for the picture only."""
    drawn = taken.tree.laws
    return tuple(
        NodeLaws(node, _top(target(node)), _top(drawn[node]) if node in drawn else None)
        for node in taken.path
    )


def _top(law: Tensor) -> TopLaw:
    """Of a law (V,). Few tokens are probable enough to be shown: only those are ranked."""
    able = (law >= LEAST_SHOWN).nonzero()[:, 0]
    probs, order = law[able].clamp_max(1.0).topk(min(NUM_TOP, len(able)))
    return TopLaw(tuple(able[order].tolist()), tuple(probs.tolist()))


def dropped_of(tree: DraftTree) -> Dropped | None:
    """The candidates that the tree was chosen from and that are not in it; None where all are."""
    choice = tree.choice
    if choice is None or not choice.dropped:
        return None
    made = choice.made
    number = {node: place for place, node in enumerate((*choice.kept, *choice.dropped))}
    return Dropped(
        candidates=tuple(
            Candidate(
                token=made.tokens[node],
                parent=number[made.parents[node] or ROOT],
                draft_prob=min(math.exp(made.log_probs[node]), 1.0),
                value=made.values[node],
            )
            for node in choice.dropped
        ),
        least_kept=min((made.values[node] for node in choice.kept if node != ROOT), default=None),
    )


def chance_for(options: RunOptions) -> Chance:
    if options.resolved_rule == "seeded":
        return KeyedChance(options.seed)
    return SeededChance(options.seed)


def as_step(
    taken: Acceptance,
    clock: StepClock,
    *,
    stop: StopReason | None,
    notice: str | None = None,
    laws: tuple[NodeLaws, ...] = (),
    dropped: Dropped | None = None,
) -> Step:
    """The record of one step: plain numbers, nothing that lives on a device."""
    return Step(
        nodes=tuple(_as_node(taken, node) for node in range(len(taken.tree))),
        path=taken.path,
        bonus=taken.bonus,
        draft_ms=clock.draft_ms,
        verify_ms=clock.verify_ms,
        commit_ms=clock.commit_ms,
        stop=stop,
        notice=notice,
        laws=laws,
        dropped=dropped,
    )


def _as_node(taken: Acceptance, node: int) -> Node:
    tree, coin = taken.tree, taken.coins[node]
    if node == ROOT or coin is None:
        return Node(token=tree.tokens[node], parent=None, verdict=Verdict.ROOT)
    return Node(
        token=tree.tokens[node],
        parent=tree.parents[node],
        verdict=coin.verdict,
        draft_prob=min(tree.prob(node), 1.0),
        target_prob=min(coin.target_prob, 1.0),
        accept_prob=min(coin.accept_prob, 1.0),
        draw=coin.draw,
    )

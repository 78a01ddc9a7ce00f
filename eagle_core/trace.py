"""The record of a run: enough to draw and recount everything without a model.

A trace holds one prompt and one lane per method. A lane is a prefill and its steps; every figure
shown anywhere is a property of these, so it can be recounted from the file alone. Imports neither
torch nor gradio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from eagle_core.errors import TraceError
from eagle_core.rules import LOSSY
from eagle_core.tree import children_of, depths_of

TRACE_VERSION = 3


class Verdict(str, Enum):
    """What became of a node in its step."""

    ROOT = "root"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    NOT_REACHED = "not_reached"


class StopReason(str, Enum):
    """Why a lane ended."""

    END_TOKEN = "end_token"
    STOP_STRING = "stop_string"
    MAX_NEW_TOKENS = "max_new_tokens"
    CONTEXT = "context"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Node:
    """One node of a scored draft tree; the probabilities are None at the root.

    draft_prob: under the draft law of its parent, given the path.
    target_prob: under the target law of its parent, given the path (at temperature 0 the softmax
        at temperature 1, since the law itself is a single token).
    accept_prob: chance of acceptance given that its parent was kept and its earlier siblings
        were refused.
    draw: the uniform number it was tried with; accepted when draw < accept_prob. None where no
        coin was flipped.
    """

    token: int
    parent: int | None
    verdict: Verdict
    draft_prob: float | None = None
    target_prob: float | None = None
    accept_prob: float | None = None
    draw: float | None = None


NUM_TOP = 10
LEAST_SHOWN = 0.001


@dataclass(frozen=True)
class TopLaw:
    """The NUM_TOP most probable tokens of a law, best first, without those below LEAST_SHOWN."""

    tokens: tuple[int, ...]
    probs: tuple[float, ...]


@dataclass(frozen=True)
class NodeLaws:
    """Both laws after the path of a node that the walk visited.

    `draft` is None where the head's whole law was not kept; its best tokens are the children then.
    """

    node: int
    target: TopLaw
    draft: TopLaw | None = None


@dataclass(frozen=True)
class Candidate:
    """A token that was drafted and did not come into the tree.

    parent: a node of the tree, or another candidate; they are numbered on from the tree's nodes.
    value: the plan's chance that the whole path down to it is kept.
    """

    token: int
    parent: int
    draft_prob: float
    value: float


@dataclass(frozen=True)
class Dropped:
    """What a dynamic tree drafted and did not keep, at least one candidate, parents first.

    least_kept: the smallest value of a draft that was kept, None where none was.
    """

    candidates: tuple[Candidate, ...]
    least_kept: float | None


@dataclass(frozen=True)
class Prefill:
    """The pass over the prompt and the first token it gave; not part of the decode phase."""

    num_prompt_tokens: int
    token: int
    prefill_ms: float
    stop: StopReason | None = None

    @property
    def ms(self) -> float:
        return self.prefill_ms

    @property
    def committed(self) -> tuple[int, ...]:
        return (self.token,)


@dataclass(frozen=True)
class Step:
    """Draft, one target pass, accept a path, commit.

    `path` begins with the root (node 0). `bonus` is None where a stop cut the step before it.
    `commit_ms` is everything after the target pass: acceptance, cache, drafter's refresh.
    `laws` follows the path where it was recorded, else it is empty. `dropped` is there on request.
    """

    nodes: tuple[Node, ...]
    path: tuple[int, ...]
    bonus: int | None
    draft_ms: float
    verify_ms: float
    commit_ms: float
    stop: StopReason | None = None
    notice: str | None = None
    laws: tuple[NodeLaws, ...] = ()
    dropped: Dropped | None = None

    @property
    def ms(self) -> float:
        return self.draft_ms + self.verify_ms + self.commit_ms

    @property
    def num_drafts(self) -> int:
        return len(self.nodes) - 1

    @property
    def num_accepted(self) -> int:
        return len(self.path) - 1

    @property
    def committed(self) -> tuple[int, ...]:
        """Token ids this step added to the text: accepted, then the bonus token."""
        accepted = tuple(self.nodes[node].token for node in self.path[1:])
        return accepted if self.bonus is None else (*accepted, self.bonus)

    @property
    def num_committed(self) -> int:
        return len(self.committed)

    @cached_property
    def parents(self) -> tuple[int | None, ...]:
        return tuple(node.parent for node in self.nodes)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        return depths_of(self.parents)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        return children_of(self.parents)

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """One for each node of the path that had children; none where a stop cut the walk off."""
        ends = [*self.path[1:], None] if self.bonus is not None else self.path[1:]
        trials = []
        for depth, (node, kept) in enumerate(zip(self.path, ends, strict=False), start=1):
            children = self.children[node]
            if children:
                rank = None if kept is None else children.index(kept)
                trials.append(Trial(depth, len(children), rank))
        return tuple(trials)


Event = Prefill | Step
"""What a decoding loop yields: one prefill, then steps."""


@dataclass(frozen=True)
class Lane:
    """One method's answer. `texts[i]` holds the text of every token that `events[i]` committed.

    A token that does not complete a character has the text ""; the one that does has it whole.
    """

    method: str
    events: tuple[Event, ...]
    texts: tuple[tuple[str, ...], ...]

    @property
    def prefill(self) -> Prefill | None:
        first = self.events[0] if self.events else None
        return first if isinstance(first, Prefill) else None

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(event for event in self.events if isinstance(event, Step))

    @property
    def text(self) -> str:
        return "".join(text for texts in self.texts for text in texts)

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        return tuple(token for event in self.events for token in event.committed)

    @property
    def stop(self) -> StopReason | None:
        return self.events[-1].stop if self.events else None

    @property
    def num_target_passes(self) -> int:
        """Of the decode phase: the prefill is not counted."""
        return len(self.steps)

    @property
    def decode_ms(self) -> float:
        return sum(step.ms for step in self.steps)

    @property
    def tau(self) -> float:
        """Acceptance length: (committed tokens - 1) ÷ target passes of the decode phase."""
        return _ratio(len(self.tokens) - 1, self.num_target_passes)

    @property
    def tokens_per_s(self) -> float:
        """(committed tokens - 1) ÷ seconds of the decode phase."""
        return _ratio(len(self.tokens) - 1, self.decode_ms / 1000)

    @cached_property
    def accepted_by_depth(self) -> tuple[AcceptanceCount, ...]:
        """At depth 1, 2, …: steps that tried a node there, and those that kept one."""
        deepest = max((max(step.depths) for step in self.steps), default=0)
        trials = [trial for step in self.steps for trial in step.trials]
        return tuple(
            AcceptanceCount.of(depth, [t.kept_rank is not None for t in trials if t.depth == depth])
            for depth in range(1, deepest + 1)
        )

    @cached_property
    def accepted_by_rank(self) -> tuple[AcceptanceCount, ...]:
        """At child rank 0, 1, …: kept nodes that had such a child, and those whose it was."""
        trials = [trial for step in self.steps for trial in step.trials]
        widest = max((trial.num_children for trial in trials), default=0)
        return tuple(
            AcceptanceCount.of(rank, [t.kept_rank == rank for t in trials if t.num_children > rank])
            for rank in range(widest)
        )


@dataclass(frozen=True)
class Trial:
    """The walk at one node of its path: how many children it had to try, and which one it kept."""

    depth: int  # of the children
    num_children: int
    kept_rank: int | None


@dataclass(frozen=True)
class AcceptanceCount:
    """How often a node at this depth or child rank could be kept, and how often it was."""

    at: int
    num_reached: int
    num_accepted: int

    @classmethod
    def of(cls, at: int, kept: Sequence[bool]) -> AcceptanceCount:
        return cls(at=at, num_reached=len(kept), num_accepted=sum(kept))

    @property
    def rate(self) -> float:
        return _ratio(self.num_accepted, self.num_reached)


@dataclass(frozen=True)
class Environment:
    """Where a trace was made; shown beside every figure taken from it."""

    target: str
    head: str
    device: str
    dtype: str
    threads: int
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What was asked for: the fields of `RunOptions`, with the tree and the rule that were used."""

    max_new_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int
    tree: str
    rule: str
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    stop: tuple[str, ...] = ()
    record_dropped: bool = False

    @property
    def is_lossless(self) -> bool:
        return self.rule not in LOSSY


@dataclass(frozen=True)
class Turn:
    """What one side of a conversation said; a target knows the roles system, user, assistant."""

    role: str
    content: str


@dataclass(frozen=True)
class Trace:
    """A prompt answered by one or more lanes over the same target.

    `pieces` gives the shown text of every token id that occurs, drafted ones included; `earlier`
    the conversation before the prompt, which both lanes had read.
    """

    prompt: str
    settings: Settings
    environment: Environment
    lanes: tuple[Lane, ...]
    pieces: Mapping[int, str]
    created: str
    earlier: tuple[Turn, ...] = ()
    version: int = TRACE_VERSION

    def lane(self, method: str) -> Lane:
        """Raises `TraceError` where it has no such lane."""
        for lane in self.lanes:
            if lane.method == method:
                return lane
        raise TraceError(f"a trace without the lane {method}", expected="a run of both lanes")

    @property
    def conversation(self) -> tuple[Turn, ...]:
        """All turns with the answer: plain decoding's, should the lanes differ."""
        lanes = sorted(self.lanes, key=lambda lane: lane.method != "plain")
        answer = Turn("assistant", lanes[0].text if lanes else "")
        return (*self.earlier, Turn("user", self.prompt), answer)

    @property
    def speedup(self) -> float | None:
        """EAGLE's tokens/s ÷ plain decoding's; None unless both lanes decoded something."""
        by_method = {lane.method: lane for lane in self.lanes}
        if not {"plain", "eagle"} <= by_method.keys():
            return None
        ratio = _ratio(by_method["eagle"].tokens_per_s, by_method["plain"].tokens_per_s)
        return ratio if math.isfinite(ratio) and ratio > 0 else None


def first_difference(one: Lane, other: Lane) -> int | None:
    """Position of the first committed token in which two lanes differ; None where equal.

    A lane that ends earlier differs at its end.
    """
    for position, (mine, yours) in enumerate(zip(one.tokens, other.tokens, strict=False)):
        if mine != yours:
            return position
    if len(one.tokens) != len(other.tokens):
        return min(len(one.tokens), len(other.tokens))
    return None


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0

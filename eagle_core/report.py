"""What a head is good at and where it fails, counted from recorded runs.

Every place of the answer at which the head had drafted children is a *trial*: the target either
keeps one of them or puts its own token there, a *miss*. Trials are counted by depth of the tree and
by the class of the token that came to stand there; misses by what was drafted first and what came.
Knows traces. Needs neither torch nor weights.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from eagle_core.errors import TraceError
from eagle_core.trace import AcceptanceCount, Environment, Lane, Step, Trace

Value = TypeVar("Value")
TokenClass = Literal["word start", "word inside", "number", "punctuation", "whitespace", "special"]
TOKEN_CLASSES: tuple[TokenClass, ...] = get_args(TokenClass)

SPECIAL = re.compile(r"<\|.*\|>|</?s>|<(bos|eos|pad|unk|start_of_turn|end_of_turn)>", re.DOTALL)
MAX_MISSES = 20
MAX_CONTEXTS = 3
CONTEXT_CHARACTERS = 40


@dataclass(frozen=True)
class ClassCount:
    """Trials at which a token of this class came, and how many of them kept a draft."""

    token_class: TokenClass
    num_reached: int
    num_accepted: int

    @property
    def rate(self) -> float:
        return self.num_accepted / self.num_reached if self.num_reached else 0.0


@dataclass(frozen=True)
class Miss:
    """The head's first choice, what the target put there, how often, and some texts before it."""

    drafted: str
    came: str
    count: int
    contexts: tuple[str, ...]


@dataclass(frozen=True)
class HeadReport:
    """The figures of one head over one or more traces of its EAGLE lanes."""

    environments: tuple[Environment, ...]  # each once
    rules: tuple[str, ...]
    num_traces: int
    num_tokens: int  # of the decode phase
    num_target_passes: int
    by_depth: tuple[AcceptanceCount, ...]
    by_class: tuple[ClassCount, ...]
    misses: tuple[Miss, ...]  # the most frequent first
    num_misses: int

    @property
    def tau(self) -> float:
        return self.num_tokens / self.num_target_passes if self.num_target_passes else 0.0


@dataclass(frozen=True)
class _Attempt:
    """A trial in the words of the text; `drafted` is the head's first choice."""

    depth: int
    is_kept: bool
    drafted: str
    came: str
    token_class: TokenClass
    context: str


def report_on(traces: Sequence[Trace], *, max_misses: int = MAX_MISSES) -> HeadReport:
    """Raises `TraceError` where there is nothing to report on, or more than one head."""
    lanes = [(trace, trace.lane("eagle")) for trace in traces]
    heads = sorted({f"{t.environment.head} on {t.environment.target}" for t in traces})
    if len(heads) != 1:
        got = f"traces of {len(heads)} heads: {', '.join(heads)}" if heads else "no trace"
        raise TraceError(got, expected="traces of one head")
    attempts = [attempt for trace, lane in lanes for attempt in _attempts(trace, lane)]
    missed = [attempt for attempt in attempts if not attempt.is_kept]
    return HeadReport(
        environments=_once([trace.environment for trace in traces]),
        rules=_once([trace.settings.rule for trace in traces]),
        num_traces=len(traces),
        num_tokens=sum(max(len(lane.tokens) - 1, 0) for _, lane in lanes),
        num_target_passes=sum(lane.num_target_passes for _, lane in lanes),
        by_depth=tuple(_depth_counts(attempts)),
        by_class=tuple(_class_counts(attempts)),
        misses=tuple(_most_frequent(missed, max_misses)),
        num_misses=len(missed),
    )


def class_of(piece: str, *, before: str) -> TokenClass:
    """The class of a token that looks like `piece` and stands after the text `before`."""
    bare = piece.strip()
    if piece == "" or SPECIAL.fullmatch(piece):
        return "special"
    if not bare:
        return "whitespace"
    if any(letter.isalpha() for letter in bare):
        is_inside = not piece[0].isspace() and before[-1:].isalpha()
        return "word inside" if is_inside else "word start"
    return "number" if any(letter.isnumeric() for letter in bare) else "punctuation"


def _attempts(trace: Trace, lane: Lane) -> Iterator[_Attempt]:
    text = ""
    for event, texts in zip(lane.events, lane.texts, strict=True):
        if isinstance(event, Step):
            yield from _attempts_of(trace, event, texts, before=text)
        text += "".join(texts)


def _attempts_of(
    trace: Trace, step: Step, texts: Sequence[str], *, before: str
) -> Iterator[_Attempt]:
    """In the order of the path; `before` is the answer before this step."""
    for trial in step.trials:
        place = trial.depth - 1  # in the step's committed tokens
        first = step.children[step.path[place]][0]
        came = trace.pieces.get(step.committed[place], "")
        context = before + "".join(texts[:place])
        yield _Attempt(
            depth=trial.depth,
            is_kept=trial.kept_rank is not None,
            drafted=trace.pieces.get(step.nodes[first].token, ""),
            came=came,
            token_class=class_of(came, before=context),
            context=context[-CONTEXT_CHARACTERS:],
        )


def _depth_counts(attempts: Sequence[_Attempt]) -> Iterator[AcceptanceCount]:
    for depth in range(1, max((attempt.depth for attempt in attempts), default=0) + 1):
        yield AcceptanceCount.of(depth, [a.is_kept for a in attempts if a.depth == depth])


def _class_counts(attempts: Sequence[_Attempt]) -> Iterator[ClassCount]:
    for name in TOKEN_CLASSES:
        kept = [attempt.is_kept for attempt in attempts if attempt.token_class == name]
        yield ClassCount(name, num_reached=len(kept), num_accepted=sum(kept))


def _most_frequent(missed: Sequence[_Attempt], most: int) -> Iterator[Miss]:
    contexts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for attempt in missed:
        contexts[attempt.drafted, attempt.came].append(attempt.context)
    counts = Counter({pair: len(found) for pair, found in contexts.items()})
    for (drafted, came), count in counts.most_common(most):
        shown = _once(contexts[drafted, came])[:MAX_CONTEXTS]
        yield Miss(drafted, came, count, shown)


def _once(values: Sequence[Value]) -> tuple[Value, ...]:
    """Each value once, in the order of its first coming."""
    return tuple(value for place, value in enumerate(values) if value not in values[:place])

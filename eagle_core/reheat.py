"""One recorded step at another temperature: its laws and acceptance probabilities anew.

A law at temperature T is known by its top; at T' a token's probability is proportional to
p ^ (T / T'). The drafted tokens stay those that were drafted.

What is exact and what is not: tokens in the recorded top keep exact ratios to each other. The rest
of the law is counted as so many tokens as probable as they can be, so that its mass is the most it
can be when it gets colder and the least when it gets hotter. Acceptance under the one-hot rules is
as exact as the target law; where siblings were drawn, the first child's is, and after a refusal
what is left of two laws is known for their recorded tops only.

Knows traces and rules. Knows nothing of models: `eagle_core.contests` has the rules themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from eagle_core.errors import OptionError
from eagle_core.trace import LEAST_SHOWN, NUM_TOP, NodeLaws, Settings, Step, TopLaw

COLDEST = 0.01  # below it and above 0 a step is as good as greedy, and powers overflow


@dataclass(frozen=True)
class PartialLaw:
    """A law known in part: `rest` is the mass of all other tokens, none of them above `cap`."""

    probs: Mapping[int, float]
    rest: float
    cap: float

    @classmethod
    def of(cls, top: TopLaw, known: Mapping[int, float]) -> PartialLaw:
        """The recorded top, with the exact probabilities that nodes have."""
        probs = {**dict(zip(top.tokens, top.probs, strict=True)), **known}
        rest = max(1.0 - sum(probs.values()), 0.0)
        cap = top.probs[-1] if len(top.probs) == NUM_TOP else LEAST_SHOWN
        return cls(probs, rest, min(cap, rest))

    def prob(self, token: int) -> float:
        """0 for a token that is not known."""
        return self.probs.get(token, 0.0)

    @property
    def mode(self) -> int | None:
        """The most probable of the known tokens."""
        return max(self.probs, key=lambda token: self.probs[token], default=None)

    def at(self, exponent: float) -> PartialLaw:
        """Every probability to the power of `exponent`, scaled to sum to one again."""
        largest = max([*self.probs.values(), self.cap]) or 1.0  # powers of it cannot vanish
        powers = {token: (prob / largest) ** exponent for token, prob in self.probs.items()}
        cap = (self.cap / largest) ** exponent
        rest = self.rest / self.cap * cap if self.cap else 0.0
        return _scaled(powers, rest, cap)

    def without(self, token: int) -> PartialLaw:
        return _scaled({**self.probs, token: 0.0}, self.rest, self.cap)

    def beyond(self, other: PartialLaw) -> PartialLaw:
        """What exceeds `other`, scaled up; this law again where nothing does."""
        probs = {token: max(prob - other.prob(token), 0.0) for token, prob in self.probs.items()}
        rest = max(self.rest - other.rest, 0.0)
        return _scaled(probs, rest, self.cap) if sum(probs.values()) + rest > 0 else self


def _scaled(probs: Mapping[int, float], rest: float, cap: float) -> PartialLaw:
    total = sum(probs.values()) + rest or 1.0
    scaled = {token: prob / total for token, prob in probs.items()}
    return PartialLaw(scaled, rest / total, cap / total)


@dataclass(frozen=True)
class Child:
    """A tried child, as recorded and as it would be; `draft_prob` as the trial took it."""

    node: int
    token: int
    recorded: float
    accept_prob: float
    target_prob: float
    draft_prob: float


@dataclass(frozen=True)
class Visit:
    """A node of the path with its laws at the other temperature, and its children's fates."""

    node: int
    target: PartialLaw
    recorded_target: PartialLaw
    children: tuple[Child, ...]

    @property
    def kept_prob(self) -> float:
        """Chance that one of the children is kept: 1 - Π (1 - acceptance)."""
        return 1.0 - _none([child.accept_prob for child in self.children])

    @property
    def recorded_kept_prob(self) -> float:
        return 1.0 - _none([child.recorded for child in self.children])


def _none(chances: Sequence[float]) -> float:
    left = 1.0
    for chance in chances:
        left *= 1.0 - chance
    return left


Trial = Callable[[PartialLaw, PartialLaw, Sequence[int]], list[float]]
"""Target law, draft law and the children's tokens in order to each one's chance of acceptance, all
before it refused."""


def _greedy(target: PartialLaw, draft: PartialLaw, tokens: Sequence[int]) -> list[float]:
    return [1.0 if token == target.mode else 0.0 for token in tokens]


def _one_hot(target: PartialLaw, draft: PartialLaw, tokens: Sequence[int]) -> list[float]:
    chances, left = [], target
    for token in tokens:
        chances.append(left.prob(token))
        left = left.without(token)
    return chances


def _drawn(*, is_replaced: bool) -> Trial:
    def trial(target: PartialLaw, draft: PartialLaw, tokens: Sequence[int]) -> list[float]:
        chances, left, drawn_from = [], target, draft
        for token in tokens:
            drafted = drawn_from.prob(token)
            chances.append(min(1.0, left.prob(token) / drafted) if drafted else 1.0)
            left = left.beyond(drawn_from)
            drawn_from = drawn_from if is_replaced else drawn_from.without(token)
        return chances

    return trial


TRIALS: Mapping[str, Trial] = {
    "greedy": _greedy,
    "one_hot": _one_hot,
    "seeded": _one_hot,
    "iid": _drawn(is_replaced=True),
    "without_replacement": _drawn(is_replaced=False),
}
"""The rules that try one child after the other, for laws known in part."""


def reheat(step: Step, settings: Settings, *, temperature: float) -> tuple[Visit, ...]:
    """Every visited node of the step at `temperature`. Raises `OptionError` where the trace has no
    laws, or its rule none that could be followed."""
    if not step.laws:
        raise OptionError("a step without recorded laws", hint="a trace of this release")
    trial = TRIALS[rule_at(temperature, settings)]
    recorded = settings.temperature or 1.0  # greedy laws are recorded at temperature 1
    exponent = recorded / max(temperature or recorded, COLDEST)
    return tuple(_visit(step, laws, trial, exponent) for laws in step.laws)


def rule_at(temperature: float, settings: Settings) -> str:
    """The rule that can judge the drafted siblings there: greedy at 0, and one-hot above where they
    were chosen for the greedy rule. Raises `OptionError` for a rule that cannot be followed."""
    if settings.rule not in TRIALS:
        raise OptionError(f"rule {settings.rule:.40}", expected=f"one of {', '.join(TRIALS)}")
    if temperature == 0:
        return "greedy"
    return "one_hot" if settings.rule == "greedy" else settings.rule


def _visit(step: Step, laws: NodeLaws, trial: Trial, exponent: float) -> Visit:
    nodes = [(child, step.nodes[child]) for child in step.children[laws.node]]
    recorded = PartialLaw.of(laws.target, {one.token: one.target_prob or 0.0 for _, one in nodes})
    drafted = {one.token: one.draft_prob or 0.0 for _, one in nodes}
    draft = PartialLaw.of(laws.draft or TopLaw((), ()), drafted)
    target, draft = recorded.at(exponent), draft.at(exponent)
    chances = trial(target, draft, [one.token for _, one in nodes])
    return Visit(
        laws.node,
        target,
        recorded,
        tuple(
            Child(
                node,
                one.token,
                recorded=one.accept_prob or 0.0,
                accept_prob=chance,
                target_prob=target.prob(one.token),
                draft_prob=draft.prob(one.token),
            )
            for (node, one), chance in zip(nodes, chances, strict=True)
        ),
    )

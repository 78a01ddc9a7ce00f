"""Walk a scored draft tree and decide what to keep.

At each node the rule holds a contest among its children, in the order in which they were chosen.
The first to win is kept and the walk goes on below it; if none wins, the bonus token comes from
what the contest left of the target law. Whatever was drafted, the committed tokens follow the
target law.

Knows trees and target laws. Knows nothing of drafters, caches or text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from eagle_core.errors import TreeError
from eagle_core.sampling import without
from eagle_core.trace import Verdict
from eagle_core.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from eagle_core.sampling import Chance, TargetLaw
    from eagle_core.tree import DraftTree

Rule = Literal["greedy", "one_hot", "without_replacement"]
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True)
class Coin:
    """What was, or would have been, flipped for one drafted node.

    target_prob: of its token under its parent's target law.
    accept_prob: given that its parent was kept and its earlier siblings were refused.
    draw: kept when below `accept_prob`; None where no coin was flipped.
    """

    target_prob: float
    accept_prob: float
    draw: float | None = None
    verdict: Verdict = Verdict.NOT_REACHED

    def never_flipped(self) -> Coin:
        return replace(self, draw=None, verdict=Verdict.NOT_REACHED)


@dataclass(frozen=True, eq=False)
class Acceptance:
    """What a step keeps of its tree: a path from the root, and the bonus token below it.

    `coins` has an entry per node, None for the root. `bonus` is None where a stop cut the path.
    """

    tree: DraftTree
    path: tuple[int, ...]
    bonus: int | None
    coins: tuple[Coin | None, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Along the path, the root's first."""
        return self.tree.tokens_on(self.path)

    @property
    def num_accepted(self) -> int:
        return len(self.path) - 1

    @property
    def committed(self) -> tuple[int, ...]:
        accepted = self.tokens[1:]
        return accepted if self.bonus is None else (*accepted, self.bonus)

    def first(self, num_tokens: int) -> Acceptance:
        """This acceptance as if it had ended after its first `num_tokens` committed tokens."""
        if num_tokens >= len(self.committed):
            return self
        kept, dropped = self.path[: num_tokens + 1], self.path[num_tokens:]
        coins = [
            coin if coin is None or parent not in dropped else coin.never_flipped()
            for coin, parent in zip(self.coins, self.tree.parents, strict=True)
        ]
        return replace(self, path=kept, bonus=None, coins=tuple(coins))


class Contest(Protocol):
    """One node's children against its target law."""

    flips_coins: bool

    def accept_prob(self, token: int) -> float:
        """Chance that the next child, `token`, is kept, all before it having been refused."""
        ...

    def refuse(self, token: int) -> None:
        """Take note that `token` was refused; the law left over changes."""
        ...

    def bonus(self, chance: Chance) -> int:
        """The target's own token, from the law left over."""
        ...


class GreedyContest:
    """Temperature 0: only the target's most probable token is kept."""

    flips_coins = False

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        self._mode = int(law.argmax())

    def accept_prob(self, token: int) -> float:
        return 1.0 if token == self._mode else 0.0

    def refuse(self, token: int) -> None:
        """A refused token is not the mode, so nothing is left to change."""

    def bonus(self, chance: Chance) -> int:
        return self._mode


class OneHotContest:
    """Siblings that are a function of the context, such as a top-k: each is drawn for certain.

    Keep x with the target's probability of x; after a refusal that probability becomes zero and
    the rest is scaled up (EAGLE-2, released code).
    """

    flips_coins = True

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        self._left = law.clone()

    def accept_prob(self, token: int) -> float:
        return _share(self._left, token)

    def refuse(self, token: int) -> None:
        self._left[token] = 0.0

    def bonus(self, chance: Chance) -> int:
        return chance.draw(self._left)


class WithoutReplacementContest:
    """Siblings drawn from the draft law one after the other, never the same twice.

    Keep x with min(1, target / draft). After a refusal the target law becomes its excess over the
    draft law, and the draft law loses x; both are scaled up again (EAGLE-1, algorithm 1).
    """

    flips_coins = True

    def __init__(self, law: Tensor, draft_law: Tensor | None) -> None:
        self._left = law
        self._draft_law = draft_law

    def accept_prob(self, token: int) -> float:
        return min(1.0, float(self._left[token]) / float(self._drawn_from[token]))

    def refuse(self, token: int) -> None:
        excess = (self._left - self._drawn_from).clamp_min(0.0)
        mass = excess.sum()
        if mass > 0:  # else both laws are equal, and the refusal was a rounding error
            self._left = excess / mass
        self._draft_law = without(self._drawn_from, token)

    def bonus(self, chance: Chance) -> int:
        return chance.draw(self._left)

    @property
    def _drawn_from(self) -> Tensor:
        assert self._draft_law is not None, "drawn siblings come with their draft law"
        return self._draft_law


CONTESTS: dict[Rule, Callable[[Tensor, Tensor | None], Contest]] = {
    "greedy": GreedyContest,
    "one_hot": OneHotContest,
    "without_replacement": WithoutReplacementContest,
}


def walk(tree: DraftTree, law: TargetLaw, *, rule: Rule, chance: Chance) -> Acceptance:
    """Accept a path of `tree` so that the committed tokens follow `law`.

    `law(node)` is the processed target law after the node's path, (V,). Raises `TreeError` when
    the rule does not fit how the siblings were chosen.
    """
    _check_fit(tree, rule)
    coins: list[Coin | None] = [None] * len(tree)
    path = [ROOT]
    while True:
        node = path[-1]
        contest = CONTESTS[rule](law(node), tree.laws.get(node))
        kept = _try_children(tree, node, law(node), contest, chance, coins)
        if kept is None:
            bonus = contest.bonus(chance)
            break
        path.append(kept)
    _note_untried(tree, law, rule, coins)
    return Acceptance(tree, tuple(path), bonus, tuple(coins))


def choose(law: Tensor, *, rule: Rule, chance: Chance) -> int:
    """One token from the target law with nothing drafted: plain decoding's choice."""
    return CONTESTS[rule](law, None).bonus(chance)


def _try_children(
    tree: DraftTree,
    node: int,
    law: Tensor,
    contest: Contest,
    chance: Chance,
    coins: list[Coin | None],
) -> int | None:
    """The first child to win its coin, None if all are refused; notes every coin flipped."""
    for child in tree.children[node]:
        token = tree.tokens[child]
        accept_prob = contest.accept_prob(token)
        draw = chance.uniform() if contest.flips_coins else None
        is_kept = accept_prob == 1.0 if draw is None else draw < accept_prob
        verdict = Verdict.ACCEPTED if is_kept else Verdict.REFUSED
        coins[child] = Coin(float(law[token]), accept_prob, draw, verdict)
        if is_kept:
            return child
        contest.refuse(token)
    return None


def _note_untried(tree: DraftTree, law: TargetLaw, rule: Rule, coins: list[Coin | None]) -> None:
    """Fill in the coins that were never flipped; they decide nothing, the picture shows them."""
    for node in tree.inner_nodes:
        if coins[tree.children[node][-1]] is not None:
            continue
        contest = CONTESTS[rule](law(node), tree.laws.get(node))
        for child in tree.children[node]:
            token = tree.tokens[child]
            coins[child] = coins[child] or Coin(float(law(node)[token]), contest.accept_prob(token))
            contest.refuse(token)


def _share(law: Tensor, token: int) -> float:
    mass = float(law.sum())
    return float(law[token]) / mass if mass > 0 else 0.0


def _check_fit(tree: DraftTree, rule: Rule) -> None:
    fits = rule == "greedy" or rule == tree.siblings
    if not fits and tree.inner_nodes:
        raise TreeError(
            f"rule {rule} over {tree.siblings} siblings",
            expected=f"rule {tree.siblings} or greedy",
        )

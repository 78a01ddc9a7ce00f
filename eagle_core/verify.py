"""Walk a scored draft tree and decide what to keep.

At each node the rule holds a contest among its children, in the order in which they were chosen.
The first to win is kept and the walk goes on below it; if none wins, the bonus token comes from
what the contest left of the target law. Block verification judges a chain as a whole instead.
Whatever was drafted, the committed tokens follow the target law, unless the rule is a lossy one.

Knows trees and target laws. Knows nothing of drafters, caches or text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from eagle_core.block import Link, verify_block
from eagle_core.contests import CONTESTS
from eagle_core.errors import TreeError
from eagle_core.rules import FACTS
from eagle_core.sampling import most_probable
from eagle_core.trace import Verdict
from eagle_core.tree import ROOT

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.contests import Contest
    from eagle_core.rules import Rule
    from eagle_core.sampling import Chance, TargetLaw
    from eagle_core.tree import DraftTree


@dataclass(frozen=True)
class Coin:
    """What was, or would have been, flipped for one drafted node.

    target_prob: of its token under its parent's target law.
    accept_prob: given that its parent was kept and its earlier siblings were refused; under block
        verification that the kept block ends with it, given that no longer one was kept.
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

    `coins` has an entry per node, None for the root, and for what stood no trial as long as
    `with_untried` has not been asked. `bonus` is None where a stop cut the path.
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
        tried_below = self.path[:num_tokens]
        coins = [
            coin if coin is None or parent in tried_below else coin.never_flipped()
            for coin, parent in zip(self.coins, self.tree.parents, strict=True)
        ]
        return replace(self, path=self.path[: num_tokens + 1], bonus=None, coins=tuple(coins))


def walk(tree: DraftTree, law: TargetLaw, *, rule: Rule, chance: Chance) -> Acceptance:
    """Accept a path of `tree` so that the committed tokens follow `law`.

    `law(node)` is the processed target law after the node's path, (V,); `chance` that of the
    place after the root. Raises `TreeError` when the rule does not fit how the tree was drafted.
    """
    return with_untried(decide(tree, law, rule=rule, chance=chance), law, rule=rule)


def decide(tree: DraftTree, law: TargetLaw, *, rule: Rule, chance: Chance) -> Acceptance:
    """`walk` without the coins that were never flipped, which stay None.

    Asks for no law but those on the path; block verification asks for all of its chain.
    """
    _check_fit(tree, rule)
    if rule == "block":
        return _keep_block(tree, law, chance)
    coins: list[Coin | None] = [None] * len(tree)
    path = [ROOT]
    while True:
        node, here = path[-1], chance.ahead(len(path) - 1)
        contest = CONTESTS[rule](law(node), tree.laws.get(node))
        kept = _try_children(tree, node, law(node), contest, here, coins)
        if kept is None:
            bonus = contest.bonus(here)
            break
        path.append(kept)
    return Acceptance(tree, tuple(path), bonus, tuple(coins))


def with_untried(taken: Acceptance, law: TargetLaw, *, rule: Rule) -> Acceptance:
    """The same with the coins that were never flipped; they decide nothing, the picture shows them.

    What would have been flipped: the earlier siblings refused, the law that of the node.
    """
    tree, coins = taken.tree, list(taken.coins)
    for node in tree.inner_nodes:
        if coins[tree.children[node][-1]] is not None:
            continue
        contest = CONTESTS[rule](law(node), tree.laws.get(node))
        for child in tree.children[node]:
            token = tree.tokens[child]
            coins[child] = coins[child] or Coin(float(law(node)[token]), contest.accept_prob(token))
            contest.refuse(token)
    return replace(taken, coins=tuple(coins))


def choose(law: Tensor, *, rule: Rule, chance: Chance) -> int:
    """One token from the target law with nothing drafted: plain decoding's choice."""
    return most_probable(law) if rule == "greedy" else chance.draw(law)


def _try_children(
    tree: DraftTree,
    node: int,
    law: Tensor,
    contest: Contest,
    chance: Chance,
    coins: list[Coin | None],
) -> int | None:
    """The first child to win its trial, None if all are refused; notes every trial held."""
    for child in tree.children[node]:
        token = tree.tokens[child]
        accept_prob = contest.accept_prob(token)
        trial = contest.trial(token, chance)
        verdict = Verdict.ACCEPTED if trial.is_kept else Verdict.REFUSED
        coins[child] = Coin(float(law[token]), accept_prob, trial.draw, verdict)
        if trial.is_kept:
            return child
        contest.refuse(token)
    return None


def _keep_block(tree: DraftTree, law: TargetLaw, chance: Chance) -> Acceptance:
    """Judge the chain as a whole; node i + 1 is link i."""
    inner, last = range(tree.num_drafts), tree.num_drafts
    links = [Link(tree.tokens[node + 1], law(node), tree.laws[node]) for node in inner]
    block = verify_block(links, law(last), chance)
    coins: list[Coin | None] = [None]
    for node, link in enumerate(links, start=1):
        trial = block.trials[node - 1]
        coins.append(
            Coin(
                target_prob=float(link.law[link.token]),
                accept_prob=block.accept_probs[node - 1],
                draw=None if trial is None else trial.draw,
                verdict=Verdict.ACCEPTED if node <= block.num_kept else Verdict.REFUSED,
            )
        )
    return Acceptance(tree, tuple(range(block.num_kept + 1)), block.bonus, tuple(coins))


def _check_fit(tree: DraftTree, rule: Rule) -> None:
    facts = FACTS[rule]
    if facts.is_for_chains and len(tree.inner_nodes) < tree.num_drafts:
        raise TreeError(f"rule {rule} over a tree with branches", expected="a chain")
    if facts.any_tree or not tree.inner_nodes or facts.siblings == tree.siblings:
        return
    raise TreeError(
        f"rule {rule} over {tree.siblings} siblings", expected=f"{facts.siblings} siblings"
    )

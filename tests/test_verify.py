"""The walk over a scored tree: its coins by hand, and its law by taking every branch."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made import EXAMPLES
from torch import Tensor
from toys import AlwaysZero, enumerate_outcomes, total_variation

from eagle_core.errors import TreeError
from eagle_core.rules import Rule
from eagle_core.sampling import Chance, TargetLaw, without
from eagle_core.trace import Verdict
from eagle_core.tree import DraftTree
from eagle_core.verify import Acceptance, choose, walk

SAMPLED: tuple[Rule, ...] = ("one_hot", "without_replacement")


def law_of(*probs: float) -> Tensor:
    law = torch.tensor(probs, dtype=torch.float64)
    return law / law.sum()


def tree_of(
    tokens: Sequence[int],
    parents: Sequence[int | None],
    *,
    laws: dict[int, Tensor] | None = None,
) -> DraftTree:
    kind = "one_hot" if laws is None else "without_replacement"
    return DraftTree(tuple(tokens), tuple(parents), (0.0,) * len(tokens), kind, laws or {})


def star(*children: int, draft: Tensor | None = None) -> DraftTree:
    """A root with these children, drawn from `draft` where one is given."""
    laws = None if draft is None else {0: draft}
    return tree_of((9, *children), (None, *(0 for _ in children)), laws=laws)


def laws_by_node(*laws: Tensor) -> TargetLaw:
    return lambda node: laws[min(node, len(laws) - 1)]


class Scripted:
    """A chance with its uniform numbers written down; it draws a law's first possible token."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = iter(numbers)

    def uniform(self) -> float:
        return next(self._numbers)

    def draw(self, law: Tensor, *, tokens: Tensor | None = None) -> int:
        return int(law.nonzero()[0])

    def ahead(self, num_tokens: int) -> Scripted:
        return self


class Unused:
    """A chance that must not be asked."""

    def uniform(self) -> float:
        raise AssertionError("a coin was flipped")

    def draw(self, law: Tensor, *, tokens: Tensor | None = None) -> int:
        raise AssertionError("a token was drawn")

    def ahead(self, num_tokens: int) -> Unused:
        return self


# One node, every branch: the committed token has the target's law, whatever was drafted.


def drawn_without_replacement(law: Tensor, count: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every ordered draw of up to `count` tokens and its probability, from the definition."""
    possible = [token for token, prob in enumerate(law.tolist()) if prob > 0]
    for tokens in itertools.permutations(possible, min(count, len(possible))):
        prob, left = 1.0, 1.0
        for token in tokens:
            prob *= float(law[token]) / left
            left -= float(law[token])
            if left < 1e-12:
                break
        yield tokens, prob


def first_token_law(tree: DraftTree, target: Tensor, rule: Rule) -> dict[tuple[int, ...], float]:
    def play(chance: Chance) -> tuple[int, ...]:
        return walk(tree, laws_by_node(target), rule=rule, chance=chance).committed[:1]

    return enumerate_outcomes(play)


def as_law(law: Tensor) -> dict[tuple[int, ...], float]:
    return {(token,): prob for token, prob in enumerate(law.tolist()) if prob > 0}


weights = st.integers(0, 6)
laws = st.lists(weights, min_size=4, max_size=4).filter(any).map(lambda row: law_of(*row))


@EXAMPLES
@given(laws, st.permutations(range(4)), st.integers(1, 4))
def test_one_hot_siblings_leave_the_target_law(
    target: Tensor, order: list[int], count: int
) -> None:
    reached = first_token_law(star(*order[:count]), target, "one_hot")
    assert total_variation(reached, as_law(target)) < 1e-12


@settings(EXAMPLES, max_examples=25)
@given(laws, laws, st.integers(1, 3))
def test_siblings_drawn_without_replacement_leave_the_target_law(
    target: Tensor, draft: Tensor, count: int
) -> None:
    reached: dict[tuple[int, ...], float] = defaultdict(float)
    for tokens, prob in drawn_without_replacement(draft, count):
        tree = star(*tokens, draft=draft)
        for text, share in first_token_law(tree, target, "without_replacement").items():
            reached[text] += prob * share
    assert total_variation(reached, as_law(target)) < 1e-9


@pytest.mark.parametrize("rule", [*SAMPLED, "greedy"])
def test_an_undrafted_token_follows_the_rule_alone(rule: Rule) -> None:
    target = law_of(1, 5, 3)
    reached = enumerate_outcomes(lambda chance: (choose(target, rule=rule, chance=chance),))
    expected = {(1,): 1.0} if rule == "greedy" else as_law(target)
    assert total_variation(reached, expected) < 1e-12


# Two levels: what follows an accepted token has the law of its own node.

ROOT_LAW = law_of(5, 3, 2)
NODE_LAWS = (ROOT_LAW, law_of(1, 1, 8), law_of(6, 2, 2), law_of(0, 7, 3), law_of(2, 6, 2))


def test_the_bonus_below_an_accepted_last_sibling_comes_from_its_own_law() -> None:
    """The sibling before it was refused, which must not touch the law below the kept one."""
    tree = star(0, 1)

    def play(chance: Chance) -> tuple[int, ...]:
        return walk(tree, laws_by_node(*NODE_LAWS), rule="one_hot", chance=chance).committed

    reached = enumerate_outcomes(play)
    for first, node in ((0, 1), (1, 2)):
        below = {text[1:]: p for text, p in reached.items() if text[0] == first}
        mass = sum(below.values())
        assert mass == pytest.approx(float(ROOT_LAW[first]))
        share = {text: prob / mass for text, prob in below.items()}
        assert total_variation(share, as_law(NODE_LAWS[node])) < 1e-12


@pytest.mark.parametrize("rule", SAMPLED)
def test_two_levels_of_siblings_leave_the_law_of_two_tokens(rule: Rule) -> None:
    # root ─┬─ 0 ─┬─ 2       the law below a node depends on the node
    #       └─ 1  └─ 1
    drafts = {0: law_of(2, 5, 3), 1: law_of(3, 3, 4)}
    after = {0: NODE_LAWS[1], 1: NODE_LAWS[2], 2: NODE_LAWS[4]}  # by first committed token

    def trees() -> Iterator[tuple[DraftTree, float]]:
        if rule == "one_hot":
            yield tree_of((9, 0, 1, 2, 1), (None, 0, 0, 1, 1)), 1.0
            return
        for (one, first), (two, second) in itertools.product(
            drawn_without_replacement(drafts[0], 2), drawn_without_replacement(drafts[1], 2)
        ):
            yield tree_of((9, *one, *two), (None, 0, 0, 1, 1), laws=drafts), first * second

    reached: dict[tuple[int, ...], float] = defaultdict(float)
    for tree, prob in trees():
        law = laws_by_node(
            ROOT_LAW, *(after[tree.tokens[n]] for n in (1, 2)), law_of(1, 1, 1), law_of(1, 1, 1)
        )

        def play(chance: Chance, tree: DraftTree = tree, law: TargetLaw = law) -> tuple[int, ...]:
            return walk(tree, law, rule=rule, chance=chance).committed[:2]

        for text, share in enumerate_outcomes(play).items():
            reached[text] += prob * share

    # a text of one token ended at the root; its second token is the target's next step
    completed: dict[tuple[int, ...], float] = defaultdict(float)
    for text, prob in reached.items():
        for (token,), share in as_law(after[text[0]]).items():
            if len(text) == 1:
                completed[(*text, token)] += prob * share
        if len(text) == 2:
            completed[text] += prob
    expected = {
        (one, two): float(ROOT_LAW[one] * after[one][two])
        for one, two in itertools.product(range(3), repeat=2)
    }
    assert total_variation(completed, expected) < 1e-12


# Coins, by hand.


def coins_of(taken: Acceptance) -> list[tuple[float, float | None, str]]:
    return [
        (pytest.approx(coin.accept_prob), coin.draw, coin.verdict.value)  # type: ignore[misc]
        for coin in taken.coins[1:]
        if coin is not None
    ]


def test_one_hot_coins_have_the_targets_chance_among_what_is_left() -> None:
    """(0.5, 0.3, 0.2): 0 by 0.5; then 1 by 0.3 ÷ 0.5; then 2 for certain."""
    taken = walk(
        star(0, 1, 2),
        laws_by_node(law_of(5, 3, 2)),
        rule="one_hot",
        chance=Scripted(0.5, 0.9, 0.99),
    )
    assert coins_of(taken) == [
        (0.5, 0.5, "refused"),
        (0.6, 0.9, "refused"),
        (1.0, 0.99, "accepted"),
    ]
    assert (taken.path, taken.tokens) == ((0, 3), (9, 2))


def test_drawn_coins_have_the_ratio_of_both_laws_after_each_refusal() -> None:
    """Target (0.2, 0.5, 0.3), draft (0.6, 0.3, 0.1), drawn 0, 1, 2.

    0 by 0.2 ÷ 0.6. Refused: the excess (0, 0.2, 0.2) makes the target (0, ½, ½), the draft is
    (0, ¾, ¼). 1 by ½ ÷ ¾. Refused: the excess is all at 2, and so is the draft.
    """
    draft = law_of(6, 3, 1)
    taken = walk(
        star(0, 1, 2, draft=draft),
        laws_by_node(law_of(2, 5, 3)),
        rule="without_replacement",
        chance=Scripted(0.34, 0.67, 0.999),
    )
    assert coins_of(taken) == [
        (1 / 3, 0.34, "refused"),
        (2 / 3, 0.67, "refused"),
        (1.0, 0.999, "accepted"),
    ]


def test_independent_coins_keep_the_draft_law_and_refuse_a_token_that_comes_again() -> None:
    """Target (0.2, 0.5, 0.3), draft (0.6, 0.3, 0.1), drawn 0, 0, 1.

    0 by 0.2 ÷ 0.6. Refused: the excess makes the target (0, ½, ½). 0 again: never. Refused: the
    excess (0, 0.2, 0.4) makes it (0, ⅓, ⅔). 1 by ⅓ ÷ 0.3, so for certain.
    """
    tree = replace(star(0, 0, 1, draft=law_of(6, 3, 1)), siblings="iid")
    taken = walk(tree, laws_by_node(law_of(2, 5, 3)), rule="iid", chance=Scripted(0.34, 0.0, 0.999))
    assert coins_of(taken) == [
        (1 / 3, 0.34, "refused"),
        (0.0, 0.0, "refused"),
        (1.0, 0.999, "accepted"),
    ]


def test_seeded_matching_keeps_the_child_that_the_target_drew_and_flips_no_coin() -> None:
    """The target draws 1; its chances are those of one-hot siblings."""
    taken = walk(star(0, 1, 2), laws_by_node(law_of(0, 3, 2)), rule="seeded", chance=Scripted())
    assert coins_of(taken) == [
        (0.0, None, "refused"),
        (0.6, None, "accepted"),
        (1.0, None, "not_reached"),
    ]
    taken = walk(star(0, 2), laws_by_node(law_of(0, 3, 2)), rule="seeded", chance=Scripted())
    assert (taken.path, taken.bonus) == ((0,), 1)


@pytest.mark.parametrize(
    ("law", "kept"),
    [
        ((91, 8.9, 0.1), False),  # sure: the threshold is ε = 0.09
        ((90, 10, 0), True),
        ((50, 5, 45), False),  # between two: still 0.09, as exp(-entropy) · 0.3 = 0.13
        ((1,) * 20, True),  # unsure: 0.05 again, but the threshold is 0.3 ÷ 20
    ],
)
def test_typical_acceptance_keeps_what_is_above_the_published_threshold(
    law: tuple[float, ...], kept: bool
) -> None:
    taken = walk(star(1), laws_by_node(law_of(*law)), rule="lossy_typical", chance=Scripted())
    assert taken.num_accepted == kept
    assert coins_of(taken) == [(float(kept), None, "accepted" if kept else "refused")]


def chain_of(*tokens: int, draft: Tensor) -> DraftTree:
    """A root with a chain below it, each token drawn from `draft`."""
    parents = (None, *range(len(tokens)))
    laws = dict.fromkeys(range(len(tokens)), draft)
    return DraftTree((9, *tokens), parents, (0.0,) * (len(tokens) + 1), "iid", laws)


BLOCK = chain_of(0, 1, draft=law_of(5, 5))
BLOCK_LAWS = laws_by_node(law_of(2, 8), law_of(1, 3), law_of(7, 3))
#   weights: 0.2 ÷ 0.5 = 0.4, then min(1, 0.4 · 0.75 ÷ 0.5) = 0.6: the second token saves the first.
#   Should the block end with the first: the excess 0.4·(0.25, 0.75) - (0.5, 0.5) has nothing.


def test_a_block_is_judged_from_its_end_and_kept_whole_with_its_last_coin() -> None:
    taken = walk(BLOCK, BLOCK_LAWS, rule="block", chance=Scripted(0.59))
    assert coins_of(taken) == [(0.0, None, "accepted"), (0.6, 0.59, "accepted")]
    assert (taken.path, taken.bonus) == ((0, 1, 2), 0)


def test_a_block_that_loses_all_its_coins_leaves_the_excess_of_its_first_place() -> None:
    taken = walk(BLOCK, BLOCK_LAWS, rule="block", chance=Scripted(0.61, 0.0))
    assert coins_of(taken) == [(0.0, 0.0, "refused"), (0.6, 0.61, "refused")]
    assert (taken.path, taken.bonus) == ((0,), 1)


def test_a_block_cut_short_flips_no_coin_beyond_the_cut() -> None:
    cut = walk(BLOCK, BLOCK_LAWS, rule="block", chance=Scripted(0.59)).first(1)
    assert coins_of(cut) == [(0.0, None, "accepted"), (0.6, None, "not_reached")]


def test_a_block_of_branches_is_refused() -> None:
    tree = replace(star(0, 1, draft=law_of(1, 1)), siblings="iid")
    with pytest.raises(TreeError, match="rule block over a tree with branches; expected a chain"):
        walk(tree, laws_by_node(law_of(1, 1)), rule="block", chance=Scripted())


def test_after_a_drawn_refusal_the_bonus_comes_from_the_excess_alone() -> None:
    """Target (0.2, 0.5, 0.3) over draft (0.6, 0.4, 0): the excess is (0, 0.1, 0.3)."""
    tree = star(0, draft=law_of(6, 4, 0))

    def play(chance: Chance) -> tuple[int, ...]:
        taken = walk(tree, laws_by_node(law_of(2, 5, 3)), rule="without_replacement", chance=chance)
        return (taken.num_accepted, *taken.committed[:1])

    refused = {text: p for text, p in enumerate_outcomes(play).items() if text[0] == 0}
    assert refused == {
        (0, 1): pytest.approx(2 / 3 * 1 / 4),
        (0, 2): pytest.approx(2 / 3 * 3 / 4),
    }


def test_after_a_one_hot_refusal_the_bonus_is_another_token() -> None:
    taken = walk(star(0), laws_by_node(law_of(5, 3, 2)), rule="one_hot", chance=Scripted(0.5))
    assert (taken.path, taken.bonus) == ((0,), 1)


@pytest.mark.parametrize("rule", SAMPLED)
def test_a_draw_equal_to_the_chance_is_refused(rule: Rule) -> None:
    draft = law_of(1, 0, 0) if rule == "without_replacement" else None
    target = laws_by_node(law_of(1, 1, 2))
    for draw, num_accepted in ((0.25, 0), (0.24999, 1)):
        taken = walk(star(0, draft=draft), target, rule=rule, chance=Scripted(draw))
        assert taken.num_accepted == num_accepted


@pytest.mark.parametrize("rule", SAMPLED)
def test_a_draw_of_zero_keeps_nothing_that_the_target_rules_out(rule: Rule) -> None:
    draft = law_of(1, 1, 0) if rule == "without_replacement" else None
    taken = walk(
        star(0, draft=draft), laws_by_node(law_of(0, 1, 1)), rule=rule, chance=AlwaysZero()
    )
    assert taken.path == (0,)
    assert taken.bonus in (1, 2)


def test_nodes_not_reached_show_the_chance_they_would_have_had() -> None:
    # root ─┬─ 0 ── 2      0 is kept at once, so 1 is never tried, nor what hangs below it
    #       └─ 1 ── 0
    tree = tree_of((9, 0, 1, 2, 0), (None, 0, 0, 1, 2))
    taken = walk(tree, laws_by_node(*NODE_LAWS), rule="one_hot", chance=Scripted(0.1, 0.99))
    assert coins_of(taken) == [
        (0.5, 0.1, "accepted"),
        (0.6, None, "not_reached"),
        (0.8, 0.99, "refused"),
        (0.6, None, "not_reached"),
    ]
    assert [coin.target_prob for coin in taken.coins[1:] if coin] == pytest.approx(
        [0.5, 0.3, 0.8, 0.6]
    )
    assert taken.coins[0] is None


def test_drawn_nodes_not_reached_show_the_chance_after_their_siblings_refusal() -> None:
    tree = star(0, 1, draft=law_of(6, 3, 1))
    target = laws_by_node(law_of(2, 5, 3))
    taken = walk(tree, target, rule="without_replacement", chance=Scripted(0.1))
    assert coins_of(taken) == [(1 / 3, 0.1, "accepted"), (2 / 3, None, "not_reached")]


def test_greedy_keeps_the_targets_first_choice_and_asks_no_chance() -> None:
    # root ─┬─ 2 ── 0
    #       └─ 0 ── 2       modes: 0 at the root, 2 below node 2, 1 below node 4
    tree = tree_of((9, 2, 0, 0, 2), (None, 0, 0, 1, 2))
    modes = (law_of(5, 3, 2), law_of(1, 1, 8), law_of(2, 2, 6), law_of(1, 7, 2), law_of(2, 6, 2))
    taken = walk(tree, laws_by_node(*modes), rule="greedy", chance=Unused())
    assert (taken.path, taken.tokens, taken.bonus) == ((0, 2, 4), (9, 0, 2), 1)
    assert coins_of(taken) == [
        (0.0, None, "refused"),
        (1.0, None, "accepted"),
        (0.0, None, "not_reached"),
        (1.0, None, "accepted"),
    ]
    assert taken.committed == (0, 2, 1)


@pytest.mark.parametrize("rule", [*SAMPLED, "greedy"])
def test_target_and_draft_laws_are_left_as_they_were(rule: Rule) -> None:
    target, draft = law_of(5, 3, 2), law_of(2, 2, 1)
    before = target.clone(), draft.clone()
    tree = star(0, 1, 2, draft=draft if rule == "without_replacement" else None)
    walk(tree, laws_by_node(target), rule=rule, chance=Scripted(0.999, 0.999, 0.999, 0.999))
    assert torch.equal(target, before[0])
    assert torch.equal(draft, before[1])


def test_a_rule_that_does_not_fit_the_siblings_is_refused() -> None:
    drawn, top = star(0, draft=law_of(1, 1, 1)), star(0)
    target = laws_by_node(law_of(1, 1, 1))
    with pytest.raises(TreeError, match="over without_replacement siblings; expected one_hot"):
        walk(drawn, target, rule="one_hot", chance=AlwaysZero())
    with pytest.raises(TreeError, match="expected without_replacement siblings"):
        walk(top, target, rule="without_replacement", chance=AlwaysZero())


@pytest.mark.parametrize("rule", [*SAMPLED, "greedy"])
def test_greedy_fits_every_tree_and_every_rule_fits_a_root_alone(rule: Rule) -> None:
    target = laws_by_node(law_of(1, 2, 1))
    assert walk(DraftTree.root_only(9), target, rule=rule, chance=AlwaysZero()).bonus == 1
    drawn = star(1, draft=law_of(1, 1, 1))
    assert walk(drawn, target, rule="greedy", chance=Unused()).path == (0, 1)


# Cutting an acceptance.

#   root 9 ─┬─ 1, refused
#           └─ 0 ── 1 ── 2, all kept
KEPT = walk(
    tree_of((9, 1, 0, 1, 2), (None, 0, 0, 2, 3)),
    laws_by_node(
        law_of(8, 1, 1), law_of(1, 1, 1), law_of(1, 8, 1), law_of(1, 1, 8), law_of(8, 1, 1)
    ),
    rule="one_hot",
    chance=Scripted(0.99, 0.0, 0.0, 0.0),
)


def test_the_acceptance_to_cut_is_a_path_of_three_and_a_bonus() -> None:
    assert (KEPT.path, KEPT.committed) == ((0, 2, 3, 4), (0, 1, 2, 0))


@pytest.mark.parametrize("num_tokens", [4, 5, 99])
def test_room_for_all_cuts_nothing(num_tokens: int) -> None:
    assert KEPT.first(num_tokens) is KEPT


@pytest.mark.parametrize(("num_tokens", "path"), [(3, (0, 2, 3, 4)), (2, (0, 2, 3)), (1, (0, 2))])
def test_a_cut_acceptance_ends_in_its_last_token_and_has_no_bonus(
    num_tokens: int, path: tuple[int, ...]
) -> None:
    cut = KEPT.first(num_tokens)
    assert cut.path == path
    assert cut.tokens == (9, 0, 1, 2)[: num_tokens + 1]
    assert cut.committed == KEPT.committed[:num_tokens]
    assert (cut.bonus, cut.num_accepted) == (None, num_tokens)


def test_what_a_cut_drops_was_never_reached() -> None:
    cut = KEPT.first(1)
    verdicts = [coin.verdict for coin in cut.coins[1:] if coin]
    assert verdicts == [
        Verdict.REFUSED,
        Verdict.ACCEPTED,
        Verdict.NOT_REACHED,
        Verdict.NOT_REACHED,
    ]
    assert [coin.draw for coin in cut.coins[1:] if coin] == [0.99, 0.0, None, None]


def test_a_sibling_refused_beyond_the_cut_was_never_reached() -> None:
    # root ── 0 ─┬─ 1, refused      cut after node 1, the token 0
    #            └─ 2, kept
    tree = tree_of((9, 0, 1, 2), (None, 0, 1, 1))
    laws = laws_by_node(law_of(8, 1, 1), law_of(1, 1, 8))
    cut = walk(tree, laws, rule="one_hot", chance=Scripted(0.0, 0.9, 0.0)).first(1)
    assert [coin.verdict.value for coin in cut.coins[1:] if coin] == [
        *("accepted", "not_reached", "not_reached"),
    ]


def test_a_law_without_a_token_is_scaled_up_again() -> None:
    law = law_of(5, 3, 2)
    assert without(law, 0).tolist() == pytest.approx([0.0, 0.6, 0.4])
    assert law.tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert without(law_of(0, 1, 0), 1).tolist() == [0.0, 0.0, 0.0]

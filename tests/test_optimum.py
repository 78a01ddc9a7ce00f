"""The best fixed tree against every tree there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from eagle_core.cost import UNMEASURED, Curve
from eagle_core.optimum import Splits, best_tree
from eagle_core.shapes import Ranks, plan_of, shape_of

RATES = ((0.6, 0.2, 0.1), (0.5, 0.3, 0.05), (0.4, 0.1, 0.02))


def all_trees(num_drafts: int, depth: int, width: int) -> Iterator[frozenset[Ranks]]:
    """Every set of nodes that has each node's parent and earlier sibling."""
    trees = {frozenset[Ranks]()}
    for _ in range(num_drafts):
        trees = {tree | {node} for tree in trees for node in _next_nodes(tree, depth, width)}
    return iter(trees)


def _next_nodes(tree: frozenset[Ranks], depth: int, width: int) -> Iterator[Ranks]:
    for parent in [(), *tree]:
        rank = sum(1 for node in tree if len(node) == len(parent) + 1 and node[:-1] == parent)
        if rank < width and len(parent) < depth:
            yield (*parent, rank)


def tau_of(tree: frozenset[Ranks]) -> float:
    def chance(node: Ranks) -> float:
        found = 1.0
        for depth, rank in enumerate(node):
            found *= RATES[min(depth, len(RATES) - 1)][rank]
        return found

    return 1.0 + sum(map(chance, tree))


@pytest.mark.parametrize(("num_nodes", "depth"), [*product(range(1, 7), range(5))])
def test_no_tree_of_that_size_and_depth_keeps_more(num_nodes: int, depth: int) -> None:
    splits = Splits(RATES, depth, 8)
    taus = [tau_of(tree) for tree in all_trees(num_nodes - 1, depth, 3)]
    if not taus:
        assert splits.tau(num_nodes) < 0
        return
    assert splits.tau(num_nodes) == pytest.approx(max(taus))
    assert tau_of(frozenset(splits.nodes(num_nodes))) == pytest.approx(max(taus))


def test_a_chain_is_the_best_of_the_trees_one_node_wide() -> None:
    assert Splits(RATES, 4, 8, width=1).nodes(4) == [(0,), (0, 0), (0, 0, 0)]


def test_of_all_sizes_the_one_with_most_tokens_per_millisecond_is_taken() -> None:
    best = best_tree(UNMEASURED, max_nodes=6)
    prices = UNMEASURED.prices(512)
    rates = {}
    for num_nodes in range(1, 7):
        for depth in range(6):
            splits = Splits([(0.44, 0.13, 0.06, 0.04)], depth, 6)
            if splits.tau(num_nodes) > 0:
                plan = plan_of(splits.nodes(num_nodes))
                inner = [sum(bool(plan.children[n]) for n in level) for level in plan.levels]
                ms = prices.step_ms(num_nodes, [count for count in inner if count])
                rates[plan.parents] = splits.tau(num_nodes) / ms
    assert best.plan.parents in rates
    assert best.rate == pytest.approx(max(rates.values()), rel=0.05)


def test_where_rows_cost_too_much_the_best_tree_is_a_root_alone() -> None:
    steep = Curve((1, 2, 100), (10.0, 30.0, 2000.0))
    best = best_tree(replace(UNMEASURED, verify=(steep, steep)))
    assert best.plan.parents == (None,)
    assert best.tau == 1.0
    assert best.rate == pytest.approx(1 / 12.0)


def test_where_rows_cost_nothing_the_best_tree_is_the_largest() -> None:
    flat = Curve((1,), (100.0,))
    free = replace(UNMEASURED, verify=(flat, flat), level=Curve((1,), (1e-3,)), first_ms=1e-3)
    assert best_tree(free, max_nodes=20).plan.num_drafts == 19
    assert best_tree(free, is_chain=True).plan.parents == (None, *range(8))


@pytest.mark.parametrize("is_chain", [False, True])
@pytest.mark.parametrize("num_kept", [(27, 8, 4, 0), (27, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0)])
def test_choices_that_were_never_kept_are_in_nobodys_way(
    num_kept: tuple[int, ...], is_chain: bool
) -> None:
    seen = tuple((6000, kept) for kept in num_kept)
    best = best_tree(replace(UNMEASURED, kept_by_rank=(seen, seen)), is_chain=is_chain)
    assert best.tau >= 1.0
    assert all(0 <= rank < 4 for ranks in shape_of(best.plan) for rank in ranks)

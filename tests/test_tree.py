"""Draft trees and plans: tokens and parents are the facts, all else follows from them."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES

from eagle_core.errors import TreeError
from eagle_core.tree import DraftTree, TreePlan, children_of, depths_of, path_in

# root ── the ─┬─ cat ── sat
#      └─ a    └─ dog
PARENTS = (None, 0, 0, 1, 1, 3)
TREE = DraftTree(
    tokens=(10, 11, 12, 13, 14, 15),
    parents=PARENTS,
    log_probs=(0.0, -0.5, -1.0, -0.25, -2.0, -0.125),
)


@st.composite
def any_parents(draw: st.DrawFn) -> tuple[int | None, ...]:
    """Parents that come before their children, in any shape."""
    size = draw(st.integers(1, 12))
    return (None, *(draw(st.integers(0, node - 1)) for node in range(1, size)))


def test_everything_follows_from_the_parents() -> None:
    assert len(TREE) == 6
    assert TREE.num_drafts == 5
    assert TREE.depths == (0, 1, 1, 2, 2, 3)
    assert TREE.children == ((1, 2), (3, 4), (), (5,), (), ())
    assert TREE.inner_nodes == (0, 1, 3)
    assert TREE.path_to(5) == (0, 1, 3, 5)
    assert TREE.tokens_on(TREE.path_to(5)) == (10, 11, 13, 15)


def test_a_nodes_probability_is_given_its_path_alone() -> None:
    assert TREE.prob(3) == math.exp(-0.25)
    assert TREE.prob(0) == 1.0


def test_the_tree_of_plain_decoding_is_its_root() -> None:
    tree = DraftTree.root_only(7)
    assert (tree.tokens, tree.num_drafts, tree.inner_nodes) == ((7,), 0, ())


@EXAMPLES
@given(any_parents())
def test_paths_depths_and_children_agree(parents: tuple[int | None, ...]) -> None:
    depths, children = depths_of(parents), children_of(parents)
    assert sorted(child for row in children for child in row) == list(range(1, len(parents)))
    for node, parent in enumerate(parents):
        path = path_in(parents, node)
        assert path[0] == 0
        assert path[-1] == node
        assert len(path) == depths[node] + 1
        assert parent is None or (node in children[parent] and path[-2] == parent)


@pytest.mark.parametrize(
    ("parents", "said"),
    [
        ((0, 0), "the root has parent 0"),
        ((None, 1), "node 1 has parent 1"),
        ((None, 2, 0), "node 1 has parent 2"),
        ((None, None), "node 1 has parent None"),
        ((None, -1), "node 1 has parent -1"),
    ],
)
def test_parents_that_are_no_tree_are_refused(parents: tuple[int | None, ...], said: str) -> None:
    for make in (TreePlan, lambda p: DraftTree((1,) * len(p), p, (0.0,) * len(p))):
        with pytest.raises(TreeError, match=said):
            make(parents)


def test_a_tree_without_nodes_or_with_columns_of_other_lengths_is_refused() -> None:
    with pytest.raises(TreeError, match="without nodes"):
        DraftTree((), (), ())
    with pytest.raises(TreeError, match="2 tokens, 1 parents and 2 log-probabilities"):
        DraftTree((1, 2), (None,), (0.0, 0.0))


@pytest.mark.parametrize("siblings", ["without_replacement", "iid"])
def test_drawn_siblings_need_the_law_they_were_drawn_from(siblings: str) -> None:
    law = torch.full((20,), 0.05)
    laws = dict.fromkeys((0, 1, 3), law)
    dataclasses.replace(TREE, siblings=siblings, laws=laws)
    del laws[3]
    with pytest.raises(TreeError, match=r"inner nodes \[3\]"):
        dataclasses.replace(TREE, siblings=siblings, laws=laws)


def test_trees_and_plans_are_frozen() -> None:
    for frozen in (TREE, TreePlan(PARENTS)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            frozen.parents = (None,)  # type: ignore[misc]


def test_a_plan_knows_its_levels() -> None:
    plan = TreePlan(PARENTS)
    assert (plan.num_drafts, plan.depth) == (5, 3)
    assert plan.levels == ((0,), (1, 2), (3, 4), (5,))
    assert plan.children == TREE.children


def test_a_plan_that_jumps_between_levels_is_refused() -> None:
    with pytest.raises(TreeError, match="level by level"):
        TreePlan((None, 0, 1, 0))


@pytest.mark.parametrize(
    ("depth", "left"),
    [(9, PARENTS), (3, PARENTS), (2, PARENTS[:5]), (1, PARENTS[:3]), (0, (None,)), (-4, (None,))],
)
def test_a_plan_within_a_depth_loses_exactly_the_deeper_nodes(
    depth: int, left: tuple[int | None, ...]
) -> None:
    plan = TreePlan(PARENTS, "iid").within(depth)
    assert (plan.parents, plan.siblings) == (left, "iid")

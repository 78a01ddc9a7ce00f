"""Named tree plans: EAGLE's static tree, its best nodes, and chains."""

from __future__ import annotations

import pytest

from eagle_core.dynamic import DynamicPlan
from eagle_core.errors import OptionError
from eagle_core.plans import TREE_SIZES, chain, plan_named, static_tree
from eagle_core.shapes import read_shape, shape_name, shape_of
from eagle_core.tree import TreePlan, path_in

# `mc_sim_7b_63` of EAGLE-1's released code: nodes by the rank of each choice from the root down.
PUBLISHED = (
    {"0", "1", "2", "3"}
    | {"00", "01", "02", "10", "11", "20", "21", "30"}
    | {"000", "001", "002", "010", "011", "020", "021", "100"}
    | {"0000", "0001", "0002", "00000", "00001"}
)


def ranks_of(plan: TreePlan) -> set[str]:
    """Every drafted node as its ranks from the root down, `02` the first child's third."""
    rank = {child: i for row in plan.children for i, child in enumerate(row)}
    paths = [path_in(plan.parents, node)[1:] for node in range(1, len(plan.parents))]
    return {"".join(str(rank[node]) for node in path) for path in paths}


def test_the_tree_of_25_is_the_published_one() -> None:
    plan = static_tree(25)
    assert ranks_of(plan) == PUBLISHED
    assert [len(level) for level in plan.levels] == [1, 4, 8, 8, 3, 2]


@pytest.mark.parametrize("size", range(1, 25))
def test_a_smaller_tree_is_the_next_one_without_one_node(size: int) -> None:
    smaller, larger = ranks_of(static_tree(size)), ranks_of(static_tree(size + 1))
    assert len(smaller) == size
    assert smaller < larger


@pytest.mark.parametrize("size", range(1, 26))
def test_no_choice_is_in_a_tree_before_the_better_ones_beside_it(size: int) -> None:
    nodes = ranks_of(static_tree(size))
    better = {node[:-1] + str(int(node[-1]) - 1) for node in nodes if node[-1] != "0"}
    assert better <= nodes


def test_a_chain_is_one_node_a_level() -> None:
    assert chain(3).parents == (None, 0, 1, 2)
    assert chain(3, "without_replacement").siblings == "without_replacement"


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("chain:1", chain(1)),
        ("chain:32", chain(32)),
        ("tree:1", static_tree(1)),
        *((f"tree:{size}", static_tree(size)) for size in TREE_SIZES),
        ("ranks:0.00.000", chain(3)),
        ("ranks:01.0.00.1", TreePlan((None, 0, 0, 1, 1))),
    ],
)
def test_a_name_stands_for_its_plan(name: str, plan: TreePlan) -> None:
    assert plan_named(name, siblings="one_hot") == plan
    assert plan_named(name, siblings="iid") == TreePlan(plan.parents, "iid")


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("dynamic:59", DynamicPlan(59, depth=6, top_k=10)),
        ("dynamic:24:4", DynamicPlan(24, depth=4, top_k=10)),
        ("dynamic:128:10:16", DynamicPlan(128, depth=10, top_k=16)),
    ],
)
def test_a_dynamic_tree_has_the_heads_best_children_whatever_is_asked(
    name: str, plan: DynamicPlan
) -> None:
    assert plan_named(name, siblings="iid") == plan
    assert plan.siblings == "one_hot"


@pytest.mark.parametrize(
    "name",
    [
        *("", "chain", "chain:", "chain:0", "chain:33", "chain:-1", "chain:3.0", "chain:٣"),
        *("tree:0", "tree:26", "tree: 8", "tree:8 ", "Tree:8", "auto", "bush:3", "chain:1:2"),
        *("best", "dynamic", "dynamic:", "dynamic:0", "dynamic:129", "dynamic:9:11", "dynamic:9:0"),
        *(
            "dynamic:9:5:17",
            "dynamic:9:5:5:5",
            "dynamic:9:",
            "dynamic::5",
            "dynamic:٣",
            "dynamic:-1",
        ),
        "tree:" + "9" * 5_000,
    ],
)
def test_another_name_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(OptionError, match="expected auto, best, chain:1 to chain:32, tree:1 to"):
        plan_named(name, siblings="one_hot")


@pytest.mark.parametrize("plan", [chain(1), chain(32), *map(static_tree, range(1, 26))])
def test_every_named_tree_can_be_written_out_node_by_node(plan: TreePlan) -> None:
    name = shape_name(shape_of(plan))
    assert plan_named(name, siblings="one_hot") == plan
    assert shape_name(read_shape(name)) == name

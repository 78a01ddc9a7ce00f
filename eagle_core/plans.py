"""The tree plans that have names.

EAGLE's static tree has 25 drafts on five levels, 4/8/8/3/2 of them (EAGLE-1, appendix A.1). A
smaller static tree is made of its best nodes. Any other static tree is written out node by node.
What `auto` and `best` stand for depends on the machine, and is not known here.
"""

from __future__ import annotations

import re
from functools import cache
from math import prod

from eagle_core.dynamic import DynamicPlan
from eagle_core.errors import OptionError
from eagle_core.shapes import EXAMPLE, MAX_DEPTH, PREFIX, Ranks, plan_of, read_shape
from eagle_core.tree import SiblingKind, TreePlan

MAX_CHAIN = MAX_DEPTH
AUTO = "auto"  # a tree of its own for each step, as large as pays
BEST = "best"  # the best fixed tree
OF_THIS_MACHINE = (AUTO, BEST)
DYNAMIC = "dynamic:"
MAX_DYNAMIC = (128, 10, 16)  # drafts, depth, children

# Children of each inner node of EAGLE's static tree.
_NUM_CHILDREN: dict[Ranks, int] = {
    (): 4,
    (0,): 3,
    (1,): 2,
    (2,): 2,
    (3,): 1,
    (0, 0): 3,
    (0, 1): 2,
    (0, 2): 2,
    (1, 0): 1,
    (0, 0, 0): 3,
    (0, 0, 0, 0): 2,
}

# How often the child of each rank was the one kept, as `python -m eagle_core.bench` prints it for
# the shipped head over MT-bench with tree:25. It decides the order of the static tree's nodes.
_RANK_WEIGHTS = (0.44, 0.13, 0.06, 0.04)

TREE_SIZES = (8, 12, 25)


def plan_named(name: str, *, siblings: SiblingKind) -> TreePlan | DynamicPlan:
    """`chain:5` is five drafts in a row; `tree:12` the 12 best nodes of EAGLE's static tree;
    `dynamic:24:6:8` EAGLE-2's tree of 24 drafts, 6 deep, the 8 best of a level expanded to 8
    children each; `ranks:0.1.00` has just these nodes, see `eagle_core.shapes`. A dynamic tree's
    siblings are the head's best, whatever is asked for."""
    if name.startswith(PREFIX):
        return plan_of(read_shape(name), siblings)
    named = re.fullmatch("(chain|tree):([0-9]{1,2})", name)
    kind, size = (named[1], int(named[2])) if named else ("", 0)
    if kind == "chain" and 1 <= size <= MAX_CHAIN:
        return chain(size, siblings)
    if kind == "tree" and 1 <= size <= TREE_SIZES[-1]:
        return static_tree(size, siblings)
    sizes = [*map(int, re.findall("[0-9]+", name))] if _DYNAMIC.fullmatch(name) else []
    if sizes and all(1 <= size <= most for size, most in zip(sizes, MAX_DYNAMIC, strict=False)):
        return DynamicPlan(*sizes)
    raise OptionError(
        f"tree {name!r:.40}",
        expected=f"{', '.join(OF_THIS_MACHINE)}, chain:1 to chain:{MAX_CHAIN}, "
        f"tree:1 to tree:{TREE_SIZES[-1]}, dynamic:DRAFTS[:DEPTH[:CHILDREN]] "
        f"up to dynamic:{':'.join(map(str, MAX_DYNAMIC))}, or nodes as in {EXAMPLE}",
    )


_DYNAMIC = re.compile("dynamic(:[0-9]{1,3}){1,3}")


def chain(length: int, siblings: SiblingKind = "one_hot") -> TreePlan:
    return TreePlan((None, *range(length)), siblings)


def static_tree(num_drafts: int, siblings: SiblingKind = "one_hot") -> TreePlan:
    """The `num_drafts` best nodes of EAGLE's static tree; a parent always comes before its child
    since no weight exceeds 1."""
    return plan_of(_static_nodes()[:num_drafts], siblings)


@cache
def _static_nodes() -> tuple[Ranks, ...]:
    """All nodes of the static tree below the root, the most promising first."""
    nodes = [(*parent, rank) for parent, count in _NUM_CHILDREN.items() for rank in range(count)]
    return tuple(sorted(nodes, key=lambda ranks: (-_promise(ranks), len(ranks), ranks)))


def _promise(ranks: Ranks) -> float:
    return prod(_RANK_WEIGHTS[rank] for rank in ranks)

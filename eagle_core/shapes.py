"""The shape of a static tree, made by hand.

    ranks:0.1.00.01.10      root ─┬─ 0 ─┬─ 00        a node is the rank of each choice from the
                                  │     └─ 01        root down, as EAGLE's own trees are published
                                  └─ 1 ─── 10

A shape is written as a name, which travels in options, links and tables, and changed a node at a
time. Knows ranks alone; what they draft is up to a head.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from eagle_core.errors import OptionError
from eagle_core.tree import SiblingKind, TreePlan, ranks_of

PREFIX = "ranks:"
EXAMPLE = f"{PREFIX}0.1.00"
MAX_DRAFTS = 63
MAX_DEPTH = 32
MAX_WIDTH = 10  # a rank is one digit

Ranks = tuple[int, ...]
"""A node named by the rank of each choice from the root down: (0, 2) is the third child of the
first child, () the root."""

Shape = tuple[Ranks, ...]
"""All nodes but the root, level by level; whoever is in it brings its parent and the better choices
beside it."""

_Nest = list["_Nest"]  # the children of a node, each as its own children


def read_shape(name: str) -> Shape:
    """The nodes that a name lists, in any order; raises OptionError in one sentence."""
    listed = name.removeprefix(PREFIX)
    if name == listed or not re.fullmatch(r"[0-9]+(\.[0-9]+)*", listed, re.ASCII):
        raise OptionError(f"tree {name!r:.40}", expected=f"nodes in digits, as in {EXAMPLE}")
    nodes = [tuple(map(int, digits)) for digits in listed.split(".")]
    _check(nodes)
    return _in_order(nodes)


def shape_name(shape: Shape) -> str:
    return PREFIX + ".".join(map(node_name, shape))


ROOT_NAME = "root"


def node_name(node: Ranks) -> str:
    return "".join(map(str, node)) or ROOT_NAME


def node_named(name: str) -> Ranks:
    """Raises OptionError for what is no node's name."""
    if name == ROOT_NAME:
        return ()
    if not re.fullmatch("[0-9]+", name, re.ASCII):
        raise OptionError(f"node {name!r:.40}", expected=f"{ROOT_NAME}, or ranks as in 01")
    return tuple(map(int, name))


def plan_of(nodes: Iterable[Ranks], siblings: SiblingKind = "one_hot") -> TreePlan:
    """The plan of these nodes; a node's parent and the better choices beside it are among them."""
    shape = _in_order(nodes)
    index = {ranks: node for node, ranks in enumerate([(), *shape])}
    return TreePlan((None, *(index[ranks[:-1]] for ranks in shape)), siblings)


def shape_of(plan: TreePlan) -> Shape:
    """A plan's nodes by their ranks, in the plan's own order."""
    return ranks_of(plan.parents)[1:]


# Changes: each gives a new shape, or raises OptionError where there is no such tree.


def with_child(shape: Shape, parent: Ranks) -> Shape:
    """One more choice below `parent`, which may be the root."""
    tree = _nested(shape)
    _children(tree, parent).append([])
    return _shaped(tree)


def without_node(shape: Shape, node: Ranks) -> Shape:
    """Without `node` and all below it; the choices after it move up."""
    tree = _nested(shape)
    _take(tree, node)
    return _shaped(tree)


def moved(shape: Shape, node: Ranks, *, under: Ranks) -> Shape:
    """`node` with all below it as the last choice of `under`."""
    if under[: len(node)] == node:
        raise OptionError(f"node {node_name(node)} under itself", expected="a node outside of it")
    tree = _nested(shape)
    new_parent = _children(tree, under)  # found before anything changes its ranks
    new_parent.append(_take(tree, node))
    return _shaped(tree)


def after_move(node: Ranks, *, under: Ranks, shape: Shape) -> Ranks:
    """What `node` is called in `shape`, made by moving it `under` another node."""
    above, level = node[:-1], len(node) - 1
    if under[:level] == above and len(under) > level and under[level] > node[-1]:
        under = (*above, under[level] - 1, *under[level + 1 :])  # its ranks have closed up
    return max(other for other in shape if other[:-1] == under)


def exchanged(shape: Shape, node: Ranks, *, by: int) -> Shape:
    """`node` and the sibling `by` places after it change places, each with all below it."""
    tree = _nested(shape)
    _children(tree, node)
    siblings, rank = _children(tree, node[:-1]), node[-1] if node else 0
    if not node or not 0 <= rank + by < len(siblings):
        raise OptionError(f"node {node_name(node)} has no place there", expected="a sibling")
    siblings[rank], siblings[rank + by] = siblings[rank + by], siblings[rank]
    return _shaped(tree)


def _check(nodes: list[Ranks]) -> None:
    if len(nodes) > MAX_DRAFTS or max(map(len, nodes)) > MAX_DEPTH:
        raise OptionError(
            f"a tree of {len(nodes)} nodes on {max(map(len, nodes))} levels",
            expected=f"at most {MAX_DRAFTS} on {MAX_DEPTH}",
        )
    there = {(), *nodes}
    if len(there) <= len(nodes):
        raise OptionError("a tree that lists a node twice", expected="each node once")
    for node in nodes:
        before = (*node[:-1], node[-1] - 1) if node[-1] else node[:-1]
        if before not in there:
            raise OptionError(
                f"node {node_name(node)} without node {node_name(before)}",
                expected="every node's parent and the better choices beside it",
            )


def _in_order(nodes: Iterable[Ranks]) -> Shape:
    return tuple(sorted(nodes, key=lambda ranks: (len(ranks), ranks)))


def _nested(shape: Shape) -> _Nest:
    tree: _Nest = []
    for node in shape:
        _children(tree, node[:-1]).append([])
    return tree


def _children(tree: _Nest, node: Ranks) -> _Nest:
    for place, rank in enumerate(node):
        if rank >= len(tree):
            raise OptionError(f"no node {node_name(node[: place + 1])} in this tree")
        tree = tree[rank]
    return tree


def _take(tree: _Nest, node: Ranks) -> _Nest:
    if not node:
        raise OptionError("the root belongs to every tree", expected="a node below it")
    taken = _children(tree, node)
    del _children(tree, node[:-1])[node[-1]]
    return taken


def _shaped(tree: _Nest) -> Shape:
    nodes = list(_nodes(tree, ()))
    if not nodes:
        raise OptionError("a tree without nodes", expected="at least one")
    if max(max(node) for node in nodes) >= MAX_WIDTH:
        raise OptionError("a node of more children", expected=f"at most {MAX_WIDTH}")
    _check(nodes)
    return _in_order(nodes)


def _nodes(tree: _Nest, at: Ranks) -> Iterator[Ranks]:
    for rank, children in enumerate(tree):
        yield (*at, rank)
        yield from _nodes(children, (*at, rank))

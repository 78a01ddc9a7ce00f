"""Static trees made by hand: how they are written, and what can be done to them.

root ─┬─ 0 ─┬─ 00
      │     └─ 01
      └─ 1 ─── 10
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES

from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.shapes import (
    Shape,
    after_move,
    exchanged,
    moved,
    node_named,
    plan_of,
    read_shape,
    shape_name,
    shape_of,
    with_child,
    without_node,
)

SHAPE = read_shape("ranks:0.1.00.01.10")


def named(shape: Shape) -> str:
    return shape_name(shape).removeprefix("ranks:")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, "expected nodes in digits") for name in ("ranks:", "0.1", "ranks:0,1", "ranks:a")),
        *((name, "expected nodes in digits") for name in ("ranks:.0", "ranks:0..1", "ranks:٣")),
        ("ranks:00", "node 00 without node 0;"),
        ("ranks:1", "node 1 without node 0;"),
        ("ranks:0.01", "node 01 without node 00;"),
        ("ranks:0.0", "lists a node twice"),
        (f"ranks:{'.'.join('0' * n for n in range(1, 34))}", "of 33 nodes on 33 levels"),
        (f"ranks:{'.'.join(f'{n}' for n in range(64))}", "of 64 nodes on 2 levels"),
    ],
)
def test_what_is_no_tree_is_refused_in_one_sentence(name: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_shape(name)
    with pytest.raises(OptionError):
        RunOptions(tree=name)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        (with_child(SHAPE, ()), "0.1.2.00.01.10"),
        (with_child(SHAPE, (0, 1)), "0.1.00.01.10.010"),
        (without_node(SHAPE, (0,)), "0.00"),
        (without_node(SHAPE, (0, 0)), "0.1.00.10"),
        (moved(SHAPE, (0,), under=(1,)), "0.00.01.010.011"),
        (moved(SHAPE, (1,), under=(0, 0)), "0.00.01.000.0000"),
        (moved(SHAPE, (0, 1), under=()), "0.1.2.00.10"),
        (moved(SHAPE, (0,), under=()), "0.1.00.10.11"),
        (exchanged(SHAPE, (0,), by=1), "0.1.00.10.11"),
        (exchanged(SHAPE, (1,), by=-1), "0.1.00.10.11"),
    ],
)
def test_a_change_takes_whole_branches_along_and_closes_the_ranks(shape: Shape, name: str) -> None:
    assert named(shape) == name


@pytest.mark.parametrize(
    ("node", "under", "now"),
    [
        ((0,), (1,), (0, 1)),
        ((1,), (0, 0), (0, 0, 0)),
        ((0, 1), (), (2,)),
        ((0, 0), (0, 1), (0, 0, 0)),
    ],
)
def test_a_moved_node_is_found_again(
    node: tuple[int, ...], under: tuple[int, ...], now: tuple[int, ...]
) -> None:
    assert after_move(node, under=under, shape=moved(SHAPE, node, under=under)) == now


@pytest.mark.parametrize("name", ["", "a", "٣", "0 1", "-1"])
def test_what_is_no_node_is_refused(name: str) -> None:
    assert (node_named("root"), node_named("01")) == ((), (0, 1))
    with pytest.raises(OptionError, match="expected root, or ranks"):
        node_named(name)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: without_node(SHAPE, ()), "the root belongs to every tree"),
        (lambda: without_node(SHAPE, (2,)), "no node 2"),
        (lambda: without_node(read_shape("ranks:0"), (0,)), "a tree without nodes"),
        (lambda: moved(SHAPE, (0,), under=(0, 0)), "node 0 under itself"),
        (lambda: moved(SHAPE, (), under=(0,)), "node root under itself"),
        (lambda: exchanged(SHAPE, (0,), by=-1), "no place there"),
        (lambda: exchanged(SHAPE, (1,), by=1), "no place there"),
        (lambda: with_child(read_shape("ranks:" + ".".join("0123456789")), ()), "at most 10"),
        (lambda: exchanged(SHAPE, (), by=1), "no place there"),
    ],
)
def test_a_change_that_leaves_no_tree_is_refused(change: Callable[[], Shape], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        change()


@EXAMPLES
@given(st.lists(st.tuples(st.sampled_from("+-m<>"), st.integers(0), st.integers(0)), max_size=30))
def test_any_changes_leave_a_tree_that_its_name_brings_back(
    changes: list[tuple[str, int, int]],
) -> None:
    shape = SHAPE
    for kind, one, other in changes:
        nodes = ((), *shape)
        node, place = nodes[one % len(nodes)], nodes[other % len(nodes)]
        try:
            shape = {
                "+": lambda node=node, shape=shape: with_child(shape, node),
                "-": lambda node=node, shape=shape: without_node(shape, node),
                "m": lambda node=node, place=place, shape=shape: moved(shape, node, under=place),
                "<": lambda node=node, shape=shape: exchanged(shape, node, by=-1),
                ">": lambda node=node, shape=shape: exchanged(shape, node, by=1),
            }[kind]()
        except OptionError:
            continue
        assert read_shape(shape_name(shape)) == shape
        assert shape_of(plan_of(shape, "one_hot")) == shape


def test_a_rule_for_chains_takes_a_chain_written_out() -> None:
    RunOptions(tree="ranks:0.00", rule="block", temperature=1.0)
    with pytest.raises(OptionError, match="expected a chain"):
        RunOptions(tree="ranks:0.1", rule="block", temperature=1.0)

"""A static tree as a picture of buttons: every node with its chance of being kept.

A pure function of a shape and of what a run kept. All text is ours: ranks and numbers.
"""

from __future__ import annotations

from eagle_core.expected import RankRates
from eagle_core.shapes import Ranks, Shape, node_name

COLUMN, ROW = 86, 34  # pixels from node to node
WIDTH, HEIGHT = 68, 28  # of a node
MARGIN = 3


def plan_picture(shape: Shape, rates: RankRates, *, selected: Ranks) -> str:
    """As HTML: lines below, a button per node above them, the root among them."""
    nodes = [(), *shape]
    places = _places(shape)
    deepest, lowest = (max(place[axis] for place in places.values()) for axis in (0, 1))
    size = (
        f"width:{deepest * COLUMN + WIDTH + 2 * MARGIN}px;"
        f"height:{lowest * ROW + HEIGHT + 2 * MARGIN}px"
    )
    lines = "".join(_line(places[node[:-1]], places[node]) for node in shape)
    buttons = "".join(_button(node, places[node], rates, node == selected) for node in nodes)
    return (
        '<div class="ev-plan-box" tabindex="0" role="region" aria-label="The tree">'
        f'<div class="ev-plan" role="group" style="{size}">'
        f'<svg aria-hidden="true"><path d="{lines}"/></svg>{buttons}</div></div>'
    )


def expectation(shape: Shape, rates: RankRates) -> str:
    """Expected τ in words, or what is missing for it."""
    count = f"{len(shape)} node{'' if len(shape) == 1 else 's'}"
    if rates.is_empty:
        return f"{count}. Run something first: its acceptance tells what a tree is worth."
    unknown = sorted({node[-1] + 1 for node in shape if rates.share(len(node), node[-1]) is None})
    missing = (
        f" Choice {', '.join(map(str, unknown))} was never drafted there and counts as 0."
        if unknown
        else ""
    )
    return f"{count}, expected τ {rates.expected_tau(shape):.2f}.{missing}"


def _places(shape: Shape) -> dict[Ranks, tuple[int, int]]:
    """Column and row of each node; a first child stands level with its parent."""
    row = 0
    places: dict[Ranks, tuple[int, int]] = {(): (0, 0)}
    for node in sorted(shape):
        row += node[-1] > 0
        places[node] = (len(node), row)
    return places


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    x, y = start[0] * COLUMN + MARGIN + WIDTH, start[1] * ROW + MARGIN + HEIGHT // 2
    to_x, to_y = end[0] * COLUMN + MARGIN, end[1] * ROW + MARGIN + HEIGHT // 2
    middle = (x + to_x) // 2
    return f"M{x} {y}H{middle}V{to_y}H{to_x}"


def _button(node: Ranks, place: tuple[int, int], rates: RankRates, is_selected: bool) -> str:
    left, top = place[0] * COLUMN + MARGIN, place[1] * ROW + MARGIN
    chance = f"{rates.chance(node):.0%}" if node and not rates.is_empty else ""
    name = node_name(node)
    spoken = (f"{name} {chance} kept" if chance else name) + f", depth {len(node)}"
    return (
        f'<button type="button" data-node="{name}" aria-label="{spoken}" '
        f'aria-pressed="{str(is_selected).lower()}" style="left:{left}px;top:{top}px">'
        f"<b>{name}</b> <span>{chance}</span></button>"
    )

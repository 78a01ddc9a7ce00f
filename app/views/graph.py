"""Draft trees as networkx graphs: what each branch of the tree was worth over a whole run.

A *slot* is a place in the tree, named by the rank of each choice from the root down: (0, 2) is the
third child of the first child, () the root. Trees of different steps share their slots, so a run's
trees fall into one graph.
"""

from __future__ import annotations

import networkx as nx  # type: ignore[import-untyped]  # ships no types

from eagle_core.trace import Lane, Verdict
from eagle_core.tree import ranks_of

Slot = tuple[int, ...]
TRIED = (Verdict.ACCEPTED, Verdict.REFUSED)
KEPT = (Verdict.ROOT, Verdict.ACCEPTED)


def slot_graph(lane: Lane) -> nx.DiGraph:
    """All slots of the lane's draft trees. Nodes count the steps in which they were `drafted`,
    `tried` and `kept`; the root is kept in every step and tried in none.
    """
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_node((), drafted=0, tried=0, kept=0)
    for step in lane.steps:
        for slot, node in zip(ranks_of(step.parents), step.nodes, strict=True):
            if slot not in graph:
                graph.add_node(slot, drafted=0, tried=0, kept=0)
                graph.add_edge(slot[:-1], slot)
            counts = graph.nodes[slot]
            counts["drafted"] += 1
            counts["tried"] += node.verdict in TRIED
            counts["kept"] += node.verdict in KEPT
    return graph


def slot_places(graph: nx.DiGraph) -> dict[Slot, tuple[float, float]]:
    """Where slots stand in a picture: x is the depth, a parent stands level with its first child,
    and every leaf has a row of its own, counted downwards from 0."""
    row = 0
    places: dict[Slot, tuple[float, float]] = {}
    for slot in sorted(graph):
        if slot and slot[-1] > 0:
            row += 1
        places[slot] = (float(len(slot)), float(-row))
    return places

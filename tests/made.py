"""Steps, lanes and traces made by hand, for tests that need no model.

step((5, 7, 9), (None, 0, 0), path=(0, 1), bonus=11)      root 5 ─┬─ 7 ── bonus 11
                                                                  └─ 9
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import settings

from eagle_core.trace import (
    Environment,
    Event,
    Lane,
    Node,
    Prefill,
    Settings,
    Step,
    StopReason,
    Trace,
    Verdict,
)

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)
"""For hypothesis: the same examples on every machine, and no clock that a busy one could miss."""

ENVIRONMENT = Environment(
    target="toy", head="toy-head", device="CPU", dtype="float32", threads=1, versions={"torch": "0"}
)
SETTINGS = Settings(
    max_new_tokens=8, temperature=0.0, top_p=1.0, top_k=0, seed=0, tree="chain:3", rule="greedy"
)


def prefill(token: int = 5, *, ms: float = 100.0, stop: StopReason | None = None) -> Prefill:
    return Prefill(num_prompt_tokens=3, token=token, prefill_ms=ms, stop=stop)


def step(
    tokens: Sequence[int] = (5,),
    parents: Sequence[int | None] = (None,),
    *,
    path: Sequence[int] = (0,),
    bonus: int | None = 1,
    ms: tuple[float, float, float] = (4.0, 60.0, 1.0),
    stop: StopReason | None = None,
) -> Step:
    nodes = [
        Node(token, None, Verdict.ROOT)
        if parent is None
        else Node(token, parent, _verdict(node, parent, path), 0.5, 0.25, 0.5, None)
        for node, (token, parent) in enumerate(zip(tokens, parents, strict=True))
    ]
    return Step(tuple(nodes), tuple(path), bonus, *ms, stop=stop)


def chain_step(*tokens: int, kept: int, bonus: int | None, **more: Any) -> Step:
    """The first token is the root, the others a chain of which `kept` are accepted."""
    parents = (None, *range(len(tokens) - 1))
    return step(tokens, parents, path=range(kept + 1), bonus=bonus, **more)


def lane(method: str, *events: Event) -> Lane:
    texts = [tuple(f"<{token}>" for token in event.committed) for event in events]
    return Lane(method, events, tuple(texts))


def trace(*lanes: Lane, settings: Settings = SETTINGS) -> Trace:
    return Trace(
        prompt="why?",
        settings=settings,
        environment=ENVIRONMENT,
        lanes=lanes,
        pieces={token: f"<{token}>" for lane in lanes for token in lane.tokens},
        created="2026-01-01T00:00:00+00:00",
    )


def plain_and_eagle() -> Trace:
    """Both write 5 6 7 8 9: plain in four passes of 50 ms, EAGLE in two of 65 ms."""
    plain = [step((5 + i,), bonus=6 + i, ms=(0.0, 49.0, 1.0)) for i in range(3)]
    last = step((8,), bonus=9, ms=(0.0, 49.0, 1.0), stop=StopReason.MAX_NEW_TOKENS)
    eagle = [
        chain_step(5, 6, 7, 1, kept=2, bonus=8),
        chain_step(8, 2, kept=0, bonus=9, stop=StopReason.MAX_NEW_TOKENS),
    ]
    return trace(lane("plain", prefill(), *plain, last), lane("eagle", prefill(), *eagle))


def _verdict(node: int, parent: int, path: Sequence[int]) -> Verdict:
    if node in path:
        return Verdict.ACCEPTED
    return Verdict.REFUSED if parent in path else Verdict.NOT_REACHED

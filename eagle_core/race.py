"""Several lanes on one device, in virtual time.

Two lanes must never use the device at once, or each would slow the other. So each has its own
clock, made of the times of its own events, and the lane whose clock is behind takes the next
step: seen together they run side by side, measured they run alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from eagle_core.trace import Event


def race(lanes: Mapping[str, Iterator[Event]]) -> Iterator[tuple[str, Event]]:
    """Events of all lanes, each with its lane's name, in the order of the lanes' own clocks."""
    running = dict(lanes)
    clock_ms = dict.fromkeys(running, 0.0)
    while running:
        behind = min(running, key=lambda name: clock_ms[name])
        event = next(running[behind], None)
        if event is None:
            del running[behind]
            continue
        clock_ms[behind] += event.ms
        yield behind, event

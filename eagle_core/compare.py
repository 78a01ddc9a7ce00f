"""Compare two greedy answers, and tell numerics from faults.

Kernels round differently for different numbers of rows, so two nearly equal logits may swap. A
difference counts as numerics only where the target's two best logits there lie closer together
than the tolerance of the dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from eagle_core.trace import Event, Lane, first_difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eagle_core.targets.base import Target

GAP_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25, torch.float16: 0.03}
"""Largest gap between the two best logits that rounding may close: 1e-3 in float32; in half
precision two units in the last place of a logit around 16."""


@dataclass(frozen=True)
class Divergence:
    """Where two greedy texts part, and how close the target's choice was there."""

    position: int  # of the first differing token, counted from the start of the answer
    logit_gap: float
    tolerance: float

    @property
    def is_numerics(self) -> bool:
        return self.logit_gap < self.tolerance


def find_divergence(
    target: Target, prompt: Sequence[int], plain: Lane, eagle: Lane
) -> Divergence | None:
    """None where both lanes wrote the same tokens. Reads the target once where they did not."""
    position = first_difference(plain, eagle)
    if position is None:
        return None
    text = [*prompt, *plain.tokens[:position]]
    read = target.open().prefill(torch.tensor(text, device=target.spec.device))
    best, second = read.logits[-1].float().topk(2).values.tolist()
    return Divergence(position, best - second, GAP_TOLERANCE.get(target.spec.dtype, 0.0))


def as_lane(method: str, events: Iterable[Event]) -> Lane:
    """Run a lane to its end; a comparison needs no text."""
    done = tuple(events)
    return Lane(method, done, tuple(("",) * len(event.committed) for event in done))

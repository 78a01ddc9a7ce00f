"""What decides a run, and what only decides how it is watched.

Knows numbers. Knows nothing of models or data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from eagle_core.errors import OptionError
from eagle_core.training.objectives import (
    NOISES,
    OBJECTIVES,
    LossWeights,
    Noise,
    Objective,
)

Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
Optimizer = Literal["adamw", "muon"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)


@dataclass(frozen=True)
class TrainingSettings:
    """Everything that decides the weights; a run is resumed only under the settings it began with.

    precision: of the matrix products; weights, their gradients and the optimiser keep float32.
    on_policy_share: of the steps whose texts a small draft model writes itself.
    optimizer: `muon` takes the matrices to it (Jordan, 2024) and leaves the rest to AdamW.

    The learning rate warms up, then falls linearly to zero at the end of the budget: `num_steps`,
    or `minutes` of training time where the clock is what is short. Only the former is exactly
    repeatable.
    """

    num_steps: int | None = None
    minutes: float | None = None
    batch_tokens: int = 1024
    precision: Precision = "float32"
    optimizer: Optimizer = "adamw"
    learning_rate: float = 1.5e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.01
    clip_norm: float = 0.5
    warmup_share: float = 0.03
    noise: Noise = "paper"
    weights: LossWeights = field(default_factory=LossWeights)
    self_fed_steps: int = 0
    objective: Objective = "forward_kl"
    on_policy_share: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.num_steps is None) == (self.minutes is None):
            raise OptionError(
                f"{self.num_steps} steps and {self.minutes} minutes", expected="exactly one of both"
            )
        for name, allowed in (
            ("noise", NOISES),
            ("precision", PRECISIONS),
            ("optimizer", OPTIMIZERS),
            ("objective", OBJECTIVES),
        ):
            if getattr(self, name) not in allowed:
                raise OptionError(f"{name} {getattr(self, name)!r}", expected=", ".join(allowed))
        for name in ("batch_tokens", "learning_rate", "clip_norm"):
            if getattr(self, name) <= 0:
                raise OptionError(f"{name} {getattr(self, name)}", expected="more than 0")
        if not 0.0 <= self.on_policy_share <= 1.0:
            raise OptionError(
                f"an on-policy share of {self.on_policy_share}", expected="a share from 0 to 1"
            )
        if self.self_fed_steps < 0:
            raise OptionError(f"{self.self_fed_steps} self-fed steps", expected="0 or more")


@dataclass(frozen=True)
class Intervals:
    """How often, in steps; nothing here changes the weights."""

    log: int = 20
    validation: int = 400
    checkpoint: int = 200


def rate_at(share_done: float, *, warmup_share: float) -> float:
    """Share of the learning rate: a linear rise, then a linear fall to zero at the end."""
    if share_done < warmup_share:
        return max(share_done / warmup_share, 0.01)
    return max((1.0 - share_done) / (1.0 - warmup_share), 0.0)

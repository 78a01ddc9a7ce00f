"""How each kind of head is trained: the flags of its runs, each from the weights of the one before.

Steps are those that the shipped heads took, as their records tell. Knows the flags of `train`.
Knows nothing of what they do.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagle_core.drafters.head import INPUTS
from eagle_core.training.methods import Method


@dataclass(frozen=True)
class Recipe:
    """A kind of head, and the flags of its runs in order."""

    method: Method
    runs: tuple[str, ...]


_FAST = "--precision bfloat16 --optimizer muon --batch-tokens 1536 --held-out 30"
_EAGLE = Recipe(
    "eagle",
    (
        "--max-tokens 500000 --held-out 12 --steps 801",
        "--max-tokens 500000 --held-out 12 --steps 1667 --self-fed-steps 1 --learning-rate 1.1e-3"
        " --batch-tokens 768 --seed 1",
        f"{_FAST} --steps 4392 --self-fed-steps 1 --learning-rate 8e-4 --seed 2",
    ),
)
_EAGLE3 = Recipe(
    "eagle3",
    (
        f"{_FAST} --steps 855 --self-fed-steps 2 --step-decay 0.9 --learning-rate 1.5e-3 --seed 1",
        f"{_FAST} --steps 1800 --self-fed-steps 1 --learning-rate 1.5e-3 --seed 3",
    ),
)
_LESSER = f"{_FAST} --steps 400 --self-fed-steps 1 --learning-rate 1.5e-3 --seed 1"

_MEDUSA = Recipe("medusa", (f"{_FAST} --steps 400 --learning-rate 1.5e-3 --seed 1",))

_SMALL = f"{_FAST} --objective tokens --steps 400 --learning-rate 1.5e-3 --seed 1"
_LONGER = f"{_FAST} --steps 200 --learning-rate 7e-4 --seed 2"

RECIPES: dict[str, Recipe] = {
    "eagle": _EAGLE,
    "eagle3": _EAGLE3,
    "medusa": _MEDUSA,
    "small": Recipe("small", (_SMALL, f"{_LONGER} --objective tokens")),
    **{
        f"small-{objective.replace('_', '-')}": Recipe(
            "small", (_SMALL, f"{_LONGER} --objective {objective} --on-policy-share 1.0")
        )
        for objective in ("forward_kl", "reverse_kl", "tvd")
    },
    **{
        f"inputs-{inputs.replace('+', '-and-')}": Recipe("eagle", (f"{_LESSER} --inputs {inputs}",))
        for inputs in INPUTS
    },
}

"""The optimisers of a run: AdamW for all weights, or Muon for the matrices and AdamW for the rest.

Rows of an unembedding are no matrix in this sense: each belongs to one token (Jordan, 2024). Knows
weights and settings. Knows nothing of data or losses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from eagle_core.errors import OptionError
from eagle_core.training.settings import TrainingSettings

UNEMBEDDING = "lm_head.weight"


class Optimizers:
    """One or two optimisers that act as one; matrices decay, all else does not."""

    def __init__(self, weights: Iterable[tuple[str, Tensor]], settings: TrainingSettings) -> None:
        matrices, others = list[Tensor](), list[Tensor]()
        for name, weight in weights:
            is_matrix = weight.dim() > 1 and name != UNEMBEDDING
            (matrices if is_matrix else others).append(weight)
        decay = settings.weight_decay
        if settings.optimizer == "muon":
            self._parts = [_muon(matrices, decay), _adamw([(others, 0.0)], settings)]
        else:
            self._parts = [_adamw([(matrices, decay), (others, 0.0)], settings)]

    def step(self, *, learning_rate: float) -> None:
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = learning_rate
            part.step()

    def zero_grad(self) -> None:
        for part in self._parts:
            part.zero_grad()

    @property
    def learning_rate(self) -> float:
        return float(self._parts[0].param_groups[0]["lr"])

    def state_dict(self) -> list[dict[str, Any]]:
        return [part.state_dict() for part in self._parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        for part, state in zip(self._parts, states, strict=True):
            part.load_state_dict(state)


def _adamw(
    groups: list[tuple[list[Tensor], float]], settings: TrainingSettings
) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        [{"params": weights, "weight_decay": decay} for weights, decay in groups],
        betas=settings.betas,
        fused=True,
    )


def _muon(matrices: list[Tensor], weight_decay: float) -> torch.optim.Optimizer:
    """Scaled so that learning rates and decay of AdamW fit (Liu et al. 2025, section 2.2)."""
    if not hasattr(torch.optim, "Muon"):
        raise OptionError(
            f"optimizer muon with torch {torch.__version__}",
            expected="torch 2.9 or newer",
            hint="optimizer adamw",
        )
    return torch.optim.Muon(matrices, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")

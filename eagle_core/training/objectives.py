"""What a head is trained to do: come near the next feature, and give the same law.

    loss = feature_weight · smooth-L1(estimate, feature) + token_weight · cross-entropy(laws)

The laws are over the draft vocabulary and read by the target's own, frozen unembedding (EAGLE-1,
section 4.2). Both parts are means over the pairs that count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from eagle_core.training.batches import Batch

Unembedding = Callable[[Tensor], Tensor]
Noise = Literal["none", "paper", "code"]
NOISES: tuple[Noise, ...] = get_args(Noise)

NOISE_RANGE = 0.1
CODE_NOISE_LENGTH = 512  # the reference code's noise has the paper's range at this length


@dataclass(frozen=True)
class LossWeights:
    feature: float = 1.0
    token: float = 0.1
    step_decay: float = 1.0  # each self-fed step counts this much of the one before


@dataclass(frozen=True, eq=False)
class Loss:
    """A batch's loss and its parts, those of all steps together; scalars."""

    total: Tensor
    feature: Tensor
    token: Tensor

    @classmethod
    def none(cls, device: torch.device) -> Loss:
        zero = torch.zeros((), device=device)
        return cls(zero, zero, zero)

    def scaled(self, share: float) -> Loss:
        return Loss(share * self.total, share * self.feature, share * self.token)


def loss_of(
    estimates: Sequence[Tensor],  # per step (R', D), the rows of the batch that count
    batch: Batch,
    *,
    unembedding: Unembedding,  # features to logits over the draft vocabulary
    weights: LossWeights,
) -> Loss:
    """Weighted mean over steps; in step s, the first s rows of a conversation do not count."""
    wanted = batch.next_features[batch.counts]  # (R', D)
    position = batch.positions[batch.counts]
    with torch.no_grad():
        law = unembedding(wanted).softmax(-1)  # (R', V')
    parts = []
    for step, estimate in enumerate(estimates):
        valid = position >= step
        feature = F.smooth_l1_loss(estimate[valid], wanted[valid])
        token = F.cross_entropy(unembedding(estimate[valid]), law[valid])
        parts.append((weights.step_decay**step, feature, token))
    whole = sum(share for share, _, _ in parts)
    feature = torch.stack([share / whole * part for share, part, _ in parts]).sum()
    token = torch.stack([share / whole * part for share, _, part in parts]).sum()
    return Loss(weights.feature * feature + weights.token * token, feature, token)


def with_noise(batch: Batch, *, noise: Noise, generator: torch.Generator) -> Tensor:
    """The batch's features, disturbed as they will be when the head feeds itself; (R, D).

    "paper": U(-0.1, 0.1). "code": the same times 512 over the conversation's length, as the
    reference trainer has it.
    """
    if noise == "none":
        return batch.features
    shape = batch.features.shape
    drawn = torch.rand(shape, generator=generator, device=generator.device)
    drawn = ((drawn - 0.5) * 2 * NOISE_RANGE).to(batch.features)
    if noise == "paper":
        return batch.features + drawn
    scale = torch.cat([torch.full((n, 1), CODE_NOISE_LENGTH / n) for n in batch.lengths])
    return batch.features + drawn * scale.to(drawn)

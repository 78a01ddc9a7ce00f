"""What a head is trained to do: come near the next feature, and give the same law.

    loss = feature_weight · smooth-L1(estimate, feature) + token_weight · divergence(laws)

The laws are over the draft vocabulary. The target's is read by its own, frozen unembedding, and so
is the head's (EAGLE-1, section 4.2), unless the head brings rows of its own, which then learn too
(EAGLE-3, section 3). Both parts are means over the pairs that count.

Divergences of a draft law q from the target's p (DistillSpec, arXiv 2310.08461, section 3):

    forward_kl    KL(p ‖ q), but for the entropy of p, which no head can change
    reverse_kl    KL(q ‖ p)
    tvd           ½ Σ |p - q|, the chance that a draft is refused
    tokens        -log q(the text's next token), which asks the target nothing
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor

from eagle_core.training.batches import Batch

Unembedding = Callable[[Tensor], Tensor]
Noise = Literal["none", "paper", "code"]
NOISES: tuple[Noise, ...] = get_args(Noise)

Objective = Literal["forward_kl", "reverse_kl", "tvd", "tokens"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

NOISE_RANGE = 0.1
SLICE_ROWS = 128  # whose logits exist at once
OWN_SLICE_ROWS = 256  # where rows learn, and their whole gradient is passed over once a slice
LEAST_PROBABILITY = 1e-30  # of a law whose logarithm is taken
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


def loss_of(
    estimates: Sequence[Tensor],  # per step (R', D), readable, the rows of the batch that count
    batch: Batch,
    *,
    unembedding: Unembedding,  # the target's: features to logits over the draft vocabulary
    weights: LossWeights,
    own_rows: Tensor | None = None,  # (V', D), the head's unembedding, where it brings one
    num_rows: Sequence[int] | None = None,
    objective: Objective = "forward_kl",
    vocabulary: Tensor | None = None,  # (V',) ids that rise, those of the laws
) -> Loss:
    """Weighted mean over steps; in step s, the first s rows of a conversation do not count.

    num_rows: per step, how many rows the mean is over; those of this batch by default, more where
    the batch is one process' share of a larger one. vocabulary: what `tokens` needs; a text's token
    that is not among these teaches nothing.
    """
    wanted = batch.next_features[batch.counts]  # (R', D)
    shares = _shares(batch.positions[batch.counts], len(estimates), weights, num_rows)
    stacked = torch.stack(list(estimates))  # (S, R', D)
    distances = F.smooth_l1_loss(
        stacked.float(), wanted.expand(stacked.shape), reduction="none"
    ).mean(-1)
    feature = (shares * distances).sum()
    laws = partial(_laws, wanted, unembedding)
    if objective == "tokens":
        assert vocabulary is not None, "the tokens of the laws"
        laws = partial(_certain, batch.follows[batch.counts], vocabulary)
    reader = Reader(unembedding, own_rows, DIVERGENCES[objective])
    sliced: Callable[..., Tensor] = SlicedDivergence.apply
    token = sliced(stacked, shares, laws, reader, own_rows)
    return Loss(weights.feature * feature + weights.token * token, feature, token)


def _shares(
    positions: Tensor, num_steps: int, weights: LossWeights, num_rows: Sequence[int] | None
) -> Tensor:
    """What every row of every step counts in the loss, (S, R'); all of them together are 1."""
    steps = torch.arange(num_steps, device=positions.device)[:, None]
    valid = positions >= steps  # (S, R')
    counted = valid.sum(-1) if num_rows is None else torch.tensor(num_rows, device=valid.device)
    decay = weights.step_decay**steps
    return valid * decay / decay.sum() / counted.clamp_min(1)[:, None]


def _laws(features: Tensor, unembedding: Unembedding, rows: slice) -> Tensor:
    """The target's, (r, V')."""
    return unembedding(features[rows]).float().softmax(-1)


def _certain(follows: Tensor, vocabulary: Tensor, rows: slice) -> Tensor:
    """Laws that are certain of the text's tokens, (r, V'); all zero for tokens not in them."""
    tokens = follows[rows]
    numbers = torch.searchsorted(vocabulary, tokens).clamp_max(len(vocabulary) - 1)
    is_drafted = (vocabulary[numbers] == tokens).float()
    laws = torch.zeros(len(tokens), len(vocabulary), device=tokens.device)
    return laws.scatter_(1, numbers[:, None], is_drafted[:, None])


Divergence = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Logits of the draft law and the target's law, (r, V') each, to a loss per row, (r,), and its
gradient by the logits, (r, V')."""


def _forward_kl(logits: Tensor, law: Tensor) -> tuple[Tensor, Tensor]:
    """Its gradient is q - p."""
    norm = logits.logsumexp(-1, keepdim=True)
    losses = norm.squeeze(-1) - (law * logits).sum(-1)
    return losses, (logits - norm).exp_() - law


def _of_tokens(logits: Tensor, law: Tensor) -> tuple[Tensor, Tensor]:
    """The same for laws that are all zero where nothing is to be learned."""
    is_told = law.sum(-1)
    losses, gradient = _forward_kl(logits, law)
    return losses * is_told, gradient * is_told[:, None]


def _reverse_kl(logits: Tensor, law: Tensor) -> tuple[Tensor, Tensor]:
    """Its gradient is q · (log q/p - KL)."""
    log_draft = logits.log_softmax(-1)
    draft = log_draft.exp()
    gap = log_draft - law.clamp_min(LEAST_PROBABILITY).log()
    losses = (draft * gap).sum(-1)
    return losses, draft * (gap - losses[:, None])


def _tvd(logits: Tensor, law: Tensor) -> tuple[Tensor, Tensor]:
    """Its gradient is q · (s - Σ q·s), s half the sign of q - p."""
    draft = logits.softmax(-1)
    excess = draft - law
    half_sign = excess.sign() / 2
    return excess.abs().sum(-1) / 2, draft * (half_sign - (draft * half_sign).sum(-1, keepdim=True))


DIVERGENCES: dict[Objective, Divergence] = {
    "forward_kl": _forward_kl,
    "reverse_kl": _reverse_kl,
    "tvd": _tvd,
    "tokens": _of_tokens,
}


class SlicedDivergence(torch.autograd.Function):
    """A divergence from the target's laws, summed by shares, a few rows at a time.

    Logits over a vocabulary are much wider than features. Taking the gradient as soon as a slice
    has its logits means that they never leave the processor's cache and are never kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        estimates: Tensor,  # (S, R, D)
        shares: Tensor,  # (S, R)
        laws: Callable[[slice], Tensor],  # of so many rows, (r, V')
        reader: Reader,
        own_rows: Tensor | None,  # (V', D), for their gradient alone
    ) -> Tensor:
        gradients = torch.empty_like(estimates)
        loss = shares.new_zeros(())
        for start in range(0, estimates.shape[1], reader.slice_rows):
            rows = slice(start, start + reader.slice_rows)
            law = laws(rows)
            for step, estimate in enumerate(estimates[:, rows]):
                losses, gradients[step, rows] = reader.against(
                    law, estimate, shares=shares[step, rows]
                )
                loss += losses.sum()
        ctx.save_for_backward(gradients, reader.gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients, of_own_rows = (
            None if saved is None else saved * upstream[0].to(saved) for saved in ctx.saved_tensors
        )
        return gradients, None, None, None, of_own_rows


class Reader:
    """What reads a head's estimates, and the gradient of its rows where they learn."""

    def __init__(
        self, unembedding: Unembedding, own_rows: Tensor | None, divergence: Divergence
    ) -> None:
        self._read = unembedding
        self._divergence = divergence
        self._learning: list[Tensor] = []
        self.gradient: Tensor | None = None  # (V', D)
        self.slice_rows = SLICE_ROWS
        if own_rows is not None:
            rows = own_rows.detach().requires_grad_()
            self._read = partial(F.linear, weight=rows)
            self._learning = [rows]
            self.gradient = torch.zeros_like(rows, dtype=torch.float32, requires_grad=False)
            self.slice_rows = OWN_SLICE_ROWS

    def against(self, law: Tensor, estimates: Tensor, *, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Each row's share of the divergence, (r,), and its gradient, (r, D).

        The laws are (r, V'), the estimates (r, D), and a row counts as much as its share says.
        """
        estimates = estimates.detach().requires_grad_()
        with torch.enable_grad():
            logits = self._read(estimates)
        losses, gradient = self._divergence(logits.detach().float(), law)
        gradient *= shares[:, None]
        leaves = [estimates, *self._learning]
        found = torch.autograd.grad(logits, leaves, gradient.to(logits.dtype))
        if self.gradient is not None:
            self.gradient += found[1]
        return losses * shares, found[0]


def with_noise(batch: Batch, *, noise: Noise, generator: torch.Generator) -> Batch:
    """The batch, its features disturbed as they will be when the head feeds itself.

    "paper": U(-0.1, 0.1). "code": the same times 512 over the conversation's length, as the
    reference trainer has it.
    """
    if noise == "none":
        return batch
    drawn = torch.rand(batch.features.shape, generator=generator, device=generator.device)
    drawn = ((drawn - 0.5) * 2 * NOISE_RANGE).to(batch.features)
    if noise == "code":
        scale = torch.cat([torch.full((n, 1), CODE_NOISE_LENGTH / n) for n in batch.lengths])
        drawn *= scale.to(drawn)
    return replace(batch, features=batch.features + drawn)

"""Many texts through one target at once, each with a length of its own.

    seat 0   the text that sits here, up to its newest token
    seat 1   another, longer or shorter; it neither waits for seat 0 nor sees it

Knows models, caches and masks. Knows nothing of what is written, or how a token is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eagle_core.targets.hf import HfTarget
from eagle_core.targets.kv import SeatedRows

RIDE_ALONG = 24
"""Up to so many tokens of a new text come cheaper with the common steps than in their own pass."""


class Batch:
    """The texts of B seats and their cache."""

    def __init__(self, target: HfTarget, *, num_seats: int) -> None:
        self._spec = target.spec
        self._decoder = target.decoder
        self._unembed = target.unembedding()
        self._rows = SeatedRows(target.spec.num_layers, num_seats=num_seats)
        self._read: list[list[int]] = [[] for _ in range(num_seats)]  # tokens with a row each

    def begin(self, seat: int, context: Sequence[int]) -> list[int]:
        """Seat a text; gives its last tokens, one or a few, which the coming steps have to bring.

        What the seat holds already is not read again, and a long rest is read here.
        """
        start = min(_num_alike(self._read[seat], context), len(context) - 1)
        if len(context) - start > RIDE_ALONG:
            rest = torch.tensor([context[start:-1]])  # (1, R)
            positions = torch.arange(start, len(context) - 1)[None]
            self._pass(rest, positions, seats=slice(seat, seat + 1))
            start = len(context) - 1
        self._read[seat] = list(context[:start])
        return list(context[start:])

    def step(self, tokens: Sequence[int | None]) -> Tensor:
        """Add one token to every seat's text, (B, V) logits; None to a seat where nobody sits."""
        for seat, token in enumerate(tokens):
            if token is None:
                self._read[seat] = []  # its first row is about to be overwritten
        positions = torch.tensor([[len(read)] for read in self._read])  # (B, 1)
        fed = torch.tensor([[token or 0] for token in tokens])
        states = self._pass(fed, positions, seats=slice(None))
        for read, token in zip(self._read, tokens, strict=True):
            read.extend([] if token is None else [token])
        with torch.inference_mode():
            return self._unembed(states[:, -1])

    @torch.inference_mode()
    def _pass(self, tokens: Tensor, positions: Tensor, *, seats: slice) -> Tensor:
        """Post-norm states, (B, R, D), of tokens (B, R) at these positions of these seats."""
        device = self._spec.device
        positions = positions.to(device)
        states: Tensor = self._decoder(
            input_ids=tokens.to(device),
            position_ids=positions,
            attention_mask=_up_to(positions, dtype=self._spec.dtype),
            **self._rows.as_arguments(self._decoder, seats=seats, positions=positions),
        ).last_hidden_state
        return states


def _up_to(positions: Tensor, *, dtype: torch.dtype) -> Tensor:
    """(B, 1, R, L) added to attention scores: every row sees its seat up to its position."""
    rows = torch.arange(int(positions.max()) + 1, device=positions.device)
    is_hidden = rows > positions[:, None, :, None]
    return torch.zeros(is_hidden.shape, dtype=dtype, device=positions.device).masked_fill_(
        is_hidden, torch.finfo(dtype).min
    )


def _num_alike(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))

"""Chance that belongs to a place: Gumbel noise keyed by seed, position and token.

    token at a position = the one with the largest  log law(token) + noise(seed, position, token)

Such a token follows the law, and whoever asks again at that place gets the same answer for the
same law. So a drafter that shares the noise guesses what the target will draw, and a text decoded
with drafts equals the one decoded without, token for token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

UNIFORM_BITS = 53  # of a float64's fraction


@dataclass(frozen=True)
class KeyedChance:
    """Draws by the noise of one place; `position` counts from the start of the prompt."""

    seed: int
    position: int = 0

    def uniform(self) -> float:
        raise AssertionError("keyed noise draws tokens and flips no coins")

    def draw(self, law: Tensor, *, tokens: Tensor | None = None) -> int:
        """As in the contract, by the largest noisy log-probability."""
        size = len(law) if tokens is None else int(tokens.max()) + 1
        noise = gumbel_noise(self.seed, self.position, size, law.device)
        noise = noise if tokens is None else noise[tokens]
        return int((law.double().log() + noise).argmax())

    def ahead(self, num_tokens: int) -> KeyedChance:
        return KeyedChance(self.seed, self.position + num_tokens)


@lru_cache(maxsize=8)
def gumbel_noise(seed: int, position: int, num_tokens: int, device: torch.device) -> Tensor:
    """Standard Gumbel noise of the tokens 0, 1, … at one position: (V,) float64.

    That of a token is the same however many tokens are asked for, and on every device.
    """
    tokens = torch.arange(num_tokens, device=device)
    key = _scrambled(_scrambled(torch.tensor([seed], device=device)) + position)
    numbers = _shifted(_scrambled(key + tokens), 64 - UNIFORM_BITS)
    uniform = (numbers.double() + 0.5) * 2.0**-UNIFORM_BITS
    return -(-uniform.log()).log()


def _scrambled(numbers: Tensor) -> Tensor:
    """64 bits in, 64 unrelated bits out: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    mixed = numbers + _signed(0x9E3779B97F4A7C15)
    mixed = (mixed ^ _shifted(mixed, 30)) * _signed(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ _shifted(mixed, 27)) * _signed(0x94D049BB133111EB)
    return mixed ^ _shifted(mixed, 31)


def _shifted(numbers: Tensor, bits: int) -> Tensor:
    """Shifted right with zeros coming in, which int64 alone does not do."""
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """The int64 of the same 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number

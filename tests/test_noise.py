"""Noise that belongs to a place: it follows the law, and whoever asks again gets the same."""

from __future__ import annotations

import math

import pytest
import torch
from toys import CPU

from eagle_core.noise import KeyedChance, gumbel_noise

LAW = torch.tensor([0.5, 0.0, 0.2, 0.3])


def draws(law: torch.Tensor, *, seed: int = 0, count: int = 20) -> list[int]:
    return [KeyedChance(seed, position).draw(law) for position in range(count)]


def test_tokens_come_as_often_as_their_law_says_normalised_or_not() -> None:
    count = 4_000
    for scale in (1.0, 7.0, 1e-6):
        seen = draws(LAW * scale, count=count)
        shares = [seen.count(token) / count for token in range(4)]
        assert shares == pytest.approx([0.5, 0.0, 0.2, 0.3], abs=0.03)  # over 3 deviations
        assert seen.count(1) == 0


def test_seeds_and_positions_have_noise_of_their_own() -> None:
    flat = torch.full((50,), 0.02)
    assert draws(flat, seed=3) == draws(flat, seed=3)
    assert draws(flat, seed=3) != draws(flat, seed=4)
    assert len(set(draws(flat, count=200))) > 40
    one, other = draws(flat, seed=3, count=400), draws(flat, seed=4, count=401)
    same = sum(a == b for a, b in zip(one, other, strict=False))
    shifted = sum(a == b for a, b in zip(one, other[1:], strict=False))
    assert max(same, shifted) < 30, "two seeds agree no more often than chance would"


def test_the_noise_is_gumbels() -> None:
    """Mean 0.5772, variance π²/6, over a million numbers."""
    noise = gumbel_noise(1, 2, 1_000_000, CPU)
    assert noise.mean().item() == pytest.approx(0.57722, abs=0.005)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.01)
    assert noise.isfinite().all()


def test_the_noise_of_a_token_depends_on_nothing_but_seed_position_and_token() -> None:
    assert torch.equal(gumbel_noise(5, 7, 10, CPU), gumbel_noise(5, 7, 4_000, CPU)[:10])


def in_python(seed: int, position: int, token: int) -> float:
    """The same noise in whole numbers without a size."""

    def scrambled(z: int) -> int:
        z = (z + 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    number = scrambled((scrambled((scrambled(seed) + position) % 2**64) + token) % 2**64)
    return -math.log(-math.log(((number >> 11) + 0.5) / 2**53))


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_the_noise_is_the_same_in_every_release(seed: int) -> None:
    made = gumbel_noise(seed, 8_191, 200_000, CPU)
    for token in (0, 1, 49_151, 199_999):
        assert made[token].item() == pytest.approx(in_python(seed, 8_191, token), abs=1e-12)


def test_places_add_up() -> None:
    assert KeyedChance(3, 4).ahead(2).ahead(5) == KeyedChance(3, 11)


def test_a_draft_vocabulary_shares_the_noise_of_its_tokens() -> None:
    known = torch.tensor([3, 0, 2])
    for position in range(50):
        chance = KeyedChance(9, position)
        assert int(known[chance.draw(LAW[known], tokens=known)]) == chance.draw(LAW)


def test_keyed_noise_flips_no_coins() -> None:
    with pytest.raises(AssertionError, match="flips no coins"):
        KeyedChance(0).uniform()

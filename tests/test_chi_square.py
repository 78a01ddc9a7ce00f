"""The chi-square test: against tables, and against many simulated samples."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from eagle_core.chi_square import Fit, fit, shifted_tail, tail

LAW = torch.tensor([0.4, 0.3, 0.2, 0.1])


def sample(law: torch.Tensor, count: int, seed: int) -> Counter[int]:
    generator = torch.Generator().manual_seed(seed)
    return Counter(torch.multinomial(law, count, True, generator=generator).tolist())


@pytest.mark.parametrize(
    ("statistic", "degrees", "prob"), [(3.841, 1, 0.05), (16.919, 9, 0.05), (27.877, 9, 0.001)]
)
def test_tails_are_those_of_printed_tables(statistic: float, degrees: int, prob: float) -> None:
    assert tail(statistic, degrees) == pytest.approx(prob, rel=1e-3)


def test_a_shift_of_nothing_is_no_shift_and_a_large_one_moves_the_mean() -> None:
    assert shifted_tail(16.919, 9, 1e-12) == pytest.approx(0.05, rel=1e-3)
    assert shifted_tail(9 + 400, 9, 400.0) == pytest.approx(0.5, abs=0.03)


def test_the_statistic_by_hand() -> None:
    made = fit({0: 50, 1: 30, 2: 10, 3: 10}, LAW)  # 10²/40 + 0 + 10²/20 + 0
    assert (made.num_samples, made.num_cells) == (100, 4)
    assert made.statistic == pytest.approx(7.5)
    assert made.p_value == pytest.approx(tail(7.5, 3))


def test_rare_tokens_share_a_cell() -> None:
    law = torch.tensor([0.5, 0.4, *(0.01,) * 10])
    assert fit({0: 50, 1: 40, 5: 10}, law).num_cells == 3
    law = torch.tensor([0.5, 0.49, *(0.001,) * 10])
    assert fit({0: 50, 1: 49, 5: 1}, law).num_cells == 2, "too rare even together"


def test_a_token_that_cannot_be_is_noticed_at_once() -> None:
    assert fit({0: 99, 1: 1}, torch.tensor([1.0, 0.0])).p_value == 0.0


def test_what_follows_its_law_seldom_fails() -> None:
    p_values = [fit(sample(LAW, 400, seed), LAW).p_value for seed in range(300)]
    assert sum(p < 0.05 for p in p_values) / 300 == pytest.approx(0.05, abs=0.04)
    assert sum(p < 0.5 for p in p_values) / 300 == pytest.approx(0.5, abs=0.09)


def test_a_deviation_of_the_size_it_names_is_noticed_as_often_as_it_says() -> None:
    """The least favourable one of that total variation: spread in proportion to the law."""
    flat = torch.full((4,), 0.25)
    reach = Fit(400, 4, 0.0, 1.0).smallest_deviation(error=0.01, power=0.9)
    assert 0.05 < reach < 0.2
    biased = flat + torch.tensor([1.0, 1.0, -1.0, -1.0]) * reach / 2
    noticed = [fit(sample(biased, 400, seed), flat).p_value < 0.01 for seed in range(300)]
    assert sum(noticed) / 300 == pytest.approx(0.9, abs=0.06)


def test_more_samples_see_smaller_deviations() -> None:
    reaches = [
        Fit(n, 10, 0.0, 1.0).smallest_deviation(error=1e-3, power=0.95) for n in (100, 400, 1600)
    ]
    assert reaches[0] == pytest.approx(2 * reaches[1], rel=0.01)
    assert reaches[1] == pytest.approx(2 * reaches[2], rel=0.01)


def test_one_cell_sees_nothing() -> None:
    assert Fit(100, 1, 0.0, 1.0).smallest_deviation(error=1e-3, power=0.95) == 1.0

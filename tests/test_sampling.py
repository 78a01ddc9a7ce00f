"""From logits to laws, in transformers' order, and from laws to tokens."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES
from torch import Tensor
from toys import written
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.sampling import LawMaker, SeededChance, keep_top_k, keep_top_p, most_probable
from eagle_core.targets.base import TargetRead
from eagle_core.tree import DraftTree


def by_hand(logits: list[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """Temperature, then top-k, then top-p, without torch."""
    scores = [logit / temperature for logit in logits]
    order = sorted(range(len(scores)), key=lambda token: -scores[token])
    kept = order[:top_k] if top_k else order
    weights = {token: math.exp(scores[token] - scores[order[0]]) for token in kept}
    mass, nucleus = 0.0, []
    for token in kept:
        if mass >= top_p:
            break
        nucleus.append(token)
        mass += weights[token] / sum(weights.values())
    total = sum(weights[token] for token in nucleus)
    return [weights[token] / total if token in nucleus else 0.0 for token in range(len(scores))]


def law(logits: list[float], **options: float) -> list[float]:
    made = LawMaker(RunOptions(**options)).law(torch.tensor(logits, dtype=torch.float64))  # type: ignore[arg-type]
    return made.tolist()  # type: ignore[no-any-return]


@EXAMPLES
@given(
    st.lists(st.floats(-8, 8), min_size=2, max_size=9, unique_by=lambda x: round(x, 3)),
    st.floats(0.1, 3.0),
    st.integers(0, 9),
    st.floats(0.05, 1.0),
)
def test_laws_are_what_the_definition_says(
    logits: list[float], temperature: float, top_k: int, top_p: float
) -> None:
    made = law(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    assert made == pytest.approx(by_hand(logits, temperature, top_k, top_p), abs=1e-12)


LOGITS = [math.log(p) for p in (0.4, 0.3, 0.2, 0.1)]


@pytest.mark.parametrize("temperature", [1e-40, 1e-300])
def test_a_temperature_is_refused_or_gives_a_law(temperature: float) -> None:
    try:
        options = RunOptions(temperature=temperature)
    except OptionError:
        return
    made = LawMaker(options).law(torch.tensor([1.0, 2.0, 20.0]))
    assert made.tolist() == [0.0, 0.0, 1.0]


def test_top_p_is_taken_after_the_temperature() -> None:
    """At temperature 1/2 the law is (16, 9, 4, 1) ÷ 30: two tokens reach 0.8 instead of three."""
    assert law(LOGITS, temperature=1.0, top_p=0.8) == pytest.approx([4 / 9, 3 / 9, 2 / 9, 0.0])
    assert law(LOGITS, temperature=0.5, top_p=0.8) == pytest.approx([16 / 25, 9 / 25, 0.0, 0.0])


def test_top_p_is_taken_of_what_top_k_left() -> None:
    """Of the first three, two have 7/9 of the mass; of all four only 0.7, short of 0.75."""
    assert law(LOGITS, temperature=1.0, top_k=3, top_p=0.75) == pytest.approx([4 / 7, 3 / 7, 0, 0])
    assert law(LOGITS, temperature=1.0, top_p=0.75) == pytest.approx([4 / 9, 3 / 9, 2 / 9, 0.0])


def test_top_p_keeps_the_most_probable_token_however_small_it_is() -> None:
    assert law(LOGITS, temperature=1.0, top_p=1e-9) == [1.0, 0.0, 0.0, 0.0]


def test_top_p_stops_once_it_is_reached_exactly() -> None:
    scores = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64).log()
    assert keep_top_p(scores, 0.75).isfinite().tolist() == [True, True, False, False]
    assert keep_top_p(scores, 0.7500001).isfinite().tolist() == [True, True, True, False]


def test_top_k_keeps_ties_with_the_last_one_kept() -> None:
    scores = torch.tensor([1.0, 3.0, 2.0, 2.0])
    assert keep_top_k(scores, 2).isfinite().tolist() == [False, True, True, True]


@pytest.mark.parametrize("top_k", [4, 5, 50_000])
def test_a_top_k_of_the_whole_vocabulary_or_more_changes_nothing(top_k: int) -> None:
    assert law(LOGITS, temperature=1.0, top_k=top_k) == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_at_temperature_zero_the_law_is_the_plain_softmax() -> None:
    assert law(LOGITS, top_k=1, top_p=0.1) == pytest.approx([0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    ("dtype", "made"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
    ],
    ids=str,
)
def test_laws_are_float32_or_better(dtype: torch.dtype, made: torch.dtype) -> None:
    laws = LawMaker(RunOptions(temperature=0.7, top_p=0.9, top_k=3))
    assert laws.law(torch.zeros(2, 5, dtype=dtype)).dtype == made


def test_rows_are_processed_alike_together_and_alone() -> None:
    laws = LawMaker(RunOptions(temperature=0.7, top_p=0.8, top_k=3))
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    together = laws.law(logits)
    assert torch.equal(together, torch.stack([laws.law(row) for row in logits]))


def test_logits_are_left_as_they_were() -> None:
    logits = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    before = logits.clone()
    LawMaker(RunOptions(temperature=0.7, top_p=0.5, top_k=2)).law(logits)
    assert torch.equal(logits, before)


def test_the_law_at_a_node_is_made_once_and_only_when_asked_for() -> None:
    class Counting(LawMaker):
        num_made = 0

        def law(self, logits: Tensor, **more: Any) -> Tensor:
            self.num_made += 1
            return super().law(logits, **more)

    laws = Counting(RunOptions(temperature=1.0))
    read = TargetRead(logits=torch.eye(3), features=torch.zeros(3, 0))
    of_node = laws.of(DraftTree((9, 0, 1), (None, 0, 1), (0.0,) * 3), read)
    assert laws.num_made == 0
    assert of_node(1) is of_node(1)
    assert torch.equal(of_node(1), torch.eye(3)[1].softmax(-1))
    assert laws.num_made == 1


@EXAMPLES
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=300), st.floats(0.01, 0.999))
def test_top_p_by_ranking_a_few_keeps_what_sorting_all_would(
    levels: list[int], top_p: float
) -> None:
    """Whole numbers make many ties; of those the first tokens are taken."""
    scores = torch.tensor(levels, dtype=torch.float64) / 2
    order = sorted(range(len(levels)), key=lambda token: (-levels[token], token))
    probs = scores.softmax(-1).tolist()
    kept, mass = set[int](), 0.0
    for token in order:
        if mass >= top_p:
            break
        kept.add(token)
        mass += probs[token]
    made = keep_top_p(scores, top_p).isfinite().nonzero().flatten().tolist()
    assert len({*made} ^ kept) <= 1, "one more or less where rounding decides"
    assert {*made} == kept or abs(sum(probs[t] for t in {*made} & kept) - top_p) < 1e-12


def test_top_p_ranks_a_long_flat_vocabulary_to_its_end() -> None:
    scores = torch.zeros(1000, dtype=torch.float64)
    assert keep_top_p(scores, 0.5).isfinite().sum() == 500
    assert keep_top_p(scores, 0.9999).isfinite().sum() == 1000


# Against transformers.

PROCESSING = st.fixed_dictionaries(
    {
        "temperature": st.floats(0.2, 3.0),
        "top_k": st.integers(0, 40),
        "top_p": st.floats(0.1, 1.0),
        "min_p": st.floats(0.0, 0.5),
        "repetition_penalty": st.floats(0.5, 2.0),
    }
)
WORDS = st.lists(st.integers(0, 29), min_size=1, max_size=12)


def by_transformers(logits: Tensor, text: list[int], wanted: dict[str, Any]) -> Tensor:
    """Its own processors, chosen and ordered by its own `generate`."""
    config = LlamaConfig(
        vocab_size=30, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1,
    )  # fmt: skip
    generation = GenerationConfig(do_sample=True, **(wanted | {"top_k": wanted["top_k"] or None}))
    processors = LlamaForCausalLM(config)._get_logits_processor(
        generation, input_ids_seq_length=len(text), device="cpu"
    )
    return processors(torch.tensor([text]), logits[None])[0].softmax(-1)  # type: ignore[no-any-return]


@EXAMPLES
@given(PROCESSING, WORDS, WORDS, st.integers(0, 10**6))
def test_laws_are_those_of_transformers_own_processors(
    wanted: dict[str, Any], prompt: list[int], answer: list[int], seed: int
) -> None:
    logits = torch.randn(30, generator=torch.Generator().manual_seed(seed)) * 3
    laws = LawMaker(RunOptions(**wanted)).after(written(prompt, answer))
    expected = by_transformers(logits, prompt + answer, wanted)
    torch.testing.assert_close(laws.law(logits), expected, atol=1e-6, rtol=1e-5)


@EXAMPLES
@given(WORDS, WORDS, st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 10**6))
def test_presence_and_frequency_count_the_answer_and_the_path_but_not_the_prompt(
    prompt: list[int], answer: list[int], presence: float, frequency: float, seed: int
) -> None:
    logits = torch.randn(30, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    options = RunOptions(temperature=1.0, presence_penalty=presence, frequency_penalty=frequency)
    path = answer[len(answer) // 2 :]
    laws = LawMaker(options).after(written(prompt, answer[: len(answer) // 2]))
    expected = logits.clone()
    for token in set(answer):
        expected[token] -= presence + frequency * answer.count(token)
    made = laws.law(logits[None], drafted=[path])[0]
    torch.testing.assert_close(made, expected.softmax(-1), atol=1e-12, rtol=0)


def test_repetition_is_penalised_before_presence_and_frequency() -> None:
    options = RunOptions(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25)
    laws = LawMaker(options).after(written([0, 1], [1, 1, 2]))
    made = laws.scores(torch.tensor([4.0, 4.0, -4.0, 4.0]))
    assert made.tolist() == [2.0, 2.0 - 0.5 - 0.5, -8.0 - 0.5 - 0.25, 4.0]


def test_penalties_find_the_tokens_of_a_draft_vocabulary() -> None:
    """Columns 0, 1, 2 stand for the tokens 5, 1, 3; the text has 3, 3, 7 and the path 5."""
    laws = LawMaker(RunOptions(frequency_penalty=1.0)).after(written([1], [3, 3, 7]))
    vocabulary = torch.tensor([5, 1, 3])
    made = laws.scores(torch.zeros(1, 3), drafted=[(5,)], vocabulary=vocabulary)
    assert made.tolist() == [[-1.0, 0.0, -2.0]]


def test_at_every_node_its_own_path_is_penalised() -> None:
    #   root 9 ─┬─ 0 ── 1
    #           └─ 1
    tree = DraftTree((2, 0, 1, 1), (None, 0, 0, 1), (0.0,) * 4)
    read = TargetRead(logits=torch.zeros(4, 3), features=torch.zeros(4, 0))
    laws = LawMaker(RunOptions(temperature=1.0, frequency_penalty=1.0)).after(written([0], [2]))
    law = laws.of(tree, read)
    for node, counts in enumerate([(0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1)]):
        torch.testing.assert_close(law(node), (-torch.tensor(counts).float()).softmax(-1))


def test_without_penalties_no_text_is_looked_at() -> None:
    laws = LawMaker(RunOptions(temperature=0.7, top_p=0.9))
    assert laws.after(written([0], [2])) is laws


def draws(law: Tensor, *, seed: int = 0, count: int = 20) -> list[int]:
    chance = SeededChance(seed)
    return [chance.draw(law) for _ in range(count)]


def test_the_same_seed_draws_the_same_tokens() -> None:
    law = torch.full((50,), 0.02)
    assert draws(law, seed=3) == draws(law, seed=3)
    assert draws(law, seed=3) != draws(law, seed=4)


def test_tokens_come_as_often_as_their_law_says_normalised_or_not() -> None:
    count = 4_000
    for scale in (1.0, 7.0, 1e-6):
        seen = draws(torch.tensor([0.5, 0.0, 0.2, 0.3]) * scale, count=count)
        shares = [seen.count(token) / count for token in range(4)]
        assert shares == pytest.approx([0.5, 0.0, 0.2, 0.3], abs=0.03)  # over 3 deviations
        assert seen.count(1) == 0


@pytest.mark.parametrize(("number", "token"), [(0.0, 1), (0.49, 1), (0.5, 3), (0.99, 3)])
def test_a_draw_inverts_the_cumulated_law(number: float, token: int) -> None:
    chance = SeededChance(0)
    chance._random.random = lambda: number  # type: ignore[method-assign]
    assert chance.draw(torch.tensor([0.0, 0.5, 0.0, 0.5])) == token


@pytest.mark.parametrize("number", [0.0, 0.25, 0.5, 0.999999999999, 1 - 2**-53])
def test_a_token_of_probability_zero_is_never_drawn(number: float) -> None:
    chance = SeededChance(0)
    chance._random.random = lambda: number  # type: ignore[method-assign]
    for law in ([0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 0.1, 0.0], [0.0] * 40 + [0.1] * 10 + [0.0] * 9):
        assert law[chance.draw(torch.tensor(law))] > 0


def test_uniform_numbers_lie_below_one() -> None:
    chance = SeededChance(1)
    assert all(0.0 <= chance.uniform() < 1.0 for _ in range(1_000))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_most_probable_token_is_the_first_of_equals(dtype: torch.dtype) -> None:
    assert most_probable(torch.tensor([0.1, 0.4, 0.1, 0.4], dtype=dtype)) == 1
    law = torch.rand(1000, generator=torch.Generator().manual_seed(2)).to(dtype)
    assert most_probable(law) == int(law.argmax())
    assert most_probable(law[::3]) == int(law[::3].argmax())

"""A step at another temperature: against the rules themselves where laws are known whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from benches import tiny_bench
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES, SETTINGS, chain_step

from eagle_core.contests import CONTESTS
from eagle_core.errors import OptionError
from eagle_core.options import RunOptions
from eagle_core.reheat import TRIALS, PartialLaw, reheat, rule_at
from eagle_core.trace import LEAST_SHOWN, NodeLaws, TopLaw, Trace
from eagle_core.trace_json import load_trace

SAMPLED = Path(__file__).parent.parent / "assets" / "traces" / "03-story-sampled.json"
SIZE = 6
weights = st.lists(st.integers(1, 60), min_size=SIZE, max_size=SIZE)


def normal(counts: list[int]) -> list[float]:
    return [count / sum(counts) for count in counts]


def known(probs: list[float]) -> PartialLaw:
    return PartialLaw(dict(enumerate(probs)), 0.0, 0.0)


@EXAMPLES
@given(weights, weights, st.permutations(range(SIZE)), st.sampled_from(sorted(TRIALS)))
def test_of_laws_known_whole_every_trial_is_the_contests(
    target: list[int], draft: list[int], order: list[int], rule: str
) -> None:
    tokens = order[:4]
    law, draft_law = (torch.tensor(normal(one), dtype=torch.float64) for one in (target, draft))
    contest = CONTESTS[rule](law, draft_law)  # type: ignore[index]  # a name of the same rules
    expected = []
    for token in tokens:
        expected.append(contest.accept_prob(token))
        contest.refuse(token)
    ours = TRIALS[rule](known(normal(target)), known(normal(draft)), tokens)
    passed = list(accumulate((1 - chance for chance in [0.0, *expected[:-1]]), lambda a, b: a * b))
    for mine, theirs, is_reached in zip(ours, expected, passed, strict=True):
        if is_reached > 1e-9:  # a chance that is never asked for says nothing
            assert mine == pytest.approx(theirs, abs=1e-9)


@EXAMPLES
@given(weights, st.floats(0.2, 4.0))
def test_a_law_known_whole_is_the_softmax_at_the_other_temperature(
    counts: list[int], exponent: float
) -> None:
    logits = torch.tensor(counts, dtype=torch.float64).log()
    expected = (logits * exponent).softmax(-1)
    law = known(normal(counts)).at(exponent)
    assert [law.prob(token) for token in range(SIZE)] == pytest.approx(expected.tolist())


@EXAMPLES
@given(st.lists(st.integers(1, 400), min_size=30, max_size=30), st.floats(0.2, 4.0))
def test_what_is_shown_is_at_least_the_truth_hotter_and_at_most_colder(
    counts: list[int], exponent: float
) -> None:
    probs = sorted(normal(counts), reverse=True)
    whole = known(probs).at(exponent)
    top = PartialLaw.of(TopLaw(tuple(range(10)), tuple(probs[:10])), {}).at(exponent)
    for token in range(10):
        if exponent > 1:
            assert top.prob(token) <= whole.prob(token) + 1e-9
        else:
            assert top.prob(token) >= whole.prob(token) - 1e-9


def test_nodes_are_known_exactly_and_taken_out_of_the_rest() -> None:
    law = PartialLaw.of(TopLaw((1, 2), (0.7, 0.2)), {2: 0.21, 9: 0.04})
    assert (law.prob(2), law.prob(9)) == (0.21, 0.04)
    assert law.rest == pytest.approx(0.05)
    assert law.cap == LEAST_SHOWN
    assert law.prob(77) == 0.0


def test_extremes_neither_vanish_nor_overflow() -> None:
    law = PartialLaw.of(TopLaw((1, 2), (0.004, 0.002)), {})
    for exponent in (1e-3, 1.0, 200.0):
        heated = law.at(exponent)
        assert sum(heated.probs.values()) + heated.rest == pytest.approx(1)
    assert PartialLaw.of(TopLaw((), ()), {}).at(3.0).mode is None


def traced(temperature: float, rule: str) -> Trace:
    options = RunOptions(max_new_tokens=30, temperature=temperature, rule=rule, tree="tree:8")
    recording = tiny_bench().race("hello", options)
    list(recording)
    return recording.trace()


def errors_at_its_own_temperature(trace: Trace) -> tuple[list[float], list[float]]:
    """Of first children, and of those tried after a refusal."""
    errors: tuple[list[float], list[float]] = ([], [])
    for step in trace.lane("eagle").steps:
        for visit in reheat(step, trace.settings, temperature=trace.settings.temperature):
            for place, child in enumerate(visit.children):
                errors[place > 0].append(abs(child.accept_prob - child.recorded))
    return errors


@pytest.mark.parametrize(
    ("temperature", "rule"),
    [
        (0.0, "greedy"),
        (0.7, "one_hot"),
        (0.7, "seeded"),
        (0.7, "iid"),
        (0.7, "without_replacement"),
    ],
)
def test_at_its_own_temperature_a_step_comes_out_as_recorded(temperature: float, rule: str) -> None:
    first, later = errors_at_its_own_temperature(traced(temperature, rule))
    assert len(first) > 10
    assert len(later) > 10
    assert max(first) < 1e-6
    if rule in ("greedy", "one_hot", "seeded"):
        assert max(later) < 1e-6


def test_after_refusals_of_drawn_children_a_real_trace_comes_out_nearly() -> None:
    """Tops of ten hold most of a real law, unlike the toy's."""
    trace = load_trace(SAMPLED.read_text("utf-8"))
    assert trace.settings.rule == "without_replacement"
    first, later = errors_at_its_own_temperature(trace)
    assert max(first) < 1e-3
    assert max(later) < 0.1
    assert sum(later) / len(later) < 0.01


def test_at_temperature_zero_the_best_token_alone_is_kept() -> None:
    trace = traced(0.7, "without_replacement")
    for step in trace.lane("eagle").steps:
        for visit in reheat(step, trace.settings, temperature=0.0):
            kept = [child for child in visit.children if child.accept_prob == 1.0]
            assert {child.token for child in kept} <= {visit.recorded_target.mode}
            assert all(child.accept_prob in (0.0, 1.0) for child in visit.children)
            assert visit.kept_prob == float(bool(kept))


def test_a_greedy_step_is_judged_one_hot_where_it_gets_warm() -> None:
    assert rule_at(0.0, replace(SETTINGS, rule="iid")) == "greedy"
    assert rule_at(0.5, SETTINGS) == "one_hot"
    assert rule_at(0.5, replace(SETTINGS, rule="iid")) == "iid"
    with pytest.raises(OptionError, match="rule block"):
        rule_at(0.5, replace(SETTINGS, rule="block"))


def test_the_chance_of_any_child_is_that_of_not_refusing_all() -> None:
    step = replace(
        chain_step(5, 6, kept=1, bonus=7), laws=(NodeLaws(0, TopLaw((6, 8), (0.5, 0.5))),)
    )
    (visit,) = reheat(step, SETTINGS, temperature=1.0)
    assert [child.token for child in visit.children] == [6]
    assert visit.kept_prob == pytest.approx(visit.children[0].accept_prob)
    assert visit.recorded_kept_prob == 0.5


def test_a_step_without_laws_is_refused() -> None:
    with pytest.raises(OptionError, match="without recorded laws"):
        reheat(chain_step(5, 6, kept=1, bonus=7), SETTINGS, temperature=1.0)

"""What must hold for any target, head, tree and prompt, tried on many of them."""

from __future__ import annotations

import proofs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import EXAMPLES
from toys import (
    TableTarget,
    eagle_drafter,
    hopeless_drafter,
    open_decoding,
    perfect_drafter,
)

from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.tree import DraftTree, SiblingKind, TreePlan

FEW = settings(EXAMPLES, max_examples=20)
prompts = st.lists(st.integers(0, 22), min_size=1, max_size=12)
worlds = st.integers(0, 5).map(proofs.world)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int | None, ...]:
    """Parents of a tree's nodes, level by level: never falling, so that depths never fall."""
    parents: list[int | None] = [None]
    least = 0
    for node in range(1, draw(st.integers(2, 12))):
        least = draw(st.integers(least, node - 1))
        parents.append(least)
    return tuple(parents)


@FEW
@given(worlds, prompts, shapes(), st.integers(1, 30))
def test_greedy_texts_are_equal(
    world: proofs.World, prompt: list[int], shape: tuple[int | None, ...], num_tokens: int
) -> None:
    proofs.greedy_texts_are_equal(world, prompt, TreePlan(shape), num_tokens)


@FEW
@given(prompts, shapes(), st.frozensets(st.integers(0, 22), min_size=4, max_size=8))
def test_greedy_texts_end_alike_at_any_of_several_end_tokens(
    prompt: list[int], shape: tuple[int | None, ...], end_tokens: frozenset[int]
) -> None:
    world = proofs.world(1, end_tokens=end_tokens)
    proofs.greedy_texts_are_equal(world, prompt, TreePlan(shape))


@FEW
@given(worlds, prompts, shapes(), st.data())
def test_tree_logits_equal_those_of_paths(
    world: proofs.World, prompt: list[int], shape: tuple[int | None, ...], data: st.DataObject
) -> None:
    size = len(shape)
    tokens = data.draw(st.lists(st.integers(0, 22), min_size=size, max_size=size))
    tree = DraftTree(tuple(tokens), shape, (0.0,) * size)
    proofs.tree_logits_equal_those_of_paths(world, prompt, tree)


@FEW
@given(
    prompts,
    shapes(),
    st.integers(1, 30),
    st.sampled_from([0.0, 4.0]),
    st.sampled_from([frozenset(), frozenset({2, 9})]),
)
def test_the_cache_is_that_of_a_fresh_prefill(
    prompt: list[int],
    shape: tuple[int | None, ...],
    num_tokens: int,
    temperature: float,
    end_tokens: frozenset[int],
) -> None:
    world = proofs.world(2, end_tokens=end_tokens)
    options = RunOptions(num_tokens, temperature)
    plan = proofs.planned(shape, options.resolved_rule)
    proofs.the_cache_is_that_of_a_fresh_prefill(world, prompt, plan, options)


@pytest.mark.parametrize("seed", range(3))
def test_tapped_states_equal_the_naive_pass(seed: int) -> None:
    proofs.tapped_states_equal_the_naive_pass(proofs.world(seed), (3, 1, 20, 7, 7))


@pytest.mark.parametrize("seed", range(3))
def test_drafts_equal_the_naive_pass(seed: int) -> None:
    proofs.drafts_equal_the_naive_pass(proofs.world(seed), (3, 1, 20))


sampled = st.builds(
    RunOptions,
    max_new_tokens=st.integers(1, 16),
    temperature=st.floats(0.2, 2.5),
    top_p=st.floats(0.3, 1.0),
    top_k=st.integers(0, 12),
    min_p=st.floats(0.0, 0.2),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 2**63 - 1),
    rule=st.just("seeded"),
)
kinds = st.sampled_from(["one_hot", "without_replacement", "iid"])


@settings(EXAMPLES, max_examples=12)
@given(worlds, prompts, shapes(), kinds, sampled)
def test_seeded_matching_equals_plain_sampling(
    world: proofs.World,
    prompt: list[int],
    shape: tuple[int | None, ...],
    kind: SiblingKind,
    options: RunOptions,
) -> None:
    proofs.seeded_texts_are_equal(world, prompt, TreePlan(shape, kind), options)


@pytest.mark.parametrize(
    "make_drafter", [perfect_drafter, hopeless_drafter, eagle_drafter], ids=lambda m: m.__name__
)
def test_seeded_matching_equals_plain_sampling_with_any_drafter(make_drafter: object) -> None:
    target = TableTarget(vocab_size=30, seed=3)
    for seed in range(3):
        options = RunOptions(max_new_tokens=30, temperature=1.0, rule="seeded", seed=seed)
        plan = TreePlan(proofs.BUSHY, "without_replacement")
        drafter = make_drafter(target)  # type: ignore[operator]
        eagle = Engine(open_decoding(target, options), drafter, plan=plan).steps(proofs.PROMPT)
        plain = Plain(open_decoding(target, options)).steps(proofs.PROMPT)
        assert proofs.text_of(eagle) == proofs.text_of(plain)


def test_a_drafter_that_shares_the_noise_is_kept_whole_where_its_law_is_the_targets() -> None:
    """Its first draws are then the target's own."""
    target = TableTarget(vocab_size=30, seed=3)
    options = RunOptions(max_new_tokens=25, temperature=1.0, rule="seeded")
    plan = TreePlan((None, 0, 1, 2, 3, 4), "without_replacement")
    engine = Engine(open_decoding(target, options), perfect_drafter(target), plan=plan)
    _, *steps = engine.steps(proofs.PROMPT)
    assert [step.num_accepted for step in steps] == [5, 5, 5, 5]  # type: ignore[union-attr]

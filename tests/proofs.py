"""Proofs as functions: each raises AssertionError where what it is named after does not hold.

`test_lossless` and `test_proofs` run them on the engine as it is, over many cases; `test_faults`
plants faults in the engine and sees them raise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import naive
import torch
from toys import (
    AlwaysZero,
    Law,
    TableTarget,
    enumerate_outcomes,
    hopeless_drafter,
    total_variation,
    written,
)
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.decoding import Decoding
from eagle_core.drafters.base import Drafter
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.head import EagleHead, HeadConfig
from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.planning import Plan
from eagle_core.plans import chain
from eagle_core.rules import FACTS, Rule
from eagle_core.sampling import Chance, LawMaker
from eagle_core.targets.hf import HfTarget
from eagle_core.trace import Event, Step
from eagle_core.tree import DraftTree, TreePlan
from eagle_core.verify import walk

MakeDrafter = Callable[[TableTarget], Drafter]

PROMPT = (1, 2, 0)
SO_FAR = written(PROMPT[:-1], PROMPT[-1:])  # the last token is the answer's first, and the root
#     root ─┬─ o ─┬─ o
#           ├─ o  └─ o          three siblings, then two, so that a refusal changes a law twice
#           └─ o
BUSHY = (None, 0, 0, 0, 1, 1)
#     root ─┬─ o
#           └─ o ── o ── o      three levels below a second child
DEEP = (None, 0, 0, 2, 3)
#     root ─┬─ o ── o           two levels, small enough for whole texts of several steps
#           └─ o
SMALL = (None, 0, 0, 1)
CHAIN = (None, 0, 1, 2)


def planned(shape: tuple[int | None, ...], rule: Rule) -> TreePlan:
    return TreePlan(shape, FACTS[rule].siblings)


def text_of(events: Iterable[Event]) -> tuple[int, ...]:
    return tuple(token for event in events for token in event.committed)


def trees_of_one_step(
    target: TableTarget, options: RunOptions, plan: Plan, make_drafter: MakeDrafter
) -> dict[DraftTree, float]:
    """The trees below the last token of the prompt, over every draw."""
    laws, drafter = LawMaker(options).after(SO_FAR), make_drafter(target)
    before = torch.tensor(PROMPT[:-1])
    prompt_read = target.open().prefill(before, taps=drafter.taps)

    def grow(chance: Chance) -> DraftTree:
        drafter.begin(before, prompt_read)
        return drafter.grow_tree(PROMPT[-1], plan=plan, laws=laws, chance=chance)

    return enumerate_outcomes(grow)


def shapes_of_one_step(
    target: TableTarget, options: RunOptions, plan: Plan, make_drafter: MakeDrafter
) -> set[tuple[int | None, ...]]:
    return {tree.parents for tree in trees_of_one_step(target, options, plan, make_drafter)}


def law_of_one_step(
    target: TableTarget, options: RunOptions, plan: Plan, make_drafter: MakeDrafter
) -> Law:
    """What a step commits below the last token of the prompt, over every draw and every coin."""
    rule, laws = options.resolved_rule, LawMaker(options).after(SO_FAR)
    run = target.open()
    run.prefill(torch.tensor(PROMPT[:-1]))
    committed: Law = defaultdict(float)
    for tree, prob in trees_of_one_step(target, options, plan, make_drafter).items():
        law = laws.of(tree, run.score_tree(tree))

        def play(chance: Chance, tree: DraftTree = tree, law: Any = law) -> tuple[int, ...]:
            return walk(tree, law, rule=rule, chance=chance).committed

        for text, share in enumerate_outcomes(play).items():
            committed[text] += prob * share
    return committed


def continued(target: TableTarget, law: Law, length: int, laws: LawMaker) -> Law:
    """The texts of `law`, the shorter ones continued by the target to `length` tokens.

    So would the next steps, by their own proofs.
    """
    whole: Law = defaultdict(float)
    for text, prob in law.items():
        answer = (*PROMPT[-1:], *text)
        rest = target.law_of_texts(PROMPT[:-1], length - len(text), laws, answer=answer)
        for more, share in rest.items():
            whole[(*text, *more)] += prob * share
    return whole


def a_step_keeps_the_law(
    target: TableTarget, options: RunOptions, plan: Plan, make_drafter: MakeDrafter
) -> None:
    committed = law_of_one_step(target, options, plan, make_drafter)
    reached = continued(target, committed, plan.depth + 1, LawMaker(options))
    expected = target.law_of_texts(
        PROMPT[:-1], plan.depth + 1, LawMaker(options), answer=PROMPT[-1:]
    )
    assert total_variation(reached, expected) < 1e-9


def a_draw_of_zero_keeps_nothing_the_target_rules_out(rule: Rule) -> None:
    target = TableTarget(vocab_size=8, seed=3)
    options = RunOptions(max_new_tokens=30, temperature=1.0, top_k=2, rule=rule)
    decoding = replace(Decoding.open(target, options), chance=AlwaysZero())
    engine = Engine(decoding, hopeless_drafter(target), plan=chain(2, FACTS[rule].siblings))
    steps = [event for event in engine.steps(PROMPT) if isinstance(event, Step)]
    ruled_out = [node for s in steps for node in s.nodes[1:] if node.target_prob == 0.0]
    assert ruled_out, "a hopeless drafter proposes tokens outside the target's top 2"
    assert not any(node.verdict == "accepted" for node in ruled_out)


# A real transformers model with a real head, both tiny and of random weights.

CLOSE = {"atol": 2e-4, "rtol": 2e-4}  # float32, and kernels differ with the number of rows


@dataclass(frozen=True, eq=False)
class World:
    target: HfTarget
    head: EagleHead

    def decoding(self, options: RunOptions) -> Decoding:
        return Decoding.open(self.target, options)

    def drafter(self) -> NotingDrafter:
        return NotingDrafter(
            self.head,
            self.target.spec,
            embedding=self.target.embedding(),
            unembedding=self.target.unembedding(),
        )

    def plain(self, prompt: Sequence[int], options: RunOptions) -> list[Event]:
        return list(Plain(self.decoding(options)).steps(prompt))

    def eagle(self, prompt: Sequence[int], options: RunOptions, plan: TreePlan) -> list[Event]:
        return list(Engine(self.decoding(options), self.drafter(), plan=plan).steps(prompt))


class NotingDrafter(EagleDrafter):
    """The real drafter, whose trees can be looked at afterwards."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.trees: list[DraftTree] = []

    def grow_tree(self, root: int, **more: Any) -> DraftTree:
        tree = super().grow_tree(root, **more)
        self.trees.append(tree)
        return tree


@lru_cache(maxsize=16)
def world(seed: int = 0, *, end_tokens: frozenset[int] = frozenset()) -> World:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=23,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=96,
            initializer_range=0.4,  # large enough for attention to matter
            eos_token_id=None,
        )
        model = LlamaForCausalLM(config)
        head = EagleHead(
            HeadConfig(
                width=16,
                num_heads=4,
                num_kv_heads=2,
                head_dim=4,
                intermediate_size=24,
                vocab_size=23,
                max_positions=96,
            )
        )
        for weight in head.parameters():
            torch.nn.init.normal_(weight, std=0.4)
    for norm in [*(layer.input_layernorm for layer in model.model.layers), model.model.norm]:
        torch.nn.init.uniform_(norm.weight, 0.5, 2.0, torch.Generator().manual_seed(seed))
    return World(HfTarget(model, name="tiny", end_tokens=end_tokens), head)


def with_positions(head: EagleHead, max_positions: int) -> EagleHead:
    """The same weights in a head made for shorter texts."""
    shorter = EagleHead(replace(head.config, max_positions=max_positions))
    shorter.load_state_dict(head.state_dict())
    return shorter


def greedy_texts_are_equal(
    world: World, prompt: Sequence[int], plan: TreePlan, num_tokens: int = 24
) -> None:
    options = RunOptions(max_new_tokens=num_tokens)
    plain, eagle = world.plain(prompt, options), world.eagle(prompt, options, plan)
    assert text_of(eagle) == text_of(plain)
    assert eagle[-1].stop == plain[-1].stop


def seeded_texts_are_equal(
    world: World, prompt: Sequence[int], plan: TreePlan, options: RunOptions
) -> None:
    plain, eagle = world.plain(prompt, options), world.eagle(prompt, options, plan)
    assert text_of(eagle) == text_of(plain)


def tree_logits_equal_those_of_paths(world: World, prompt: Sequence[int], tree: DraftTree) -> None:
    """Against the model's own plain forward, one pass per node."""
    run = world.target.open()
    run.prefill(torch.tensor(prompt))
    scored = run.score_tree(tree).logits
    for node in range(len(tree)):
        text = torch.tensor([*prompt, *tree.tokens_on(tree.path_to(node))])
        plain = world.target.model(input_ids=text[None], use_cache=False).logits[0, -1]
        torch.testing.assert_close(scored[node], plain, **CLOSE)


def the_cache_is_that_of_a_fresh_prefill(
    world: World, prompt: Sequence[int], plan: TreePlan, options: RunOptions
) -> None:
    """After every step: as many rows as committed tokens, and the same logits after them."""
    decoding, text = world.decoding(options), list(prompt)
    for event in Engine(decoding, world.drafter(), plan=plan).steps(prompt):
        text += event.committed
        was_cut = isinstance(event, Step) and event.bonus is None
        cached = text if was_cut else text[:-1]
        assert decoding.run.num_cached == len(cached)
    ours = decoding.run.score_tree(DraftTree.root_only(0)).logits[0]
    fresh = world.target.open().prefill(torch.tensor([*cached, 0])).logits[-1]
    torch.testing.assert_close(ours, fresh, **CLOSE)


def tapped_states_equal_the_naive_pass(world: World, prompt: Sequence[int]) -> None:
    num_layers = world.target.spec.num_layers
    taps = tuple(range(num_layers + 1))
    read = world.target.open().prefill(torch.tensor(prompt), taps=taps)
    states = naive.target_states(world.target.model, prompt)
    expected = torch.cat([*states.entering, states.post_norm], dim=-1)
    torch.testing.assert_close(read.features, expected.float(), **CLOSE)


def drafts_equal_the_naive_pass(world: World, prompt: Sequence[int]) -> None:
    """Every draft law of every step, after steps that kept paths of several lengths."""
    options = RunOptions(max_new_tokens=10, temperature=4.0, seed=1, rule="without_replacement")
    drafter, text = world.drafter(), list(prompt)
    plan = planned(BUSHY, "without_replacement")
    lengths = set()
    for event in Engine(world.decoding(options), drafter, plan=plan).steps(prompt):
        if isinstance(event, Step) and event.num_drafts:
            lengths.add(event.num_accepted)
            draft_laws_equal_the_naive_ones(world, text, drafter.trees[-1], options)
        text += event.committed
    assert lengths >= {0, 1}, "the toy is meant to keep paths of several lengths"


def draft_laws_equal_the_naive_ones(
    world: World, text: Sequence[int], tree: DraftTree, options: RunOptions
) -> None:
    for node in tree.inner_nodes:
        path = tree.tokens_on(tree.path_to(node)[1:])
        logits = naive.draft_logits(world.target.model, world.head, text, path)
        law = (logits / options.temperature).softmax(-1).float()
        torch.testing.assert_close(tree.laws[node], law, **CLOSE)

"""Faults planted in the engine, each noticed by the proof that is there for it.

Every proof holds before its fault is planted, so it is the fault that it notices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import proofs
import pytest
import torch
from torch import Tensor
from toys import TableTarget, eagle_drafter

from eagle_core import contests, verify
from eagle_core.contests import IidContest, OneHotContest, SeededContest, Trial
from eagle_core.decoding import Decoding
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.growth import Growth
from eagle_core.options import RunOptions
from eagle_core.plans import chain
from eagle_core.rules import Rule
from eagle_core.sampling import keep_top_p
from eagle_core.targets import hf
from eagle_core.targets.hf import HfRun
from eagle_core.targets.masks import causal_bias
from eagle_core.tree import DraftTree, TreePlan, depths_of
from eagle_core.verify import walk

Plant = Callable[[pytest.MonkeyPatch], None]
Proof = Callable[[], None]


# The proofs, with the cases that a fault shall show in.


def a_step_keeps_the_law(rule: Rule, shape: Any = proofs.BUSHY, **options: Any) -> None:
    wanted = RunOptions(**{"temperature": 1.0, "rule": rule, **options})
    plan = proofs.planned(shape, rule)
    proofs.a_step_keeps_the_law(TableTarget(vocab_size=3, seed=5), wanted, plan, eagle_drafter)


PROMPT = (3, 1, 20, 7)


def tree_logits_equal_those_of_paths() -> None:
    tree = DraftTree((5, 1, 2, 3, 4, 6, 7), (None, 0, 0, 1, 1, 2, 5), (0.0,) * 7)
    proofs.tree_logits_equal_those_of_paths(proofs.world(0), PROMPT, tree)


def the_cache_is_that_of_a_fresh_prefill() -> None:
    """At a temperature at which long paths are kept, some of them beyond an end token."""
    world = proofs.world(0, end_tokens=frozenset({4, 9, 15}))
    for seed in range(12):
        options = RunOptions(max_new_tokens=16, temperature=10.0, seed=seed)
        plan = chain(6, "without_replacement")
        proofs.the_cache_is_that_of_a_fresh_prefill(world, PROMPT, plan, options)


def drafts_equal_the_naive_pass() -> None:
    proofs.drafts_equal_the_naive_pass(proofs.world(0), PROMPT)


def tapped_states_equal_the_naive_pass() -> None:
    proofs.tapped_states_equal_the_naive_pass(proofs.world(0), PROMPT)


def greedy_texts_are_equal() -> None:
    for seed in range(3):
        proofs.greedy_texts_are_equal(proofs.world(seed), PROMPT, TreePlan(proofs.BUSHY))


def seeded_texts_are_equal() -> None:
    options = RunOptions(max_new_tokens=24, temperature=1.0, rule="seeded", seed=4)
    plan = proofs.planned(proofs.BUSHY, "seeded")
    for seed in range(3):
        proofs.seeded_texts_are_equal(proofs.world(seed), PROMPT, plan, options)


# The faults.


def siblings_law_not_renormalised(patch: pytest.MonkeyPatch) -> None:
    def without(law: Tensor, token: int) -> Tensor:
        return law.index_fill(0, torch.tensor([token]), 0.0)

    patch.setattr(contests, "without", without)
    patch.setattr(OneHotContest, "accept_prob", lambda self, token: float(self._left[token]))


def target_law_not_updated_after_a_refusal(patch: pytest.MonkeyPatch) -> None:
    for contest in (OneHotContest, IidContest):
        patch.setattr(contest, "refuse", lambda self, token: None)


def less_or_equal_for_less(patch: pytest.MonkeyPatch) -> None:
    def flip(accept_prob: float, chance: Any) -> Trial:
        draw = chance.uniform()
        return Trial(draw <= accept_prob, draw)

    patch.setattr(contests, "flip", flip)


def a_stale_residual_for_the_bonus(patch: pytest.MonkeyPatch) -> None:
    """What the last refusal of the walk left, even where the path went on below it."""
    last: list[Tensor] = []

    def begun(tree: DraftTree, *args: Any, **more: Any) -> Any:
        last.clear()
        return walk(tree, *args, **more)

    patch.setattr(proofs, "walk", begun)
    for contest in (OneHotContest, IidContest):
        patch.setattr(contest, "refuse", _noting(contest.refuse, last))
        patch.setattr(
            contest, "bonus", lambda self, chance: chance.draw(last[-1] if last else self._left)
        )


def _noting(refuse: Any, last: list[Tensor]) -> Any:
    def refuse_and_note(self: Any, token: int) -> None:
        refuse(self, token)
        last.append(self._left)

    return refuse_and_note


def a_law_without_its_last_processor_at_the_bonus(patch: pytest.MonkeyPatch) -> None:
    """Nodes with children are cut by top-p, the leaves are not."""
    depth_of_leaves = 2

    def of(self: Any, tree: DraftTree, read: Any) -> Any:
        whole = type(self)(replace(self._options, top_p=1.0))
        return lambda node: (whole if tree.depths[node] == depth_of_leaves else self).law(
            read.logits[node]
        )

    patch.setattr("eagle_core.sampling.LawMaker.of", of)


def one_history_for_all_nodes(patch: pytest.MonkeyPatch) -> None:
    """The penalties count the text alone and forget the path."""
    from eagle_core.penalties import PenalisedText

    real = PenalisedText.scores
    patch.setattr(
        PenalisedText, "scores", lambda self, logits, drafted=(), **more: real(self, logits, **more)
    )


def drafts_from_an_unprocessed_law(patch: pytest.MonkeyPatch) -> None:
    """The tree says it was drawn from the processed law; it was drawn from another one."""
    real = DraftTree.__post_init__

    def claimed(self: DraftTree) -> None:
        sharper = {node: keep_top_p(law.log(), 0.9).softmax(-1) for node, law in self.laws.items()}
        for node, law in sharper.items():
            children = [t for t, p in zip(self.tokens, self.parents, strict=True) if p == node]
            if all(law[child] > 0 for child in children):
                self.laws[node] = law  # type: ignore[index]
        real(self)

    patch.setattr(DraftTree, "__post_init__", claimed)


def a_mask_that_sees_siblings(patch: pytest.MonkeyPatch) -> None:
    def seeing(parents: Any, num_cached: int, *, dtype: torch.dtype) -> Tensor:
        return causal_bias(len(parents), num_cached, dtype=dtype)

    patch.setattr(hf, "tree_bias", seeing)


def position_plus_one(patch: pytest.MonkeyPatch) -> None:
    def deeper(self: DraftTree) -> tuple[int, ...]:
        return tuple(depth + 1 for depth in depths_of(self.parents))

    patch.setattr(DraftTree, "depths", property(deeper))


def position_plus_one_in_the_head(patch: pytest.MonkeyPatch) -> None:
    real = EagleDrafter._run_head

    def later(self: Any, tokens: Any, features: Tensor, *, positions: Tensor, mask: Any) -> Tensor:
        is_tree = isinstance(mask, Tensor)
        return real(self, tokens, features, positions=positions + is_tree, mask=mask)

    patch.setattr(EagleDrafter, "_run_head", later)


def a_stop_cut_after_the_cache_was_kept(patch: pytest.MonkeyPatch) -> None:
    def accept(self: Decoding, tree: DraftTree, law: Any, sequence: Any) -> Any:
        taken = verify.walk(tree, law, rule=self.rule, chance=self.chance)
        self.run.keep_path(taken.path)
        return self.stops.cut(taken, sequence)

    patch.setattr(Decoding, "accept", accept)


def taps_off_by(distance: int) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = HfRun._read

        def shifted(self: Any, *args: Any, taps: tuple[int, ...], **more: Any) -> Any:
            last = self._spec.last_state
            moved = tuple(min(max(tap + distance, 0), last) for tap in taps)
            return real(self, *args, taps=moved, **more)

        patch.setattr(HfRun, "_read", shifted)

    return plant


def a_feature_before_the_final_norm(patch: pytest.MonkeyPatch) -> None:
    real = HfRun._read

    def before_norm(self: Any, *args: Any, taps: tuple[int, ...], **more: Any) -> Any:
        seen: list[Tensor] = []
        hook = self._decoder.norm.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
        states, tapped = real(self, *args, taps=taps, **more)
        hook.remove()
        if taps:
            tapped = torch.cat([tapped[:, : -seen[0].shape[-1]], seen[0][0]], dim=-1)
        return states, tapped

    patch.setattr(HfRun, "_read", before_norm)


def an_unshifted_token(patch: pytest.MonkeyPatch) -> None:
    """Pair i holds token i instead of token i + 1."""
    real = EagleDrafter.begin

    def begin(self: Any, tokens: Tensor, read: Any) -> None:
        real(self, torch.cat([tokens[:1], tokens[:-1]]), read)

    patch.setattr(EagleDrafter, "begin", begin)


def draft_cache_kept_from_estimated_features(patch: pytest.MonkeyPatch) -> None:
    """The root's stable row is made from the estimate of its feature, not from the true one."""
    close_pairs, observe = EagleDrafter._close_pairs, EagleDrafter.observe

    def closing(self: Any, tokens: Any) -> Tensor:
        self._root_estimate = close_pairs(self, tokens)
        return self._root_estimate  # type: ignore[no-any-return]

    def observing(self: Any, taken: Any, read: Any) -> None:
        observe(self, taken, read)
        if len(self._root_estimate):
            self._open_features = torch.cat([self._root_estimate[-1:], self._open_features[1:]])

    patch.setattr(EagleDrafter, "_close_pairs", closing)
    patch.setattr(EagleDrafter, "observe", observing)


def noise_keyed_by_the_step(patch: pytest.MonkeyPatch) -> None:
    """The token's place in its step instead of its place in the text."""
    from eagle_core.noise import KeyedChance

    patch.setattr(
        KeyedChance,
        "ahead",
        lambda self, num_tokens: KeyedChance(self.seed, num_tokens),
    )


def a_second_draw_for_the_bonus(patch: pytest.MonkeyPatch) -> None:
    """Seeded matching that draws anew from the whole law once its choice was refused."""
    patch.setattr(SeededContest, "bonus", lambda self, chance: chance.draw(self._law))


def a_drawn_sibling_dropped_for_its_value(patch: pytest.MonkeyPatch) -> None:
    """The survivors no longer follow the draft law that the rule divides by."""
    real = Growth._add

    def adding(self: Any, parent: int, token: int, rank: int, log_prob: float) -> None:
        if log_prob > math.log(0.3):
            real(self, parent, token, rank, log_prob)

    patch.setattr(Growth, "_add", adding)


@dataclass(frozen=True)
class Fault:
    plant: Plant
    proof: Proof

    @property
    def name(self) -> str:
        parts = [self.proof, self.plant]
        if isinstance(self.proof, partial):
            parts = [self.proof.func, self.plant]
        return "-".join(part.__name__ for part in reversed(parts))


def law(rule: Rule, **more: Any) -> Proof:
    return partial(a_step_keeps_the_law, rule, **more)


def zero(rule: Rule) -> Proof:
    return partial(proofs.a_draw_of_zero_keeps_nothing_the_target_rules_out, rule)


PENALTIES = {"frequency_penalty": 0.9, "repetition_penalty": 1.5}
FAULTS = [
    Fault(siblings_law_not_renormalised, law("one_hot")),
    Fault(siblings_law_not_renormalised, law("without_replacement")),
    Fault(target_law_not_updated_after_a_refusal, law("one_hot")),
    Fault(target_law_not_updated_after_a_refusal, law("without_replacement")),
    Fault(target_law_not_updated_after_a_refusal, law("iid")),
    Fault(less_or_equal_for_less, zero("one_hot")),
    Fault(less_or_equal_for_less, zero("without_replacement")),
    Fault(less_or_equal_for_less, law("one_hot")),
    Fault(a_stale_residual_for_the_bonus, law("one_hot")),
    Fault(a_stale_residual_for_the_bonus, law("without_replacement")),
    Fault(a_law_without_its_last_processor_at_the_bonus, law("one_hot", top_p=0.7)),
    Fault(one_history_for_all_nodes, law("without_replacement", **PENALTIES)),
    Fault(drafts_from_an_unprocessed_law, law("without_replacement")),
    Fault(a_drawn_sibling_dropped_for_its_value, law("without_replacement")),
    Fault(a_drawn_sibling_dropped_for_its_value, law("iid")),
    Fault(a_second_draw_for_the_bonus, law("seeded")),
    Fault(noise_keyed_by_the_step, seeded_texts_are_equal),
    Fault(a_mask_that_sees_siblings, tree_logits_equal_those_of_paths),
    Fault(a_mask_that_sees_siblings, greedy_texts_are_equal),
    Fault(position_plus_one, tree_logits_equal_those_of_paths),
    Fault(position_plus_one_in_the_head, drafts_equal_the_naive_pass),
    Fault(a_stop_cut_after_the_cache_was_kept, the_cache_is_that_of_a_fresh_prefill),
    Fault(taps_off_by(1), tapped_states_equal_the_naive_pass),
    Fault(taps_off_by(-1), tapped_states_equal_the_naive_pass),
    Fault(taps_off_by(-1), drafts_equal_the_naive_pass),
    Fault(a_feature_before_the_final_norm, tapped_states_equal_the_naive_pass),
    Fault(a_feature_before_the_final_norm, drafts_equal_the_naive_pass),
    Fault(an_unshifted_token, drafts_equal_the_naive_pass),
    Fault(draft_cache_kept_from_estimated_features, drafts_equal_the_naive_pass),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_noticed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.proof()
    fault.plant(monkeypatch)
    with pytest.raises(AssertionError):
        fault.proof()


HIDDEN = [
    taps_off_by(-1),
    a_feature_before_the_final_norm,
    an_unshifted_token,
    draft_cache_kept_from_estimated_features,
    position_plus_one_in_the_head,
]


@pytest.mark.parametrize("plant", HIDDEN)
def test_what_spoils_drafts_alone_is_hidden_by_the_text(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is why drafts are compared with an independent pass, and texts are not enough."""
    plant(monkeypatch)
    greedy_texts_are_equal()

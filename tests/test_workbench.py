"""A real workbench around a tiny model: what it refuses, resolves, and races."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import proofs
import pytest
from benches import tiny_bench

from eagle_core.cost import UNMEASURED, Curve, ProfileStore
from eagle_core.errors import PromptError
from eagle_core.optimum import best_tree
from eagle_core.options import RunOptions
from eagle_core.trace import StopReason, Trace, Turn
from eagle_core.tree import TreePlan
from eagle_core.workbench import Workbench


def raced(options: RunOptions, prompt: str = "hello", bench: Workbench | None = None) -> Trace:
    recording = (bench or tiny_bench()).race(prompt, options)
    for _ in recording:
        pass
    return recording.trace()


def test_a_prompt_that_fills_the_context_is_refused_before_any_work() -> None:
    bench = replace(tiny_bench(), unembedding=lambda features: pytest.fail("worked"))
    with pytest.raises(PromptError, match="a prompt of 96 tokens; expected fewer than 96"):
        bench.race("x" * 96, RunOptions())


def test_a_conversation_that_fills_the_context_is_refused_before_any_work() -> None:
    bench = replace(tiny_bench(), unembedding=lambda features: pytest.fail("worked"))
    said = (Turn("user", "x" * 50), Turn("assistant", "y" * 40))
    with pytest.raises(PromptError, match="conversation of 96 tokens"):
        bench.race("z" * 6, RunOptions(), earlier=said)
    with pytest.raises(PromptError, match="a turn of role 'judge'"):
        bench.race("z", RunOptions(), earlier=[Turn("judge", "x")])


def test_a_follow_up_reads_the_whole_conversation_in_both_lanes() -> None:
    first = raced(RunOptions(max_new_tokens=6), "hello")
    assert [turn.role for turn in first.conversation] == ["user", "assistant"]
    recording = tiny_bench().race("more", RunOptions(), earlier=first.conversation)
    list(recording)
    trace = recording.trace()
    assert trace.earlier == first.conversation
    assert trace.conversation[-2] == Turn("user", "more")
    one_prompt = raced(RunOptions(), f"hello{first.lane('plain').text}more")
    assert [lane.tokens for lane in trace.lanes] == [lane.tokens for lane in one_prompt.lanes]
    for lane in trace.lanes:
        assert lane.prefill is not None
        assert lane.prefill.num_prompt_tokens == len("hello" + "more") + 6


def test_the_plain_lanes_answer_goes_on_where_the_lanes_differ() -> None:
    options = RunOptions(max_new_tokens=8, temperature=1.0, rule="one_hot")
    trace = next(t for s in range(9) if (t := raced(replace(options, seed=s))).lanes[0].text)
    assert trace.lane("plain").text != trace.lane("eagle").text
    assert trace.conversation[-1] == Turn("assistant", trace.lane("plain").text)


def test_a_prompt_just_within_the_context_is_answered_to_its_end() -> None:
    trace = raced(RunOptions(max_new_tokens=50), "x" * 90)
    for lane in trace.lanes:
        assert (len(lane.tokens), lane.stop) == (6, StopReason.CONTEXT)


@pytest.mark.parametrize("tree", ["auto", "best", "chain:2", "tree:5", "dynamic:6:3:4"])
def test_every_tree_races_under_its_own_name(tree: str) -> None:
    trace = raced(RunOptions(max_new_tokens=20, tree=tree))
    assert trace.settings.tree == tree
    assert trace.lane("eagle").tokens == trace.lane("plain").tokens
    assert any(step.num_drafts for step in trace.lane("eagle").steps)


@pytest.mark.parametrize("tree", ["auto", "best"])
def test_what_the_machine_chooses_is_a_chain_where_the_rule_judges_chains(tree: str) -> None:
    trace = raced(RunOptions(max_new_tokens=20, temperature=1.0, rule="block", tree=tree))
    for step in trace.lane("eagle").steps:
        assert all(len(children) <= 1 for children in step.children)


def test_the_best_fixed_tree_is_the_one_for_the_profile() -> None:
    steep = Curve((1, 2, 100), (10.0, 30.0, 2000.0))
    dear = replace(UNMEASURED, verify=(steep, steep))
    bench = tiny_bench()
    best = RunOptions(max_new_tokens=10, temperature=1.0, rule="iid", tree="best")
    assert bench.planner_for(best) == replace(best_tree(UNMEASURED).plan, siblings="iid")
    assert replace(bench, profile=dear).planner_for(best) == TreePlan((None,), "iid")


def test_a_machine_is_measured_once_and_the_profile_kept(tmp_path: Path) -> None:
    bench, told = tiny_bench(), list[str]()
    store = ProfileStore(tmp_path / "profiles.json")

    first = bench.measured(store, lambda what, share: told.append(what))
    second = bench.measured(store, lambda what, share: pytest.fail("measured again"))

    assert second == first != UNMEASURED
    assert set(told) == {"measuring how long passes take here, once"}
    assert first.contexts == (24, 48)
    assert first.verify[0].rows[0] == 1
    assert sum(reached for ranks in first.kept_by_rank for reached, _ in ranks) > 0


@pytest.mark.parametrize(
    "rule", ["one_hot", "without_replacement", "iid", "block", "seeded", "lossy_typical"]
)
def test_every_rule_races_under_every_option(rule: str) -> None:
    options = RunOptions(
        *(12, 1.2, 0.95, 15, 3), rule=rule, min_p=0.01, repetition_penalty=1.1,
        presence_penalty=0.2, frequency_penalty=0.1, stop=("zz",),
    )  # fmt: skip
    trace = raced(options)
    assert [len(lane.tokens) for lane in trace.lanes] == [12, 12]
    assert trace.settings.rule == rule
    assert trace.settings.is_lossless == (rule != "lossy_typical")


def test_seeded_lanes_write_the_same_sampled_text() -> None:
    texts = set()
    for seed in range(3):
        options = RunOptions(max_new_tokens=24, temperature=1.0, rule="seeded", seed=seed)
        plain, eagle = raced(options).lanes
        assert plain.tokens == eagle.tokens
        texts.add(plain.tokens)
    assert len(texts) == 3


def test_text_before_a_stop_string_is_shown_and_figures_are_of_what_was_kept() -> None:
    free = raced(RunOptions(max_new_tokens=20)).lane("plain")
    stop = free.text[6:9]
    first = free.text.index(stop)
    for lane in raced(RunOptions(max_new_tokens=20, stop=(stop,))).lanes:
        assert lane.text == free.text[:first]
        assert lane.tokens == free.tokens[: first + 3]
        assert lane.stop == StopReason.STOP_STRING
        assert lane.tau == pytest.approx((first + 2) / lane.num_target_passes)


def test_greedy_lanes_with_penalties_write_the_same_text_and_repeat_less() -> None:
    free = raced(RunOptions(max_new_tokens=40)).lane("plain").tokens
    options = RunOptions(max_new_tokens=40, repetition_penalty=1.5, frequency_penalty=1.0)
    plain, eagle = raced(options).lanes
    assert plain.tokens == eagle.tokens
    assert len(set(plain.tokens)) > len(set(free))


def test_past_the_heads_limit_both_lanes_still_agree_and_a_notice_is_given() -> None:
    made = proofs.world(3)
    short = replace(made, head=proofs.with_positions(made.head, 12))
    trace = raced(RunOptions(max_new_tokens=30), bench=tiny_bench(short))
    plain, eagle = trace.lanes
    assert plain.tokens == eagle.tokens
    assert len([step for step in eagle.steps if step.notice]) == 1

"""What a dynamic tree drafted and did not keep: told on request, and a change to nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest import mock

import pytest
import torch
from benches import tiny_bench
from hypothesis import given
from hypothesis import strategies as st
from made import EXAMPLES
from test_dynamic import Head, grown, plans, texts_of

from app.views import messages
from eagle_core.decoding import dropped_of
from eagle_core.dynamic import DynamicPlan
from eagle_core.options import RunOptions
from eagle_core.recording import Moment, Recording
from eagle_core.trace import Dropped, Lane, Step, Trace
from eagle_core.trace_json import dump_trace, load_trace
from eagle_core.tree import DraftTree, path_in


def texts_dropped(tree: DraftTree, dropped: Dropped) -> list[tuple[int, ...]]:
    parents = (*tree.parents, *(one.parent for one in dropped.candidates))
    tokens = (*tree.tokens, *(one.token for one in dropped.candidates))
    numbers = range(len(tree), len(tokens))
    return [tuple(tokens[node] for node in path_in(parents, number)) for number in numbers]


@EXAMPLES
@given(plans, st.integers(0, 50))
def test_kept_and_dropped_are_all_that_was_drafted(plan: DynamicPlan, seed: int) -> None:
    """Every row that the head read gave `top_k` children, no text twice."""
    head = Head(7, seed)
    tree = grown(head, plan)
    dropped = dropped_of(tree)
    num_drafted = sum(tree.draft_rows) * min(plan.top_k, head.vocab_size)
    if dropped is None:
        assert tree.num_drafts == num_drafted
        return
    texts = [*texts_of(tree), *texts_dropped(tree, dropped)]
    assert len(texts) == len({*texts}) == num_drafted
    assert tree.num_drafts == plan.num_drafts


@EXAMPLES
@given(plans, st.integers(0, 50))
def test_what_was_dropped_is_worth_no_more_than_the_least_kept(
    plan: DynamicPlan, seed: int
) -> None:
    head = Head(7, seed)
    tree = grown(head, plan)
    dropped = dropped_of(tree)
    if dropped is None:
        return
    for text, one in zip(texts_dropped(tree, dropped), dropped.candidates, strict=True):
        probs = [head.prob(text[:end]) for end in range(2, len(text) + 1)]
        assert one.draft_prob == pytest.approx(probs[-1])
        assert one.value == pytest.approx(float(torch.tensor(probs).double().prod()))
        assert dropped.least_kept is not None
        assert one.value <= dropped.least_kept


# Whole runs.


def fixed_clock() -> mock._patch[mock.Mock]:
    return mock.patch("eagle_core.decoding.time.perf_counter", return_value=0.0)


def recorded(options: RunOptions) -> tuple[list[Moment], Trace]:
    with fixed_clock():
        recording: Recording = tiny_bench().race("why is the sky blue", options)
        moments = list(recording)
    return moments, replace(recording.trace(), created="then")


OPTIONS = RunOptions(max_new_tokens=24, tree="dynamic:5:3:4")


def steps_of(lane: Lane) -> list[Step]:
    return [replace(step, dropped=None) for step in lane.steps]


@pytest.mark.parametrize("temperature", [0.0, 0.2, 0.8])
@pytest.mark.parametrize("tree", ["dynamic:5:3:4", "auto", "best", "tree:8", "chain:2"])
def test_a_run_is_the_same_whether_it_is_asked_to_tell_or_not(
    tree: str, temperature: float
) -> None:
    options = replace(OPTIONS, tree=tree, temperature=temperature, seed=3)
    _, quiet = recorded(options)
    _, telling = recorded(replace(options, record_dropped=True))
    for one, other in zip(quiet.lanes, telling.lanes, strict=True):
        assert one.tokens == other.tokens
        assert list(one.steps) == steps_of(other)
    assert all(step.dropped is None for lane in quiet.lanes for step in lane.steps)


@pytest.mark.parametrize("tree", ["dynamic:5:3:4", "auto"])
def test_a_tree_that_chooses_tells_what_it_dropped(tree: str) -> None:
    _, trace = recorded(replace(OPTIONS, tree=tree, record_dropped=True))
    steps = trace.lane("eagle").steps
    assert any(step.dropped for step in steps)
    assert not any(step.dropped for step in trace.lane("plain").steps)
    for step in steps:
        if step.dropped:
            values = [one.value for one in step.dropped.candidates]
            assert max(values) <= (step.dropped.least_kept or 1.0)
    assert load_trace(dump_trace(trace)).settings.record_dropped


@pytest.mark.parametrize("tree", ["tree:8", "chain:2"])
def test_a_fixed_tree_drops_nothing(tree: str) -> None:
    _, trace = recorded(replace(OPTIONS, tree=tree, record_dropped=True))
    assert "dropped" not in dump_trace(trace).replace("record_dropped", "")


def test_a_trace_that_was_not_asked_is_what_it_was_before_there_was_the_option() -> None:
    """To the byte: the one that was asked is the same text with two keys more."""
    _, quiet = recorded(OPTIONS)
    _, telling = recorded(replace(OPTIONS, record_dropped=True))
    form = json.loads(dump_trace(telling))
    assert form["settings"].pop("record_dropped") is True
    dropped = {
        token
        for lane in form["lanes"]
        for event in lane["events"]
        for token in event.pop("dropped", {"tokens": []})["tokens"]
    }
    seen = {*json.loads(dump_trace(quiet))["pieces"]}
    for token in map(str, dropped):
        if token not in seen:
            del form["pieces"][token]
    text = json.dumps(form, ensure_ascii=False, separators=(",", ":"))
    assert text == dump_trace(quiet)
    assert "dropped" not in text


def test_moments_on_their_way_to_the_browser_carry_nothing_of_it() -> None:
    quiet, _ = recorded(OPTIONS)
    telling, trace = recorded(replace(OPTIONS, record_dropped=True))

    def sent(moments: list[Moment]) -> list[str]:
        return [
            messages.events(
                "r", 1, happened=[messages.LaneEvent(m.method, m.event, m.texts)], pieces=m.pieces
            )
            for m in moments
        ]

    assert sent(telling) == sent(quiet)
    end = messages.end("r", 2, trace=trace, stopped=False, text="Done.")
    assert '"dropped":{' in end


def test_every_dropped_token_has_its_look_in_the_trace() -> None:
    _, trace = recorded(replace(OPTIONS, record_dropped=True))
    steps = trace.lane("eagle").steps
    tokens = {one.token for step in steps if step.dropped for one in step.dropped.candidates}
    assert tokens
    assert tokens <= trace.pieces.keys()

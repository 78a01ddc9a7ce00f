"""The loop on seeded toys: its clock, its limits, its caches; and the real drafter's arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from toys import (
    KnowingDrafter,
    TableRun,
    TableTarget,
    eagle3_drafter,
    eagle_drafter,
    open_decoding,
    perfect_drafter,
)

from eagle_core.decoding import Stopwatch
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.plans import chain, static_tree
from eagle_core.sampling import Chance, LawMaker, SeededChance
from eagle_core.targets.base import Taps, TargetRead
from eagle_core.trace import Event, Prefill, Step, StopReason
from eagle_core.tree import DraftTree, TreePlan
from eagle_core.verify import Acceptance

PROMPT = (1, 2, 0)


def text_of(events: Iterable[Event]) -> tuple[int, ...]:
    return tuple(token for event in events for token in event.committed)


def steps_of(events: Iterable[Event]) -> list[Step]:
    return [event for event in events if isinstance(event, Step)]


def sometimes_right(target: TableTarget, *, seed: int = 0) -> KnowingDrafter:
    """Knows the target's logits up to a fixed error; paths of every length get kept."""
    error = torch.randn(target.logits.shape, generator=torch.Generator().manual_seed(seed))
    wrong = target.logits + 1.5 * error.to(target.logits.dtype)
    return KnowingDrafter(target, lambda text: wrong[text[-2], text[-1]])


# The clock.


class Clock:
    """A watch whose time passes only when a part of the loop is at work."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._last = 0.0

    def restart(self) -> None:
        self._last = self.now_ms

    def lap(self) -> float:
        began, self._last = self._last, self.now_ms
        return self.now_ms - began


class Timed:
    """Anything whose calls take a known time on the clock."""

    def __init__(self, inner: object, clock: Clock, **cost_ms: float) -> None:
        self._inner, self._clock, self._cost_ms = inner, clock, cost_ms

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._cost_ms:
            return found

        def timed(*args: object, **more: object) -> object:
            self._clock.now_ms += self._cost_ms[name]
            return found(*args, **more)

        return timed


def timed_decoding(target: TableTarget, clock: Clock) -> Any:
    decoding = open_decoding(target, RunOptions(max_new_tokens=12))
    run = Timed(decoding.run, clock, prefill=200.0, score_tree=60.0, keep_path=2.0)
    return replace(decoding, run=run, watch=clock)  # type: ignore[arg-type]


def test_each_millisecond_of_a_step_is_put_where_it_was_spent() -> None:
    target, clock = TableTarget(vocab_size=30, seed=1), Clock()
    drafter = Timed(perfect_drafter(target), clock, begin=5.0, grow_tree=7.0, observe=0.5)

    events = []
    for event in Engine(timed_decoding(target, clock), drafter, plan=chain(2)).steps(PROMPT):
        events.append(event)
        clock.now_ms += 1000.0  # whoever reads the events takes a second over each

    assert isinstance(events[0], Prefill)
    assert events[0].prefill_ms == 205.0
    times = [(step.draft_ms, step.verify_ms, step.commit_ms) for step in steps_of(events)]
    assert times[:-1] == [(7.0, 60.0, 2.5)] * (len(times) - 1)


def test_plain_decoding_spends_nothing_on_drafting() -> None:
    target, clock = TableTarget(vocab_size=30, seed=1), Clock()
    events = []
    for event in Plain(timed_decoding(target, clock)).steps(PROMPT):
        events.append(event)
        clock.now_ms += 1000.0
    times = [(step.draft_ms, step.verify_ms, step.commit_ms) for step in steps_of(events)]
    assert times == [(0.0, 60.0, 2.0)] * 11
    assert events[0].ms == 200.0


def test_a_stopwatch_counts_milliseconds_from_lap_to_lap(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([10.0, 10.5, 10.75, 20.0, 20.001])
    monkeypatch.setattr("eagle_core.decoding.time.perf_counter", lambda: next(seconds))
    watch = Stopwatch(torch.device("cpu"))
    assert [watch.lap(), watch.lap()] == [500.0, 250.0]
    watch.restart()
    assert watch.lap() == pytest.approx(1.0)


# What the target's cache and the drafter have seen.


@pytest.mark.parametrize("end_tokens", [frozenset(), frozenset({3, 8, 21})], ids=["cap", "end"])
@pytest.mark.parametrize("seed", range(4))
def test_the_cache_holds_the_text_without_its_open_root_after_every_step(
    seed: int, end_tokens: frozenset[int]
) -> None:
    target = TableTarget(vocab_size=30, seed=seed, end_tokens=end_tokens)
    decoding = open_decoding(target, RunOptions(max_new_tokens=40))
    assert isinstance(decoding.run, TableRun)
    drafter, text = sometimes_right(target, seed=seed), list(PROMPT)

    for event in Engine(decoding, drafter, plan=static_tree(25)).steps(PROMPT):
        text += event.committed
        was_cut = isinstance(event, Step) and event.bonus is None
        cached = text if was_cut else text[:-1]
        assert decoding.run.cached == cached
        assert drafter._text == cached


def test_a_stop_within_a_path_cuts_cache_counters_and_drafter_alike() -> None:
    """A perfect chain of six whose third token ends the answer."""
    plain = Plain(open_decoding(TableTarget(vocab_size=30, seed=1), RunOptions(max_new_tokens=4)))
    *before, end = text_of(plain.steps(PROMPT))
    target = TableTarget(vocab_size=30, seed=1, end_tokens=frozenset({end}))
    assert end not in before
    decoding = open_decoding(target, RunOptions(max_new_tokens=40))
    assert isinstance(decoding.run, TableRun)
    drafter = perfect_drafter(target)

    *_, last = Engine(decoding, drafter, plan=chain(6)).steps(PROMPT)

    assert isinstance(last, Step)
    assert (last.stop, last.bonus, last.num_accepted) == (StopReason.END_TOKEN, None, 3)
    assert decoding.run.cached == [*PROMPT, *before, end]
    assert drafter._text == decoding.run.cached


def test_a_drafters_estimates_never_reach_the_text_when_it_is_sometimes_right() -> None:
    target = TableTarget(vocab_size=30, seed=2)
    options = RunOptions(max_new_tokens=60)
    drafter = sometimes_right(target)

    events = list(
        Engine(open_decoding(target, options), drafter, plan=static_tree(12)).steps(PROMPT)
    )

    lengths = {step.num_accepted for step in steps_of(events)}
    assert {0, 1, 2} <= lengths, "the toy is meant to keep paths of several lengths"
    assert text_of(events) == text_of(Plain(open_decoding(target, options)).steps(PROMPT))


@pytest.mark.parametrize("make_drafter", [eagle_drafter, sometimes_right])
def test_a_loop_closed_early_leaves_target_and_drafter_fit_for_the_next(make_drafter: Any) -> None:
    target = TableTarget(vocab_size=30, seed=3)
    options = RunOptions(max_new_tokens=20)
    drafter, plan = make_drafter(target), static_tree(8)

    def whole(drafter: Any) -> list[tuple[object, ...]]:
        events = Engine(open_decoding(target, options), drafter, plan=plan).steps(PROMPT)
        return [step.nodes for step in steps_of(events)]

    decoding = open_decoding(target, options)
    assert isinstance(decoding.run, TableRun)
    events = Engine(decoding, drafter, plan=plan).steps((2, 2, 5, 1))
    begun = [next(events), next(events), next(events)]
    events.close()  # type: ignore[attr-defined]

    assert decoding.run.cached == [2, 2, 5, 1, *text_of(begun)[:-1]]
    assert whole(drafter) == whole(make_drafter(target))


def test_two_lanes_over_one_target_do_not_meet() -> None:
    target = TableTarget(vocab_size=30, seed=4)
    options = RunOptions(max_new_tokens=12)

    def lane(prompt: Sequence[int]) -> Any:
        drafter = eagle_drafter(target)
        return Engine(open_decoding(target, options), drafter, plan=chain(3)).steps(prompt)

    alone = [text_of(lane(prompt)) for prompt in (PROMPT, (4, 4))]
    one, other = lane(PROMPT), lane((4, 4))
    turns: list[list[Event]] = [[], []]
    for _ in range(30):
        for mine, events in zip(turns, (one, other), strict=True):
            mine.extend(event for event in [next(events, None)] if event is not None)
    assert [text_of(events) for events in turns] == alone


# Limits.


class Watched:
    """A drafter that notes what it was asked for."""

    def __init__(self, inner: Any, max_positions: int | None) -> None:
        self._inner = inner
        self.taps = inner.taps
        self.max_positions = max_positions
        self.num_begun = 0
        self.deepest: list[int] = []
        self.num_observed = 0

    def begin(self, tokens: Tensor, read: TargetRead) -> None:
        self.num_begun += 1
        self._inner.begin(tokens, read)

    def grow_tree(self, root: int, *, plan: TreePlan, laws: LawMaker, chance: Chance) -> DraftTree:
        tree: DraftTree = self._inner.grow_tree(root, plan=plan, laws=laws, chance=chance)
        self.deepest.append(max(tree.depths))
        return tree

    def observe(self, taken: Acceptance, read: TargetRead) -> None:
        self.num_observed += 1
        self._inner.observe(taken, read)


def test_a_prompt_past_the_drafters_limit_is_answered_plainly_and_says_so_at_once() -> None:
    target = TableTarget(vocab_size=30, seed=1)
    drafter = Watched(perfect_drafter(target), max_positions=3)
    options = RunOptions(max_new_tokens=10)

    events = list(Engine(open_decoding(target, options), drafter, plan=chain(4)).steps(PROMPT))  # type: ignore[arg-type]

    steps = steps_of(events)
    assert (drafter.num_begun, drafter.deepest, drafter.num_observed) == (0, [], 0)
    assert steps[0].notice is not None
    assert "made for 3 positions" in steps[0].notice
    assert [step.notice for step in steps[1:]] == [None] * 8
    assert text_of(events) == text_of(Plain(open_decoding(target, options)).steps(PROMPT))


def test_trees_shrink_towards_the_drafters_limit_and_never_pass_it() -> None:
    target = TableTarget(vocab_size=30, seed=1)
    drafter = Watched(perfect_drafter(target), max_positions=12)
    options = RunOptions(max_new_tokens=20)

    length, reached = len(PROMPT), []
    for event in Engine(open_decoding(target, options), drafter, plan=chain(4)).steps(PROMPT):  # type: ignore[arg-type]
        if isinstance(event, Step) and event.num_drafts:
            reached.append(length + event.num_drafts)
        length += len(event.committed)

    assert drafter.deepest == [4, 3]
    assert reached == [8, 12]


def test_the_last_trees_are_no_deeper_than_the_room_left() -> None:
    target = TableTarget(vocab_size=30, seed=1)
    drafter = Watched(sometimes_right(target), max_positions=None)
    left = 15
    for event in Engine(
        open_decoding(target, RunOptions(max_new_tokens=15)),
        drafter,  # type: ignore[arg-type]
        plan=static_tree(25),
    ).steps(PROMPT):
        if isinstance(event, Step):
            assert max(event.depths) <= left - 1
        left -= len(event.committed)
    assert left == 0


@pytest.mark.parametrize("lane", ["plain", "eagle"])
def test_an_answer_may_end_with_its_first_token(lane: str) -> None:
    first = text_of(
        Plain(open_decoding(TableTarget(30, seed=1), RunOptions(max_new_tokens=1))).steps(PROMPT)
    )
    for target, stop in (
        (TableTarget(30, seed=1, end_tokens=frozenset(first)), StopReason.END_TOKEN),
        (TableTarget(30, seed=1, max_positions=4), StopReason.CONTEXT),
    ):
        decoding = open_decoding(target, RunOptions(max_new_tokens=9))
        loop = (
            Plain(decoding)
            if lane == "plain"
            else Engine(decoding, perfect_drafter(target), plan=chain(2))
        )
        (only,) = loop.steps(PROMPT)
        assert (only.committed, only.stop) == (first, stop)


def test_a_prompt_of_one_token_is_decoded() -> None:
    target, options = TableTarget(vocab_size=30, seed=6), RunOptions(max_new_tokens=12)
    engine = Engine(open_decoding(target, options), eagle_drafter(target), plan=static_tree(8))
    plain = Plain(open_decoding(target, options))
    assert text_of(engine.steps((4,))) == text_of(plain.steps((4,)))


def letters(tokens: Sequence[int]) -> str:
    return "".join(chr(97 + token) for token in tokens)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("place", range(1, 9))
def test_a_stop_string_cuts_both_lanes_alike_wherever_it_crosses_steps(
    place: int, length: int
) -> None:
    """A perfect chain of four, so the string lies within a step or over the border of two."""
    target, free = TableTarget(vocab_size=20, seed=7), RunOptions(max_new_tokens=14)
    text = letters(text_of(Plain(open_decoding(target, free)).steps(PROMPT)))
    stop = text[place : place + length]
    expected = text[: text.index(stop) + length]
    options = replace(free, stop=(stop, "no such text"))

    decoding = open_decoding(target, options, decode=letters)
    assert isinstance(decoding.run, TableRun)
    drafter = perfect_drafter(target)
    eagle = list(Engine(decoding, drafter, plan=chain(4)).steps(PROMPT))
    plain = list(Plain(open_decoding(target, options, decode=letters)).steps(PROMPT))

    assert letters(text_of(eagle)) == letters(text_of(plain)) == expected
    assert eagle[-1].stop == plain[-1].stop == StopReason.STOP_STRING
    was_cut = isinstance(eagle[-1], Step) and eagle[-1].bonus is None
    assert len(decoding.run.cached) == len(PROMPT) + len(expected) - (not was_cut)


def test_an_end_token_before_a_stop_string_wins_and_the_cap_before_both() -> None:
    plain = Plain(open_decoding(TableTarget(20, seed=7), RunOptions(max_new_tokens=8)))
    text = text_of(plain.steps(PROMPT))
    target = TableTarget(20, seed=7, end_tokens=frozenset({text[3]}))
    for cap, reason in ((8, StopReason.END_TOKEN), (2, StopReason.MAX_NEW_TOKENS)):
        options = RunOptions(max_new_tokens=cap, stop=(letters(text[3:6]),))
        decoding = open_decoding(target, options, decode=letters)
        *_, last = Engine(decoding, perfect_drafter(target), plan=chain(7)).steps(PROMPT)
        assert last.stop == reason


# The record of a step.


def test_a_step_records_the_drafts_of_its_tree_and_the_coins_of_its_walk() -> None:
    target = TableTarget(vocab_size=6, seed=5)
    options = RunOptions(max_new_tokens=20, temperature=1.0, seed=3)
    plan = TreePlan((None, 0, 0, 1), "without_replacement")
    decoding = open_decoding(target, options)
    events = Engine(decoding, sometimes_right(target), plan=plan).steps(PROMPT)
    text = [*PROMPT, *next(events).committed]
    for step in steps_of(events):
        law = LawMaker(options).law(target.logits_after(text)).tolist()
        assert (step.nodes[0].token, step.nodes[0].draft_prob) == (text[-1], None)
        for node in step.nodes[1:]:
            assert node.draft_prob is not None
            assert 0.0 < node.draft_prob <= 1.0
            assert (node.draw is None) == (node.verdict == "not_reached")
            if node.draw is not None and node.accept_prob is not None:
                assert (node.draw < node.accept_prob) == (node.verdict == "accepted")
            if node.parent == 0:
                assert node.target_prob == pytest.approx(law[node.token])
        check_laws(step, law)
        text += step.committed


def check_laws(step: Step, law: list[float]) -> None:
    """The tops of both laws, best first, at every node the walk visited; `law` is the root's."""
    assert [laws.node for laws in step.laws] == [*step.path]
    for laws in step.laws:
        for top in (laws.target, laws.draft) if laws.draft else (laws.target,):
            assert [*top.probs] == sorted(top.probs, reverse=True)
            assert 0 < sum(top.probs) <= 1 + 1e-5
        assert (laws.draft is None) == (not step.children[laws.node])
    root = step.laws[0].target
    assert root.probs == pytest.approx([law[token] for token in root.tokens])


# The real drafter: its stable rows and its estimates, by single causal passes of the bare head.


def features_of(target: TableTarget, text: Sequence[int], taps: Taps | None = None) -> Tensor:
    ends = range(1, len(text) + 1)
    return torch.stack([target.feature_after(text[:end], taps) for end in ends])  # (L, K·D)


def causal_pass(
    drafter: EagleDrafter, target: TableTarget, tokens: Tensor, features: Tensor
) -> Any:
    """All pairs in one pass without any cache: pair i is feature i and token i + 1."""
    positions = torch.arange(len(tokens))
    with torch.inference_mode():
        return drafter._head(target.embeddings[tokens], features, positions=positions)


def estimate_after(
    drafter: EagleDrafter, target: TableTarget, text: Sequence[int], drafted: Sequence[int]
) -> Tensor:
    """The feature that follows `text` and `drafted`, by a fresh pass for every drafted token."""
    tokens, features = list(text[1:]), features_of(target, text[:-1])
    estimate = causal_pass(drafter, target, torch.tensor(tokens), features)[-1]
    for token in drafted:
        tokens.append(token)
        features = torch.cat([features, estimate[None]])
        estimate = causal_pass(drafter, target, torch.tensor(tokens), features)[-1]
    return estimate  # type: ignore[no-any-return]


BUSHY = (None, 0, 0, 0, 1, 1, 2, 4, 5, 6)
#     root ─┬─ 1 ─┬─ 4 ── 7
#           │     └─ 5 ── 8
#           ├─ 2 ── 6 ── 9
#           └─ 3


def after_rounds(
    target: TableTarget, drafter: EagleDrafter, rounds: int, plan: TreePlan
) -> list[int]:
    """Decode so many steps, sampled so that paths of several lengths are kept; the text so far."""
    options = RunOptions(max_new_tokens=40, temperature=3.0, seed=rounds, rule=plan.siblings)
    events = Engine(open_decoding(target, options), drafter, plan=plan).steps(PROMPT)
    begun = [next(events) for _ in range(rounds + 1)]
    if rounds > 4:
        assert any(step.num_accepted for step in steps_of(begun)), "the toy keeps some drafts"
    return [*PROMPT, *text_of(begun)]


def grow(drafter: EagleDrafter, root: int, plan: TreePlan) -> DraftTree:
    laws = LawMaker(RunOptions(temperature=3.0))
    return drafter.grow_tree(root, plan=plan, laws=laws, chance=SeededChance(7))


@pytest.mark.parametrize("siblings", ["one_hot", "without_replacement"])
@pytest.mark.parametrize("rounds", [0, 1, 8])
def test_a_grown_tree_equals_path_by_path_passes_over_true_features(
    rounds: int, siblings: str
) -> None:
    target = TableTarget(vocab_size=6, seed=9)
    drafter, plan = eagle_drafter(target), TreePlan(BUSHY, siblings)  # type: ignore[arg-type]
    text = after_rounds(target, drafter, rounds, plan)

    tree = grow(drafter, text[-1], plan)

    laws = LawMaker(RunOptions(temperature=3.0 if siblings == "without_replacement" else 0.0))
    assert tree.parents == BUSHY
    for node in range(1, len(tree)):
        above = tree.tokens_on(tree.path_to(node))[1:-1]
        estimate = estimate_after(drafter, target, text, above)
        law = laws.law(target.unembedding()(estimate))
        assert tree.prob(node) == pytest.approx(float(law[tree.tokens[node]]), abs=1e-9)
    if siblings == "one_hot":
        law = laws.law(target.unembedding()(estimate_after(drafter, target, text, [])))
        assert list(tree.tokens[1:4]) == law.topk(3).indices.tolist()


@pytest.mark.parametrize("make_drafter", [eagle_drafter, eagle3_drafter])
@pytest.mark.parametrize("rounds", [0, 1, 3, 8])
def test_stable_rows_equal_one_pass_over_all_true_features(
    rounds: int, make_drafter: Callable[[TableTarget], EagleDrafter]
) -> None:
    target = TableTarget(vocab_size=6, seed=9)
    drafter, plan = make_drafter(target), TreePlan(BUSHY, "without_replacement")
    text = after_rounds(target, drafter, rounds, plan)
    grow(drafter, text[-1], plan)  # closes the pair of the newest feature and the root

    fresh = make_drafter(target)
    with torch.inference_mode():
        embeddings = target.embeddings[torch.tensor(text[1:])]
        features = fresh._head.fuse(features_of(target, text[:-1], drafter.taps))
        positions = torch.arange(len(text) - 1)
        fresh._head(embeddings, features, positions=positions, cache=fresh._cache)

    assert drafter._cache.num_rows == len(text) - 1
    rows, expected = drafter._cache.layers[0], fresh._cache.layers[0]
    torch.testing.assert_close(rows.keys, expected.keys, atol=1e-12, rtol=0)
    torch.testing.assert_close(rows.values, expected.values, atol=1e-12, rtol=0)


def test_a_seasoned_drafter_drafts_what_a_fresh_one_would() -> None:
    target = TableTarget(vocab_size=6, seed=9)
    plan = TreePlan(BUSHY)
    seasoned, fresh = eagle_drafter(target), eagle_drafter(target)
    text = after_rounds(target, seasoned, 8, TreePlan(BUSHY, "without_replacement"))
    read = TargetRead(logits=torch.zeros(1, 6), features=features_of(target, text[:-1]))
    fresh.begin(torch.tensor(text[:-1]), read)
    one, other = grow(seasoned, text[-1], plan), grow(fresh, text[-1], plan)
    assert one.tokens == other.tokens
    assert one.log_probs == pytest.approx(other.log_probs, abs=1e-12)


def test_a_draft_vocabulary_drafts_only_its_tokens_and_by_its_own_law() -> None:
    target = TableTarget(vocab_size=6, seed=9)
    known = torch.tensor([5, 1, 3])
    drafter = eagle_drafter(target, vocabulary=known)
    text = after_rounds(target, drafter, 2, TreePlan(BUSHY, "without_replacement"))

    tree = grow(drafter, text[-1], TreePlan((None, 0, 0, 0, 0), "without_replacement"))

    logits = target.unembedding()(estimate_after(drafter, target, text, []))[known]
    law = LawMaker(RunOptions(temperature=3.0)).law(logits)
    assert sorted(tree.tokens[1:]) == [1, 3, 5], "a fourth slot has no token left"
    assert tree.laws[0].tolist() == pytest.approx(
        [0.0, float(law[1]), 0.0, float(law[2]), 0.0, float(law[0])]
    )

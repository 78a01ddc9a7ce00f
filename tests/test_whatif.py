"""What another tree would have kept: against steps made by hand, and against the engine itself."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from benches import tiny_bench
from made import chain_step, lane, plain_and_eagle, prefill, step
from made import trace as traced

from eagle_core.errors import OptionError, TraceError
from eagle_core.options import RunOptions
from eagle_core.trace import Lane, Step, StopReason, Trace
from eagle_core.tree import ranks_of
from eagle_core.whatif import WhatIf, committed_inside, fixed_plan, tau_bounds, walks_of
from eagle_core.whatif_runs import TreeRuns, load_runs

RUNS = Path(__file__).parent.parent / "assets" / "whatif" / "walks.json"


def asked(*steps: Step, tree: str) -> float:
    return WhatIf.of(traced(lane("eagle", prefill(), *steps))).with_tree(fixed_plan(tree)).tau


#     5 ─┬─ 6 ── 7        kept: the second child of the root, then its only one
#        └─ 8 ── 9
BUSHY = step((5, 6, 8, 7, 9), (None, 0, 0, 1, 2), path=(0, 2, 4), bonus=3)


def test_a_walk_is_the_ranks_of_its_choices() -> None:
    (walk,) = walks_of(lane("eagle", prefill(), BUSHY))
    assert walk.drafted == {(), (0,), (1,), (0, 0), (1, 0)}
    assert (walk.kept, walk.num_committed) == ((1, 0), 3)


@pytest.mark.parametrize(
    ("nodes", "num_committed"),
    [
        ({(), (0,), (1,), (1, 0)}, 3),
        ({(), (0,), (1,)}, 2),
        ({(), (0,), (0, 0)}, 1),
        ({()}, 1),
    ],
)
def test_inside_a_smaller_tree_the_kept_choices_end_at_the_first_it_lacks(
    nodes: set[tuple[int, ...]], num_committed: int
) -> None:
    (walk,) = walks_of(lane("eagle", prefill(), BUSHY))
    assert committed_inside(walk, nodes) == num_committed


def test_a_step_that_a_stop_cut_short_commits_no_more_than_was_left() -> None:
    cut = chain_step(5, 6, 7, 8, kept=2, bonus=None, stop=StopReason.END_TOKEN)
    whole = chain_step(5, 6, 7, 8, kept=2, bonus=9)
    assert asked(cut, tree="chain:3") == 2
    assert asked(cut, tree="chain:1") == 2, "the token below the cut is the target's own"
    assert asked(whole, tree="chain:3") == 3
    assert asked(whole, tree="chain:1") == 2


def test_with_its_own_tree_a_run_has_its_own_tau_and_no_room_between_its_bounds() -> None:
    trace = traced(
        lane("eagle", prefill(), BUSHY, chain_step(3, 4, 5, kept=1, bonus=6), BUSHY, BUSHY)
    )
    whatif = WhatIf.of(trace)
    nodes = frozenset().union(*(walk.drafted for walk in whatif.walks))
    bounds = tau_bounds(whatif.walks, nodes)
    assert bounds.low == bounds.high == trace.lane("eagle").tau


@cache
def greedy(tree: str, prompt: str) -> Trace:
    recording = tiny_bench().race(prompt, RunOptions(max_new_tokens=24, tree=tree))
    list(recording)
    return recording.trace()


def steps_from(prompt: list[int], tree: str) -> Step:
    """The first step of a run with `tree`."""
    events = tiny_bench().eagle(prompt, RunOptions(max_new_tokens=24, tree=tree))
    next(events)
    first = next(events)
    assert isinstance(first, Step)
    return first


@pytest.mark.parametrize("smaller", ["chain:2", "tree:4"])
def test_inside_the_tree_the_answer_is_what_the_engine_does_from_the_same_root(
    smaller: str,
) -> None:
    """Each recorded root is given to the engine as the first token of an answer of its own."""
    nodes = frozenset(ranks_of(fixed_plan(smaller).parents))
    num_accepted = 0
    for prompt in ("hello", "eagle", "tree"):
        eagle: Lane = greedy("tree:8", prompt).lane("eagle")
        start = 0
        for walk in walks_of(eagle)[:-1]:
            before = [*tiny_bench().encode(prompt), *eagle.tokens[:start]]
            real = steps_from(before, smaller)
            assert real.nodes[0].token == eagle.tokens[start]
            assert committed_inside(walk, nodes) == real.num_committed
            num_accepted += real.num_accepted
            start += walk.num_committed
    assert num_accepted > 3, "else nothing was compared"


@pytest.mark.parametrize("prompt", ["hello", "eagle", "tree", "draft"])
@pytest.mark.parametrize("smaller", ["chain:1", "chain:3", "tree:4"])
def test_a_real_greedy_run_lies_within_its_bounds(prompt: str, smaller: str) -> None:
    answer = WhatIf.of(greedy("tree:8", prompt)).with_tree(fixed_plan(smaller))
    real = greedy(smaller, prompt).lane("eagle").tau
    assert answer.basis == "exact"
    assert answer.bounds is not None
    assert answer.bounds.low <= real <= answer.bounds.high


def test_a_larger_tree_is_an_estimate_between_its_inside_and_its_depth() -> None:
    whatif = WhatIf.of(greedy("tree:4", "hello"))
    inside, larger = (whatif.with_tree(fixed_plan(tree)) for tree in ("tree:4", "tree:12"))
    assert (inside.basis, larger.basis) == ("exact", "estimate")
    assert inside.tau <= larger.tau <= 1 + fixed_plan("tree:12").depth
    assert larger.bounds is None


LAST = step((3,), path=(0,), bonus=4, stop=StopReason.MAX_NEW_TOKENS)


def test_an_estimate_counts_by_depth_and_rank() -> None:
    """Half of the first choices are kept, so half of those below a kept one are taken to be."""
    kept, refused = (chain_step(5, 6, kept=count, bonus=7) for count in (1, 0))
    assert asked(kept, refused, LAST, tree="chain:2") == pytest.approx((2 + 0.5 + 1 + 1) / 3)
    #                    tree:4 reaches a level deeper; of second choices a chain says nothing
    assert asked(kept, refused, LAST, tree="tree:4") == pytest.approx((2 + 0.75 + 1 + 1) / 3)


def test_a_tree_that_only_some_steps_drafted_is_exact_where_the_others_ended_above_it() -> None:
    """As where the tree changes from step to step."""
    deep, refused = chain_step(5, 6, 7, kept=2, bonus=8), chain_step(8, 9, kept=0, bonus=3)
    kept = chain_step(8, 9, kept=1, bonus=3)
    trees = [
        WhatIf.of(traced(lane("eagle", prefill(), deep, other, LAST))).with_tree(
            fixed_plan("chain:2")
        )
        for other in (refused, kept)
    ]
    assert [answer.basis for answer in trees] == ["exact", "estimate"]
    assert trees[0].tau == pytest.approx((3 + 1 + 1) / 3)
    assert trees[1].tau > (3 + 2 + 1) / 3


def test_a_tree_that_changes_is_no_fixed_plan() -> None:
    with pytest.raises(OptionError, match="the same at every step"):
        fixed_plan("dynamic:24")


def test_where_nothing_can_be_said_it_is_said() -> None:
    with pytest.raises(OptionError, match="nothing was drafted"):
        asked(step(), tree="chain:1")
    with pytest.raises(OptionError, match="judges a chain as a whole"):
        WhatIf(walks_of(plain_and_eagle().lane("eagle")), "block", 1.0)


def test_sampled_runs_have_no_bounds() -> None:
    walks = walks_of(plain_and_eagle().lane("eagle"))
    assert WhatIf(walks, "one_hot", 0.7).with_tree(fixed_plan("chain:1")).bounds is None


@pytest.fixture(scope="module")
def runs() -> TreeRuns:
    return load_runs(RUNS)


def test_the_recorded_runs_write_the_same_text_with_every_tree(runs: TreeRuns) -> None:
    lengths = {(run.prompt, sum(walk.num_committed for walk in run.walks)) for run in runs.runs}
    assert len(lengths) == len({run.prompt for run in runs.runs}) >= 8
    assert "smollm2" in runs.about


def test_real_runs_lie_within_the_bounds_that_larger_trees_give(runs: TreeRuns) -> None:
    for run in runs.runs:
        others = [other for other in runs.runs if other.prompt == run.prompt]
        for other in others:
            answer = WhatIf(other.walks, "greedy", 0.0).with_tree(fixed_plan(run.tree))
            if answer.bounds is not None:
                assert answer.bounds.low <= run.tau <= answer.bounds.high


def test_answers_are_near_the_real_runs(runs: TreeRuns) -> None:
    inside = runs.errors("tree:25", "tree:8")
    larger = runs.errors("tree:8", "tree:25")
    assert len(inside) == len(larger) == 8
    for errors in (inside, larger):
        assert abs(sum(errors) / len(errors)) < 0.15
    assert runs.errors("tree:8", "tree:8") == ()
    assert runs.errors("tree:9", "tree:8") == ()


def test_damaged_runs_end_in_a_trace_error(tmp_path: Path) -> None:
    path = tmp_path / "walks.json"
    for text in ("{", "[]", '{"environment": {"target": "a", "head": "b"}, "runs": [{}]}'):
        path.write_text(text)
        with pytest.raises(TraceError):
            load_runs(path)

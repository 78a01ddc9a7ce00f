"""The real target and the shipped head together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
import torch

from eagle_core.compare import find_divergence
from eagle_core.options import RunOptions
from eagle_core.plans import TREE_SIZES
from eagle_core.trace import Event, Lane, first_difference
from eagle_core.workbench import Workbench

pytestmark = pytest.mark.weights

PROMPT = "Why is the sky blue?"
CLOCKS_MAY_DIFFER = 0.05


@pytest.fixture(scope="module")
def bench() -> Iterator[Workbench]:
    torch.set_num_threads(os.cpu_count() or 1)
    yield Workbench.load(measures=False)
    torch.set_num_threads(1)


@pytest.mark.parametrize("tree", ["chain:3", f"tree:{TREE_SIZES[-1]}"])
def test_greedy_eagle_writes_what_plain_decoding_writes(bench: Workbench, tree: str) -> None:
    recording = bench.race(PROMPT, RunOptions(max_new_tokens=24, tree=tree))
    list(recording)
    trace = recording.trace()

    plain, eagle = trace.lane("plain"), trace.lane("eagle")
    assert first_difference(plain, eagle) is None
    assert plain.text == eagle.text
    assert eagle.tau > 1.0, "the shipped head has something accepted"


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_the_shipped_head_drafts_for_the_quantised_target(dtype: str) -> None:
    """It was trained on the float32 target's features, and reads those of the same run's."""
    bench = Workbench.load(dtype=dtype, measures=False)
    recording = bench.race(PROMPT, RunOptions(max_new_tokens=24, tree="chain:3"))
    list(recording)
    trace = recording.trace()
    plain, eagle = trace.lane("plain"), trace.lane("eagle")
    found = find_divergence(bench.target, bench.encode(PROMPT), plain, eagle)
    assert found is None or found.is_numerics
    assert eagle.tau > 1.0
    assert trace.environment.dtype == dtype


def test_a_sampled_race_runs_through_the_real_head(bench: Workbench) -> None:
    options = RunOptions(max_new_tokens=16, temperature=0.8, tree="tree:8", seed=3)
    recording = bench.race(PROMPT, options)
    list(recording)

    assert recording.settings.rule == "without_replacement"
    assert len(recording.trace().lane("eagle").tokens) <= 16


def test_another_shipped_head_takes_the_place_of_the_first(bench: Workbench) -> None:
    other = bench.with_head("eagle")
    assert other.target is bench.target
    assert other.head is not bench.head
    options = RunOptions(max_new_tokens=16, tree="ranks:0.1.00.000")
    traces = []
    for each in (bench, other):
        recording = each.race(PROMPT, options)
        list(recording)
        traces.append(recording.trace())
    assert traces[0].lane("eagle").tokens == traces[1].lane("eagle").tokens
    assert traces[0].lane("eagle").tau == traces[1].lane("eagle").tau > 1.0


def test_a_follow_up_is_answered_equally_in_both_lanes(bench: Workbench) -> None:
    options = RunOptions(max_new_tokens=16, tree="chain:3")
    first = bench.race("Name a colour.", options)
    list(first)
    second = bench.race("And another?", options, earlier=first.trace().conversation)
    list(second)
    plain, eagle = second.trace().lanes
    assert plain.tokens == eagle.tokens
    assert plain.prefill is not None
    assert first.trace().lanes[0].prefill is not None
    assert plain.prefill.num_prompt_tokens > first.trace().lanes[0].prefill.num_prompt_tokens + 10


def test_the_shipped_head_fits_its_folder_rules() -> None:
    folder = Path(__file__).parents[1] / "assets" / "heads" / "smollm2-135m-instruct" / "eagle"

    assert max(path.stat().st_size for path in folder.iterdir()) < 10_000_000
    assert {"config.json", "model.safetensors", "README.md"} <= {p.name for p in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_clocks_of_a_race_equal_those_of_lanes_run_alone(bench: Workbench) -> None:
    options = RunOptions(max_new_tokens=64, tree="tree:12")
    prompt = bench.encode(PROMPT)

    def decode_ms(events: Iterator[Event]) -> float:
        done = tuple(events)
        return Lane("lane", done, tuple(("",) * len(event.committed) for event in done)).decode_ms

    ratios: dict[str, list[float]] = {"plain": [], "eagle": []}
    for _ in range(5):
        recording = bench.race(PROMPT, options)
        list(recording)
        alone = {
            "plain": decode_ms(bench.plain(prompt, options)),
            "eagle": decode_ms(bench.eagle(prompt, options)),
        }
        for method, ms in alone.items():
            ratios[method].append(recording.trace().lane(method).decode_ms / ms)

    for method, ratio in ratios.items():
        assert median(ratio) == pytest.approx(1.0, abs=CLOCKS_MAY_DIFFER), (method, ratio)

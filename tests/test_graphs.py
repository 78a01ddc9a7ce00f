"""Passes of fixed shape, as far as a machine without a GPU can show them.

What a graph would replay runs as it stands, into the same two tensors every time, as a graph does.
Capturing itself needs a GPU, and nothing here has seen one.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from test_hf import CLOSE, PROMPT, TREE
from test_llama import FAMILIES
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from transformers import AutoModelForCausalLM

from eagle_core.targets.graphs import SIZES, Compute, GraphRun, GraphTarget, Read
from eagle_core.targets.llama import MIN_CAPACITY, LlamaTarget
from eagle_core.tree import DraftTree


def star(num_rows: int) -> DraftTree:
    tokens = tuple(row % 97 for row in range(num_rows))
    return DraftTree(tokens, (None, *[0] * (num_rows - 1)), (0.0,) * num_rows)


class Captures:
    """Keeps count, and gives what a graph gives: the same tensors, written over."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, compute: Compute) -> Compute:
        self.count += 1
        read = compute()

        def replay() -> Read:
            for kept, new in zip(read, compute(), strict=True):
                kept.copy_(new)
            return read

        return replay


def both(family: str = "llama") -> tuple[LlamaTarget, GraphTarget, Captures]:
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(FAMILIES[family])
    graphs, captures = GraphTarget(model, name="graphs"), Captures()
    graphs.capture = captures
    return LlamaTarget(model, name="fast"), graphs, captures


@pytest.mark.parametrize("family", ["llama", "llama 3", "qwen 2", "qwen 3"])
@torch.no_grad()
def test_every_step_equals_that_of_the_eager_path(family: str) -> None:
    fast, graphs, _ = both(family)
    runs = [fast.open(), graphs.open()]
    for run in runs:
        run.prefill(PROMPT, taps=(0, 2))
    kept: list[tuple[torch.Tensor, torch.Tensor]] = []
    for tree, path in [(TREE, (0, 2, 6)), (star(1), (0,)), (star(9), (0, 8)), (TREE, (0, 1, 4, 5))]:
        expected, seen = (run.score_tree(tree, taps=(0, 1, 2)) for run in runs)
        kept += [(seen.logits, expected.logits), (seen.features, expected.features)]
        for run in runs:
            run.keep_path(path)
    for ours, eager in kept:  # looked at after later passes have written over theirs
        torch.testing.assert_close(ours, eager, **CLOSE)
    assert runs[0].num_cached == runs[1].num_cached


@pytest.mark.parametrize("num_rows", [1, 2, 3, 5, 26, SIZES[-1], SIZES[-1] + 1])
@torch.no_grad()
def test_trees_of_any_size_are_filled_up_and_cut_again(num_rows: int) -> None:
    fast, graphs, captures = both()
    runs = [fast.open(), graphs.open()]
    for run in runs:
        run.prefill(PROMPT)
    expected, seen = (run.score_tree(star(num_rows), taps=(1,)) for run in runs)
    torch.testing.assert_close(seen.logits, expected.logits, **CLOSE)
    torch.testing.assert_close(seen.features, expected.features, **CLOSE)
    assert captures.count == (num_rows <= SIZES[-1])


@torch.no_grad()
def test_a_size_is_captured_once_and_again_when_the_cache_has_grown() -> None:
    fast, graphs, captures = both()
    runs = [fast.open(), graphs.open()]
    for run in runs:
        run.prefill(PROMPT)
    for _ in range(MIN_CAPACITY // 3):
        expected, seen = (run.score_tree(TREE) for run in runs)
        torch.testing.assert_close(seen.logits, expected.logits, **CLOSE)
        for run in runs:
            run.keep_path((0, 2, 6))
    assert runs[1].num_cached > MIN_CAPACITY
    assert captures.count == 2


@torch.no_grad()
def test_the_next_run_takes_the_seat_and_its_graphs_and_sees_nothing_of_the_last() -> None:
    _, graphs, captures = both()
    first = graphs.open()
    first.prefill(PROMPT)
    expected = first.score_tree(TREE).logits
    first.keep_path((0, 1, 4))
    del first
    gc.collect()
    second, beside = graphs.open(), graphs.open()
    assert isinstance(second, GraphRun)
    assert isinstance(beside, GraphRun)
    assert second._seat is not beside._seat, "two lanes at once have two seats"
    second.prefill(PROMPT)
    torch.testing.assert_close(second.score_tree(TREE).logits, expected)
    assert captures.count == 1


def test_no_number_of_a_pass_comes_back_to_the_host() -> None:
    """Pretend tensors have no numbers to bring: whoever asks for one is refused."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        half = torch.float16  # of which nothing is packed
        model = AutoModelForCausalLM.from_config(FAMILIES["qwen 3"], dtype=half)
        graphs = GraphTarget(model, name="graphs")
        graphs._free.append(seat := graphs.open()._seat)  # type: ignore[attr-defined]
        states, features = seat.pass_of(8, (0, 2)).compute()
        assert (states.shape, features.shape) == ((8, 32), (8, 64))
        with pytest.raises(DataDependentOutputException):
            int(states.argmax())

"""Heads in every published layout give the draft logits that a naive computation gives.

A tiny Llama is the target; each head is written by hand in its layout, loaded, and drafts trees
over several steps. Every node's logits are compared with a fresh pass by `naive_heads`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from published import (
    DRAFTED,
    PLAN,
    PROMPT,
    WRITERS,
    grow,
    open_drafter,
    tiny_target,
    worst_difference,
)
from torch import Tensor

from eagle_core.decoding import Decoding
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.eagle3 import Eagle3Head
from eagle_core.drafters.heads import load_head
from eagle_core.drafters.layers import HeadCache
from eagle_core.engine import Engine
from eagle_core.options import RunOptions
from eagle_core.plain import Plain
from eagle_core.targets.hf import HfTarget


@pytest.fixture
def target() -> HfTarget:
    return tiny_target()


@pytest.mark.parametrize("layout", WRITERS)
def test_draft_logits_are_those_of_a_naive_computation(
    target: HfTarget, tmp_path: Path, layout: str
) -> None:
    written = WRITERS[layout](tmp_path)
    loaded = load_head(tmp_path, spec=target.spec, embedding=target.embedding())
    assert worst_difference(target, written, loaded) < 1e-5


@pytest.mark.parametrize("layout", WRITERS)
def test_drafted_tokens_are_numbered_as_the_target_numbers_them(
    target: HfTarget, tmp_path: Path, layout: str
) -> None:
    WRITERS[layout](tmp_path)
    loaded = load_head(tmp_path, spec=target.spec)
    seen: list[Tensor] = []
    drafter, run = open_drafter(loaded, target, seen), target.open()
    drafter.begin(torch.tensor(PROMPT), run.prefill(torch.tensor(PROMPT), taps=drafter.taps))
    tree = grow(drafter, 6)
    best = int(seen[0][0].argmax())
    has_own = "eagle3" in layout or "specforge" in layout or layout.startswith("speculators")
    is_cut = has_own and "all tokens" not in layout
    assert tree.tokens[1] == (DRAFTED[best] if is_cut else best)


@pytest.mark.parametrize("layout", WRITERS)
def test_greedy_text_with_a_published_head_is_plain_text(
    target: HfTarget, tmp_path: Path, layout: str
) -> None:
    WRITERS[layout](tmp_path)
    drafter = open_drafter(load_head(tmp_path, spec=target.spec), target, [])
    options = RunOptions(max_new_tokens=24)
    plain = Plain(Decoding.open(target, options)).steps(PROMPT)
    eagle = Engine(Decoding.open(target, options), drafter, plan=PLAN).steps(PROMPT)
    assert [t for e in eagle for t in e.committed] == [t for e in plain for t in e.committed]


# Faults that output alone would hide: each must be told by these logits.

FAULT = 1e-3  # far above what rounding makes


@pytest.mark.parametrize("shift", [-1, 1])
def test_taps_one_layer_off_are_told(
    target: HfTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    written = WRITERS["eagle3"](tmp_path)
    loaded = load_head(tmp_path, spec=target.spec)
    off = tuple(tap + shift for tap in loaded.taps)
    monkeypatch.setattr(loaded.head, "taps", lambda num_layers: off)
    assert worst_difference(target, written, loaded) > FAULT


def test_a_feature_before_the_final_norm_is_told(
    target: HfTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = WRITERS["eagle"](tmp_path)
    loaded = load_head(tmp_path, spec=target.spec)
    monkeypatch.setattr(loaded.head, "taps", lambda num_layers: (num_layers - 1,))
    assert worst_difference(target, written, loaded) > FAULT


def test_a_state_fed_back_after_the_final_norm_is_told(
    target: HfTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = WRITERS["eagle3"](tmp_path)
    loaded = load_head(tmp_path, spec=target.spec)
    forward = Eagle3Head.forward
    monkeypatch.setattr(
        Eagle3Head, "forward", lambda head, *a, **k: head.norm(forward(head, *a, **k))
    )
    monkeypatch.setattr(loaded.head, "readable", lambda estimates: estimates)
    assert worst_difference(target, written, loaded) > FAULT


@pytest.mark.parametrize("layout", ["eagle", "eagle3"])
def test_tokens_not_shifted_against_features_are_told(
    target: HfTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    written = WRITERS[layout](tmp_path)
    loaded = load_head(tmp_path, spec=target.spec)
    begin = EagleDrafter.begin
    monkeypatch.setattr(
        EagleDrafter, "begin", lambda drafter, tokens, read: begin(drafter, tokens.roll(1), read)
    )
    assert worst_difference(target, written, loaded) > FAULT


@pytest.mark.parametrize("layout", ["eagle", "eagle3"])
def test_a_draft_cache_kept_from_estimates_is_told(
    target: HfTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    written = WRITERS[layout](tmp_path)
    loaded = load_head(tmp_path, spec=target.spec)
    crop = HeadCache.crop
    monkeypatch.setattr(
        HeadCache, "crop", lambda cache, rows: crop(cache, min(rows + 1, cache.num_rows))
    )
    assert worst_difference(target, written, loaded) > FAULT

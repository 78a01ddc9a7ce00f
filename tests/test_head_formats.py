"""Heads out into published layouts and back, and what such a layout may not say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from naive_heads import NaiveHead
from published import (
    DRAFTED,
    TAP_IDS,
    WRITERS,
    V,
    change_config,
    change_tensors,
    tiny_target,
    worst_difference,
)
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle_core.drafters.eagle3 import Eagle3Config
from eagle_core.drafters.exports import LAYOUTS, Layout
from eagle_core.drafters.head import HeadConfig
from eagle_core.drafters.heads import load_head, read_head, write_head
from eagle_core.errors import HeadError
from eagle_core.targets.hf import HfTarget


@pytest.fixture
def target() -> HfTarget:
    return tiny_target()


KINDS = {"eagle": ("eagle", "speculators"), "eagle3": ("eagle3", "specforge", "speculators")}
ONLY_SPECULATORS = ("normed before", "Qwen 3 layer")
ONLY_OURS = ("unshifted", "alone")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("written_in", WRITERS)
def test_a_head_goes_through_every_layout_unchanged_or_is_refused(
    tmp_path: Path, written_in: str, layout: Layout
) -> None:
    WRITERS[written_in](tmp_path)
    before, out = read_head(tmp_path), tmp_path / "out"
    has = KINDS["eagle3" if isinstance(before.config, Eagle3Config) else "eagle"]
    if any(words in written_in for words in ONLY_SPECULATORS):
        has = ("speculators",)
    if any(words in written_in for words in ONLY_OURS):
        has = ("eagle",)
    if layout not in has:
        with pytest.raises(HeadError, match=rf"layout {layout} for an? .*; expected"):
            write_head(out, before, layout=layout)
        return
    write_head(out, before, layout=layout)
    after = read_head(out)
    assert after.config == before.config
    assert after.weights.keys() == before.weights.keys()
    assert all(torch.equal(after.weights[name], before.weights[name]) for name in before.weights)
    assert str(after.vocabulary) == str(before.vocabulary)


@pytest.mark.parametrize(
    ("written_in", "layout"),
    [
        ("eagle", "eagle"),
        ("eagle in speculators", "speculators"),
        ("eagle3", "eagle3"),
        ("specforge with taps numbered as outputs and its own embedding", "specforge"),
        ("speculators, Qwen 3 layer, four taps", "speculators"),
    ],
)
def test_tensors_are_written_under_the_names_and_with_the_values_they_were_published_with(
    tmp_path: Path, written_in: str, layout: Layout
) -> None:
    WRITERS[written_in](tmp_path)
    write_head(tmp_path / "out", read_head(tmp_path), layout=layout)
    theirs, ours = (load_file(f / "model.safetensors") for f in (tmp_path, tmp_path / "out"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_taps_are_written_as_inputs_and_never_so_that_they_read_as_outputs(tmp_path: Path) -> None:
    WRITERS["specforge with taps numbered as outputs and its own embedding"](tmp_path)
    head = read_head(tmp_path)
    write_head(tmp_path / "out", head, layout="specforge")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["eagle_config"][TAP_IDS] == [2, 4, 7]
    misleading = replace(head, config=replace(head.config, taps=(1, 4, 7)))
    with pytest.raises(HeadError, match="entering layer 1"):
        write_head(tmp_path / "out", misleading, layout="specforge")


# What a config keeps silent about, and what it may not say.


def test_a_speculators_config_leaves_out_what_is_llamas_default(tmp_path: Path) -> None:
    WRITERS["speculators"](tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for key in ("rms_norm_eps", "max_position_embeddings"):
        del config["transformer_layer_config"][key]
    (tmp_path / "config.json").write_text(json.dumps(config))
    read = read_head(tmp_path).config
    assert (read.rms_norm_eps, read.max_positions) == (1e-6, 2048)


def test_the_tensors_tell_the_kind_whatever_the_config_says(tmp_path: Path) -> None:
    WRITERS["eagle"](tmp_path)
    change_config(tmp_path, architectures=["LlamaForCausalLMEagle3"])
    assert isinstance(read_head(tmp_path).config, HeadConfig)
    (tmp_path / "3").mkdir()
    WRITERS["eagle3"](tmp_path / "3")
    change_config(tmp_path / "3", architectures=["LlamaForCausalLM"], draft_vocab_size=None)
    config = read_head(tmp_path / "3").config
    assert isinstance(config, Eagle3Config)
    assert config.draft_vocab_size == len(DRAFTED)


@pytest.mark.parametrize(
    ("layout", "change", "said"),
    [
        ("eagle3", {"fc_norm": [0, 1, 2]}, "fc_norm"),
        ("eagle3", {"norm_output": False}, "norm_output = false"),
        ("eagle3", {"num_hidden_layers": 2}, "num_hidden_layers = 2"),
        ("eagle3", {"parallel_drafting": True}, "unknown keys parallel_drafting"),
        ("eagle3", {"sliding_window": 512}, "sliding window"),
        ("eagle3", {"eagle_config": [1]}, "cannot be understood"),
        ("eagle3", {TAP_IDS: ["two", 4, 5]}, "the taps"),
        ("eagle3", {"rms_norm_eps": "small"}, "rms_norm_eps 'small'"),
        ("eagle3", {"max_position_embeddings": -1}, "max_positions -1"),
        ("eagle3", {"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling"),
        ("eagle3", {"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state"),
        ("speculators", {"norm_output": True}, "norm_output = True"),
        ("speculators", {"some_new_setting": 1}, "unknown keys some_new_setting"),
        ("speculators", {"transformer_layer_config": {"model_type": "mamba"}}, "mamba layers"),
        ("eagle in speculators", {"layernorms": True}, "layernorms = True"),
        ("eagle", {"inputs": "feature+future"}, "inputs 'feature.future'"),
    ],
)
def test_a_setting_that_would_make_another_head_is_refused_in_one_sentence(
    tmp_path: Path, layout: str, change: dict[str, Any], said: str
) -> None:
    WRITERS[layout](tmp_path)
    change_config(tmp_path, **change)
    with pytest.raises(HeadError, match=rf"^[^\n]*{said}[^\n]*; expected [^\n]*$"):
        read_head(tmp_path)


@pytest.mark.parametrize("taps", [[2, 4, 8], [1, 4, 7]], ids=["inputs", "outputs"])
def test_a_tap_beyond_the_targets_layers_is_refused(
    target: HfTarget, tmp_path: Path, taps: list[int]
) -> None:
    WRITERS["eagle3"](tmp_path)
    change_config(tmp_path, **{TAP_IDS: taps})
    with pytest.raises(HeadError, match="entering layer 8; expected one below 8"):
        load_head(tmp_path, spec=target.spec)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"d2t": None}, "drafts 10 of 41 tokens and lacks d2t"),
        ({"d2t": torch.arange(9)}, r"d2t of shape \(9,\); expected \(10,\)"),
        ({"d2t": torch.full((10,), 40)}, "token ids from 40 to 49; expected ids below 41"),
        ({"d2t": -torch.arange(10)}, "d2t gives some token twice"),
        ({"t2d": torch.ones(V, dtype=torch.bool)}, "t2d of shape .* 41 tokens; expected the 10"),
        ({"norm.weight": None}, "lacks norm.weight"),
        ({"medusa.weight": torch.ones(2)}, "also holds medusa.weight"),
    ],
)
def test_maps_and_tensors_that_contradict_each_other_are_refused(
    target: HfTarget, tmp_path: Path, change: dict[str, Tensor | None], said: str
) -> None:
    WRITERS["eagle3"](tmp_path)
    change_tensors(tmp_path, **change)
    with pytest.raises(HeadError, match=said):
        load_head(tmp_path, spec=target.spec)


def test_a_head_without_an_unembedding_reads_with_the_targets(
    target: HfTarget, tmp_path: Path
) -> None:
    written = WRITERS["eagle3"](tmp_path)
    change_tensors(tmp_path, **{"lm_head.weight": None})
    loaded = load_head(tmp_path, spec=target.spec)
    rows = target.model.lm_head.weight[DRAFTED]

    def naive(of: HfTarget) -> NaiveHead:
        return replace(written.naive(of), unembedding=rows)

    assert worst_difference(target, replace(written, naive=naive), loaded) < 1e-5


def test_a_head_of_something_else_is_refused_by_its_tensors(tmp_path: Path) -> None:
    save_file({"0.linear.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"medusa_num_heads": 3}))
    with pytest.raises(HeadError, match=r"tensors 0\.linear\.weight; expected those of an EAGLE"):
        read_head(tmp_path)


def test_rotary_frequencies_that_a_file_carries_along_are_left_aside(
    target: HfTarget, tmp_path: Path
) -> None:
    written = WRITERS["eagle"](tmp_path)
    change_tensors(tmp_path, **{"layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(5)})
    assert worst_difference(target, written, load_head(tmp_path, spec=target.spec)) < 1e-5

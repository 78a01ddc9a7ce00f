"""Quantised weights against their own numbers, in layers, in targets, and in a whole race."""

from __future__ import annotations

import copy
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import proofs
import pytest
import torch
from benches import tiny_bench
from test_hf import PROMPT, TREE
from test_llama import FAMILIES
from tokenizers import Tokenizer, models
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from app.settings import DTYPES
from eagle_core import quantised, workbench
from eagle_core.compare import as_lane, find_divergence
from eagle_core.errors import OptionError, TargetError
from eagle_core.options import RunOptions
from eagle_core.quantised import (
    GROUP,
    Int4Weight,
    Int8Weight,
    Quantisation,
    QuantisedLinear,
    quantise,
)
from eagle_core.targets import loading, probe
from eagle_core.targets.hf import HfTarget
from eagle_core.targets.llama import LlamaTarget
from eagle_core.targets.loading import load_target

KINDS: tuple[Quantisation, ...] = ("int8", "int4")
SHAPES = [(64, 64), (97, 48), (33, 160), (23, 24)]  # some fit no kernel's block
ROWS = (1, 2, 3, 16, 17, 26)
UNIT = 2**-8  # the widest rounding of bfloat16, relative

pytestmark = pytest.mark.skipif(
    not quantised.is_available(), reason="this PyTorch has no such kernels"
)


def weight_of(shape: tuple[int, int], seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def layer_of(kind: Quantisation, weight: Tensor, *, keeps_copy: bool = True) -> QuantisedLinear:
    return QuantisedLinear(quantised.KINDS[kind].of(weight), keeps_copy=keeps_copy)


@pytest.mark.parametrize("keeps_copy", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_product_is_that_of_the_weights_it_stands_for(
    kind: Quantisation, shape: tuple[int, int], keeps_copy: bool
) -> None:
    layer = layer_of(kind, weight_of(shape), keeps_copy=keeps_copy)
    meant = layer.weight.dequantised(torch.float64)
    for num_rows in ROWS:
        x = weight_of((num_rows, shape[1]), seed=num_rows).bfloat16()
        expected = x.double() @ meant.T
        assert layer(x).dtype is torch.bfloat16
        torch.testing.assert_close(layer(x).double(), expected, atol=1e-4, rtol=2 * UNIT)


@pytest.mark.parametrize("keeps_copy", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_whatever_rows_it_goes_with(kind: Quantisation, keeps_copy: bool) -> None:
    """Sums in another order may fall on the other side of a rounding, and do so rarely."""
    layer = layer_of(kind, weight_of((256, 576)), keeps_copy=keeps_copy)
    x = weight_of((26, 576), seed=1).bfloat16()
    alone = torch.cat([layer(row[None]) for row in x])
    for num_rows in (2, 3, 17, 26):
        together = layer(x[:num_rows])
        torch.testing.assert_close(together, alone[:num_rows], atol=1e-3, rtol=2 * UNIT)
        assert (together != alone[:num_rows]).float().mean() < 0.01


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_within_half_a_step_of_the_weights(shape: tuple[int, int]) -> None:
    weight = weight_of(shape)
    quantised_weight = Int8Weight.of(weight)
    steps = weight.abs().amax(1, keepdim=True) / 127
    error = (quantised_weight.dequantised(torch.float32) - weight).abs()
    assert (error <= steps * (0.5 + 127 * UNIT / 2)).all(), "half a step, and the scale's rounding"
    assert quantised_weight.codes.abs().max() <= 127


@pytest.mark.parametrize("shape", SHAPES)
def test_int4_is_within_half_a_step_of_the_weights(shape: tuple[int, int]) -> None:
    weight = weight_of(shape)
    error = (Int4Weight.of(weight).dequantised(torch.float32) - weight).abs()
    for group, wrong in zip(weight.split(GROUP, 1), error.split(GROUP, 1), strict=True):
        least, most = group.amin(1, keepdim=True), group.amax(1, keepdim=True)
        rounding = UNIT / 2 * (8 * (most - least) / 15 + (most + least).abs())
        assert (wrong <= (most - least) / 30 + rounding + 1e-6).all()


def test_weights_that_lie_on_sixteen_even_levels_are_kept_to_bfloat16() -> None:
    """As those of a model that was published in 4 bits with a scale and a least value."""
    levels = torch.arange(16.0).repeat(8, 4)
    weight = (levels * 0.01 - 0.06).roll(3, dims=1)
    error = (Int4Weight.of(weight).dequantised(torch.float32) - weight).abs()
    assert error.max() < 0.01 * 8 * UNIT


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_nothing_but_zeros_give_zeros(kind: Quantisation) -> None:
    layer = layer_of(kind, torch.zeros(32, 64))
    assert torch.equal(layer(torch.ones(3, 64).bfloat16()), torch.zeros(3, 32).bfloat16())


@pytest.mark.parametrize("kind", KINDS)
def test_joined_layers_and_parts_of_them_are_the_layers_side_by_side(kind: Quantisation) -> None:
    biased = [
        QuantisedLinear(quantised.KINDS[kind].of(weight_of((n, 64), n)), torch.arange(float(n)))
        for n in (32, 16, 48)
    ]
    x = weight_of((5, 64), seed=3).bfloat16()
    expected = torch.cat([layer(x) for layer in biased], dim=-1)
    joined = QuantisedLinear.joined(biased)
    torch.testing.assert_close(joined(x), expected)
    some = torch.tensor([50, 2, 31])
    torch.testing.assert_close(joined.rows(some)(x), expected[:, some])


def test_a_projection_does_not_hold_on_to_the_codes_that_int4_was_packed_from() -> None:
    layer = layer_of("int4", weight_of((32, 64)))
    project, codes = layer.project(), weakref.ref(layer.weight.codes)
    del layer
    assert codes() is None
    assert project(torch.ones(1, 64).bfloat16()).shape == (1, 32)


def model_of(family: str, kind: Quantisation) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(FAMILIES[family]).bfloat16().eval()
    quantise(model, kind)
    return model


@pytest.mark.parametrize("family", ["llama", "llama with biases", "llama 3", "qwen 2", "qwen 3"])
@pytest.mark.parametrize("kind", KINDS)
def test_both_paths_read_a_quantised_model_as_its_own_forward_does(
    kind: Quantisation, family: str
) -> None:
    model = model_of(family, kind)
    for path in (HfTarget, LlamaTarget):
        target = path(model, name="tiny")
        probe.check(target)
        assert probe.worst_difference(target) < 0.1
        assert (target.spec.precision, target.spec.dtype) == (kind, torch.bfloat16)


@pytest.mark.parametrize("kind", KINDS)
def test_the_embedding_stays_and_what_was_tied_to_it_is_quantised(kind: Quantisation) -> None:
    model = model_of("llama 3", kind)
    assert model.get_input_embeddings().weight.dtype is torch.bfloat16
    assert isinstance(model.get_output_embeddings(), QuantisedLinear)
    assert not [module for module in model.modules() if type(module) is nn.Linear]


@pytest.mark.parametrize("kind", KINDS)
def test_an_unembedding_of_some_tokens_or_in_float32_is_that_of_the_codes(
    kind: Quantisation,
) -> None:
    target = LlamaTarget(model_of("llama 3", kind), name="tiny")
    features = weight_of((3, 32)).bfloat16()
    some = torch.tensor([40, 2, 96])
    whole = target.unembedding()(features)
    torch.testing.assert_close(target.unembedding(some)(features), whole[:, some])
    wide = target.unembedding(some, dtype=torch.float32)(features.float())
    torch.testing.assert_close(wide, whole[:, some].float(), atol=1e-3, rtol=2 * UNIT)


@pytest.mark.parametrize("kind", KINDS)
def test_tree_rows_are_those_of_their_paths_on_a_quantised_target(kind: Quantisation) -> None:
    target = LlamaTarget(model_of("llama", kind), name="tiny")
    run = target.open()
    run.prefill(PROMPT)
    tree = run.score_tree(TREE).logits.float()
    for node in range(len(TREE)):
        tokens = torch.tensor(TREE.tokens_on(TREE.path_to(node)))
        fresh = target.open()
        alone = fresh.prefill(torch.cat([PROMPT, tokens])).logits[0].float()
        assert (tree[node] - alone).square().mean().sqrt() < 0.1 * alone.std()


def num_bytes(*tensors: Tensor) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def test_codes_take_a_quarter_and_less_than_a_sixth_of_float32() -> None:
    weight = weight_of((128, 576))
    eight, four = Int8Weight.of(weight), Int4Weight.of(weight)
    assert num_bytes(eight.codes, eight.scales) < 0.26 * num_bytes(weight)
    assert num_bytes(*four._packed()) < num_bytes(weight) / 6


@pytest.mark.parametrize(("limit", "is_kept"), [(1 << 30, True), (1000, False)])
def test_only_a_small_model_keeps_a_copy_of_its_codes(
    limit: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantised, "KEPT_BYTES", limit)
    assert model_of("llama", "int8").get_output_embeddings().keeps_copy is is_kept


def quantised_world(seed: int, kind: Quantisation) -> proofs.World:
    """The toys of the other proofs with quantised weights, and the same head."""
    made = copy.deepcopy(proofs.world(seed))
    model = made.target.model.bfloat16()
    quantise(model, kind)
    return proofs.World(LlamaTarget(model, name="tiny"), made.head.bfloat16())


@pytest.mark.parametrize("tree", ["chain:3", "tree:12", "dynamic:20:4:5"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_greedy_race_on_a_quantised_target_parts_at_near_ties_alone(
    kind: Quantisation, tree: str
) -> None:
    options, num_equal = RunOptions(max_new_tokens=24, tree=tree), 0
    for seed in range(6):
        bench = tiny_bench(quantised_world(seed, kind))
        prompt = bench.encode("hello")
        plain = as_lane("plain", bench.plain(prompt, options))
        eagle = as_lane("eagle", bench.eagle(prompt, options))
        found = find_divergence(bench.target, prompt, plain, eagle)
        assert found is None or found.is_numerics
        num_equal += found is None
    assert num_equal >= 4


def saved(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(FAMILIES["llama"]).save_pretrained(tmp_path)
    words = {f"w{number}": number for number in range(97)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))  # type: ignore[call-arg]
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_loads_quantised_and_lets_go_of_what_it_was_made_from(
    kind: Quantisation, tmp_path: Path
) -> None:
    target = load_target(saved(tmp_path), device="cpu", quantisation=kind)
    assert isinstance(target, LlamaTarget)
    assert (target.spec.precision, len(target.decoder.layers)) == (kind, 0)
    assert workbench.describe(target, head_name="h").dtype == kind
    assert target.open().prefill(PROMPT, taps=(1,)).features.dtype is torch.bfloat16


@pytest.mark.parametrize("place", [{"device_map": "auto"}, {"device": "meta"}])
@pytest.mark.parametrize("kind", KINDS)
def test_quantised_weights_away_from_the_cpu_are_refused_in_one_sentence(
    kind: Quantisation, place: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match=rf"^{kind} weights on [^\n]*; try --device cpu"):
        load_target(tmp_path, quantisation=kind, **place)  # type: ignore[arg-type]


def test_a_pytorch_without_the_kernels_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "is_available", lambda: False)
    with pytest.raises(TargetError, match=r"int8 weights with PyTorch .*; expected 2\.6 or newer"):
        load_target(tmp_path, device="cpu", quantisation="int8")


def test_a_dtypes_name_says_what_weights_and_what_activations_are_in() -> None:
    cpu = torch.device("cpu")
    for name in KINDS:
        assert workbench.dtype_named(name, cpu) is torch.bfloat16
        assert workbench.quantisation_named(name) == name
    assert workbench.quantisation_named("float32") is workbench.quantisation_named(None) is None
    with pytest.raises(OptionError, match=r"dtype 'int3'; expected .*float16, int8, int4"):
        workbench.dtype_named("int3", cpu)
    assert set(DTYPES) == {"auto", *workbench.DTYPES, *quantised.KINDS}


def test_a_profile_is_measured_for_each_precision() -> None:
    bench = tiny_bench()
    other = replace(bench, environment=replace(bench.environment, dtype="int8"))
    assert bench.conditions != other.conditions

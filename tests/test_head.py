"""EAGLE-1's head on a seeded toy: published layout, cache, masks, config keys."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from eagle_core.drafters import layers
from eagle_core.drafters.head import EagleHead, HeadConfig
from eagle_core.drafters.layers import HeadCache
from eagle_core.errors import HeadError

CONFIG = HeadConfig(
    width=24,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    intermediate_size=40,
    vocab_size=50,
    max_positions=64,
    target="toy",
)

# positions of pairs; two true rows, then a tree of estimates below row 1:
#
#   0 ── 1 ─┬─ 2 ─┬─ 4
#           │     └─ 5
#           └─ 3 ── 6
PARENTS = (None, 0, 1, 1, 2, 2, 3)
LEVELS = ((0, 1), (2, 3), (4, 5, 6))


@pytest.fixture
def head() -> EagleHead:
    torch.manual_seed(0)
    return EagleHead(CONFIG).eval()


def ancestors(row: int) -> list[int]:
    path = [row]
    while (parent := PARENTS[path[-1]]) is not None:
        path.append(parent)
    return path[::-1]


def rows(count: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, 24, generator=draw), torch.randn(count, 24, generator=draw)


def test_parameter_names_and_shapes_are_the_published_ones(head: EagleHead) -> None:
    shapes = {name: tuple(weight.shape) for name, weight in head.state_dict().items()}
    assert shapes == {
        "fc.weight": (24, 48),
        "fc.bias": (24,),
        "layers.0.self_attn.q_proj.weight": (32, 24),
        "layers.0.self_attn.k_proj.weight": (16, 24),
        "layers.0.self_attn.v_proj.weight": (16, 24),
        "layers.0.self_attn.o_proj.weight": (24, 32),
        "layers.0.mlp.gate_proj.weight": (40, 24),
        "layers.0.mlp.up_proj.weight": (40, 24),
        "layers.0.mlp.down_proj.weight": (24, 40),
        "layers.0.post_attention_layernorm.weight": (24,),
    }


def test_biases_exist_exactly_where_the_config_says() -> None:
    config = dataclasses.replace(CONFIG, fc_bias=False, qkv_bias=True)
    biases = {name for name, _ in EagleHead(config).named_parameters() if name.endswith("bias")}
    assert biases == {f"layers.0.self_attn.{p}_proj.bias" for p in "qkv"}


def test_the_fused_input_is_the_embedding_first_and_the_feature_second(head: EagleHead) -> None:
    embeddings, features = rows(3)
    with torch.no_grad():
        head.fc.weight[:, :24] = 0.0
    positions = torch.arange(3)
    out = head(embeddings, features, positions=positions)
    assert torch.equal(out, head(embeddings * 2, features, positions=positions))
    assert not torch.allclose(out, head(embeddings, features * 2, positions=positions))


@torch.no_grad()
def test_level_by_level_through_the_cache_equals_one_causal_pass_per_path(head: EagleHead) -> None:
    embeddings, features = rows(7)
    cache = HeadCache(CONFIG, max_rows=16)
    depth = [len(ancestors(row)) - 1 for row in range(7)]
    grown = []
    for level in LEVELS:
        mask = torch.zeros(len(level), cache.num_rows + len(level), dtype=torch.bool)
        for i, row in enumerate(level):
            mask[i, ancestors(row)] = True
        positions = torch.tensor([depth[row] for row in level])
        index = list(level)
        grown.append(
            head(embeddings[index], features[index], positions=positions, mask=mask, cache=cache)
        )
    by_level = torch.cat(grown)
    for row in range(7):
        path = ancestors(row)
        alone = head(embeddings[path], features[path], positions=torch.arange(len(path)))
        torch.testing.assert_close(by_level[row], alone[-1], atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_a_cropped_cache_forgets_the_tree_and_goes_on_causally(head: EagleHead) -> None:
    embeddings, features = rows(6)
    cache = HeadCache(CONFIG, max_rows=8)
    head(embeddings[:2], features[:2], positions=torch.arange(2), cache=cache)
    head(*rows(3, seed=9), positions=torch.arange(2, 5), cache=cache)
    cache.crop(2)
    tail = head(embeddings[2:], features[2:], positions=torch.arange(2, 6), cache=cache)
    whole = head(embeddings, features, positions=torch.arange(6))
    torch.testing.assert_close(tail, whole[2:], atol=1e-6, rtol=1e-5)
    assert cache.num_rows == 6


@torch.no_grad()
def test_kept_rows_are_what_a_pass_over_that_path_would_have_left(head: EagleHead) -> None:
    embeddings, features = rows(4)
    positions = torch.tensor([0, 1, 1, 2])
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)
    cache, alone = HeadCache(CONFIG, max_rows=4), HeadCache(CONFIG, max_rows=4)
    head(embeddings, features, positions=positions, mask=mask, cache=cache)
    cache.keep([0, 2, 3])
    path = [0, 2, 3]
    head(embeddings[path], features[path], positions=torch.arange(3), cache=alone)
    kept, expected = cache.layers[0], alone.layers[0]
    torch.testing.assert_close(kept.keys, expected.keys, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(kept.values, expected.values, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_a_cache_grows_as_it_fills_and_never_beyond_its_limit(
    head: EagleHead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "FIRST_ROWS", 2)
    embeddings, features = rows(7)
    cache = HeadCache(CONFIG, max_rows=7)
    grown = [
        head(embeddings[i, None], features[i, None], positions=torch.tensor([i]), cache=cache)
        for i in range(7)
    ]
    whole = head(embeddings, features, positions=torch.arange(7))
    torch.testing.assert_close(torch.cat(grown), whole, atol=1e-6, rtol=1e-5)
    with pytest.raises(AssertionError, match="8 rows in a head cache for 7"):
        cache.layers[0].append(cache.layers[0].keys[:, :1], cache.layers[0].values[:, :1])


@torch.no_grad()
def test_an_added_mask_equals_a_mask_of_yes_and_no(head: EagleHead) -> None:
    embeddings, features = rows(4)
    yes = torch.ones(4, 4, dtype=torch.bool).tril()
    added = torch.zeros(4, 4).masked_fill(~yes, float("-inf"))
    position = torch.arange(4)
    expected = head(embeddings, features, positions=position)
    for mask in (yes, added):
        out = head(embeddings, features, positions=position, mask=mask)
        torch.testing.assert_close(out, expected, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_batch_rows_do_not_see_each_other(head: EagleHead) -> None:
    (a, fa), (b, fb) = rows(5), rows(5, seed=2)
    positions = torch.stack([torch.arange(5), torch.arange(3, 8)])
    both = head(torch.stack([a, b]), torch.stack([fa, fb]), positions=positions)
    torch.testing.assert_close(both[1], head(b, fb, positions=positions[1]), atol=1e-6, rtol=1e-5)


def test_a_config_survives_its_own_json() -> None:
    assert HeadConfig.from_json(CONFIG.to_json()) == CONFIG


def test_a_published_config_is_read_with_its_defaults() -> None:
    published = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "rope_scaling": None,
        "pad_token_id": 0,
        "vocab_size": 32000,
        "torch_dtype": "float16",
    }
    config = HeadConfig.from_json(published)
    assert (config.num_kv_heads, config.head_dim, config.fc_bias) == (32, 128, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"norm_before_fc": True}, "norm_before_fc"),
        ({"num_hidden_layers": 2}, "num_hidden_layers = 2; expected 1"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_key_value_heads": 3}, "4 attention heads over 3"),
    ],
)
def test_a_config_that_would_change_the_head_is_refused(change: dict, said: str) -> None:
    with pytest.raises(HeadError, match=said):
        HeadConfig.from_json(CONFIG.to_json() | change)

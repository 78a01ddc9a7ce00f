"""Published layouts of heads, read into our own names and numbering.

    ours, EAGLE-1  fc.* layers.0.*                    as the reference
    ours, EAGLE-3  fc.* midlayer.* norm.* lm_head.*   as the reference and SpecForge
    ours, Medusa   0.0.linear.* 1.0.linear.* …        as the reference
    ours, small    model.layers.N.* model.norm.*      as transformers' Llama
    speculators    fusion_fc.* transformer.*  │  fc.* layers.0.* norm.* lm_head.*

and, for EAGLE-3, `d2t`, (V',): what is added to a draft token to give the target's, and `t2d`,
(V,): which of the target's tokens can be drafted. The states that a head taps are numbered in two
ways by those who publish heads: as inputs of layers, as we do, or as outputs of layers.

Knows names, shapes and configs. Knows nothing of files or of what a head computes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from eagle_core.drafters.eagle3 import Eagle3Config
from eagle_core.drafters.head import HeadConfig
from eagle_core.drafters.medusa import NUM_BLOCKS, MedusaConfig
from eagle_core.drafters.small import SmallConfig
from eagle_core.errors import HeadError
from eagle_core.targets.base import Taps

TAPS = "eagle_aux_hidden_state_layer_ids"
_MAPS = ("d2t", "t2d")
EMBEDDING, UNEMBEDDING = "embed_tokens.weight", "lm_head.weight"
_DERIVED = "rotary_emb.inv_freq"  # some files carry what the config says already
# what a config of transformers leaves out means its own default
_LLAMA = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "vocab_size": 32000,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
}
_NESTED_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA,
    "qwen3": _LLAMA
    | {"intermediate_size": 22016, "vocab_size": 151936, "max_position_embeddings": 32768}
    | {"num_key_value_heads": 32, "head_dim": 128},
}
_SPECULATORS_FALSE = ("fc_norm", "norm_output", "layernorms")  # each would make another head
_SPECULATORS_WITHOUT_EFFECT = {
    *("speculators_model_type", "speculators_version", "speculators_config"),
    *("transformer_layer_config", "transformer_layer_architecture", "architectures"),
    *("embed_requires_grad", "enable_sp_ulysses", "torch_dtype", "dtype", "transformers_version"),
    *("fusion_bias", "auto_map", "tie_word_embeddings", "model_type"),
}


AnyConfig = HeadConfig | Eagle3Config | MedusaConfig | SmallConfig
_BLOCK = re.compile(r"^(\d+)\.0\.linear\.")  # as Medusa's checkpoints name one


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A head in our names: what it is, its weights, and the tokens it drafts.

    vocabulary: (V',) int64 target ids in the order of the draft's own, None where they are equal.
    """

    config: AnyConfig
    weights: dict[str, Tensor]
    vocabulary: Tensor | None


def understand(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> Checkpoint:
    """Tell a head from the names and shapes of its tensors; the config only fills in.

    Raises HeadError in one sentence for a layout or a setting that is none of these.
    """
    if NUM_BLOCKS in config and "0.0.linear.weight" in tensors:
        blocks = {_BLOCK.sub(r"blocks.\1.linear.", name): t for name, t in tensors.items()}
        return Checkpoint(MedusaConfig.from_json(config), blocks, None)
    if _is_small(tensors):
        return _small_model(tensors, config)
    is_eagle3 = _is_eagle3(tensors, config)
    named = _in_our_names(tensors, is_eagle3=is_eagle3)
    maps = {name: named.pop(name) for name in _MAPS if name in named}
    flat = _flat(config)
    traits: dict[str, Any] = {
        **_traits_of_layers(named),
        "fc_bias": "fc.bias" in named,
        "owns_unembedding": UNEMBEDDING in named,
    }
    if not is_eagle3:
        return Checkpoint(replace(HeadConfig.from_json(flat), **traits), named, None)
    if flat.get("draft_vocab_size") is None:
        flat["draft_vocab_size"] = _num_drafted(named, maps) or flat.get("vocab_size")
    sizes = replace(Eagle3Config.from_json(flat), **traits)
    return Checkpoint(sizes, named, _vocabulary(maps, sizes))


def _is_small(tensors: Mapping[str, Tensor]) -> bool:
    """Whole layers and a final norm, and nothing that joins features to embeddings."""
    names = {name.removeprefix("model.") for name in tensors}
    joins = ("fc.", "fusion_fc.", "hidden_norm", "midlayer.")
    return {"layers.0.input_layernorm.weight", "norm.weight"} <= names and not any(
        part in name for name in names for part in joins
    )


def _small_model(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> Checkpoint:
    """Also one whose embeddings are its unembedding too, as `tie_word_embeddings` says."""
    kept = {name: tensor for name, tensor in tensors.items() if not name.endswith(_DERIVED)}
    named = {name.removeprefix("model."): tensor for name, tensor in kept.items()}
    if config.get("tie_word_embeddings") and EMBEDDING in named:
        named.setdefault(UNEMBEDDING, named[EMBEDDING])
    traits: dict[str, Any] = {**_traits_of_layers(named), "owns_unembedding": UNEMBEDDING in named}
    return Checkpoint(replace(SmallConfig.from_json(config), **traits), named, None)


def _traits_of_layers(named: Mapping[str, Tensor]) -> dict[str, bool]:
    """What the weights say of their layers."""
    return {
        "qkv_bias": any(name.endswith("self_attn.q_proj.bias") for name in named),
        "qk_norm": any(name.endswith("self_attn.q_norm.weight") for name in named),
        "owns_embedding": EMBEDDING in named,
    }


def taps_from(ids: list[int]) -> Taps:
    """Our numbering from a published one: outputs of layers where the first is 1, else inputs."""
    return tuple(index + 1 for index in ids) if ids[0] == 1 else tuple(ids)


def _is_eagle3(tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> bool:
    if any("midlayer." in name or "hidden_norm" in name or name in _MAPS for name in tensors):
        return True
    fc = next((t for name, t in tensors.items() if name.endswith("fc.weight")), None)
    if fc is not None and fc.dim() == 2:
        return fc.shape[1] > 2 * fc.shape[0]
    said = f"{config.get('architectures')} {config.get('speculators_model_type')}".lower()
    if "eagle" not in said:
        raise HeadError(
            f"a head of the tensors {', '.join(sorted(tensors)[:8]) or 'of no name'}",
            expected="those of an EAGLE-1, EAGLE-2 or EAGLE-3 head",
        )
    return "eagle3" in said


def _in_our_names(tensors: Mapping[str, Tensor], *, is_eagle3: bool) -> dict[str, Tensor]:
    def ours(name: str) -> str:
        name = name.removeprefix("model.")
        if is_eagle3:
            return name.replace("layers.0.", "midlayer.", 1)
        name = name.replace("fusion_fc.", "fc.", 1)
        return name.replace("transformer.", "layers.0.", 1)

    kept = {name: tensor for name, tensor in tensors.items() if not name.endswith(_DERIVED)}
    return {ours(name): tensor for name, tensor in kept.items()}


def _num_drafted(named: dict[str, Tensor], maps: dict[str, Tensor]) -> int | None:
    """V', for a config that keeps silent about it."""
    rows = maps.get("d2t", named.get("lm_head.weight"))
    return None if rows is None else rows.shape[0]


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """One level of keys, named as in the reference, taps in our numbering under `taps`."""
    if "transformer_layer_config" in config or "speculators_model_type" in config:
        flat = _flat_from_speculators(config)
    else:
        flat = _flat_from_reference(config)
    ids = flat.pop(TAPS, None)
    return flat | ({"taps": taps_from(ids)} if ids else {})


def _flat_from_reference(config: Mapping[str, Any]) -> dict[str, Any]:
    """Also SpecForge's; there `norm_output` tells whether the final norm is there at all."""
    flat = dict(config)
    _refuse_unless(flat.pop("norm_output", True) is True, "norm_output = false")
    _refuse_unless(not flat.pop("fc_norm", None), "fc_norm")
    nested = flat.pop("eagle_config", None) or {}
    _refuse_unless(nested.get("use_aux_hidden_state", True), "use_aux_hidden_state = false")
    _refuse_unless(set(nested) <= {TAPS, "use_aux_hidden_state"}, f"eagle_config = {nested}")
    return flat | {key: value for key, value in nested.items() if key == TAPS}


def _flat_from_speculators(config: Mapping[str, Any]) -> dict[str, Any]:
    for key in _SPECULATORS_FALSE:
        _refuse_unless(not config.get(key), f"{key} = {config.get(key)}")
    layer = dict(config.get("transformer_layer_config") or {})
    known = _NESTED_DEFAULTS.get(layer.get("model_type", "llama"))
    if known is None:
        raise HeadError(
            f"a speculators head of {layer['model_type']} layers",
            expected=f"one of {' or '.join(_NESTED_DEFAULTS)} layers",
        )
    skipped = {*_SPECULATORS_WITHOUT_EFFECT, *_SPECULATORS_FALSE}
    outer = {key: value for key, value in config.items() if key not in skipped}
    verifier = (config.get("speculators_config") or {}).get("verifier") or {}
    return known | layer | outer | {"target": verifier.get("name_or_path")}


def _vocabulary(maps: dict[str, Tensor], config: Eagle3Config) -> Tensor | None:
    """Target ids of the draft's own tokens, checked against each other and the sizes."""
    size = config.draft_vocab_size
    if "d2t" not in maps:
        if size != config.vocab_size:
            raise HeadError(
                f"a head that drafts {size} of {config.vocab_size} tokens and lacks d2t",
                expected="d2t, the target's token of each drafted one",
            )
        return None
    offsets = maps["d2t"].to(torch.int64)
    if offsets.shape != (size,):
        raise HeadError(f"d2t of shape {tuple(offsets.shape)}", expected=f"({size},)")
    tokens = torch.arange(size) + offsets
    check_vocabulary(tokens, vocab_size=config.vocab_size, where="d2t")
    if "t2d" in maps:
        _check_t2d(maps["t2d"].to(torch.bool), tokens, config)
    is_identity = size == config.vocab_size and not offsets.any()
    return None if is_identity else tokens


def check_vocabulary(tokens: Tensor, *, vocab_size: int, where: str) -> None:
    """Raises HeadError unless these are different ids of the target's vocabulary."""
    if int(tokens.min()) < 0 or int(tokens.max()) >= vocab_size:
        raise HeadError(
            f"{where} holds token ids from {int(tokens.min())} to {int(tokens.max())}",
            expected=f"ids below {vocab_size}, the vocabulary of the target",
            hint="a head trained on this target",
        )
    if len(set(tokens.tolist())) < len(tokens):
        raise HeadError(f"{where} gives some token twice", expected="each once")


def _check_t2d(can_be_drafted: Tensor, tokens: Tensor, config: Eagle3Config) -> None:
    fits = can_be_drafted.shape == (config.vocab_size,)
    if not fits or int(can_be_drafted.sum()) != len(tokens) or not can_be_drafted[tokens].all():
        raise HeadError(
            f"t2d of shape {tuple(can_be_drafted.shape)} and {int(can_be_drafted.sum())} tokens",
            expected=f"the {len(tokens)} tokens of d2t among {config.vocab_size}",
            hint="a fresh copy of the head",
        )


def _refuse_unless(is_known: bool, setting: str) -> None:
    if not is_known:
        raise HeadError(f"a head config with {setting}", expected="a head without this setting")

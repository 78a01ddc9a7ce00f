"""The key names of published head configs, and sizes read from them.

Knows JSON objects. Knows nothing of tensors or files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eagle_core.drafters.layers import LayerConfig, RopeScaling
from eagle_core.errors import HeadError

# our name → the key in a published config.json
LAYER_KEYS = {
    "width": "hidden_size",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate_size": "intermediate_size",
    "vocab_size": "vocab_size",
    "rms_norm_eps": "rms_norm_eps",
    "rope_theta": "rope_theta",
    "max_positions": "max_position_embeddings",
    "fc_bias": "bias",
    "qkv_bias": "qkv_bias",
    "target": "target",
}
ALIASES = {"max_sequence_length": "max_position_embeddings"}  # as in EAGLE's head for Vicuna 33B
FIXED: dict[str, Any] = {"num_hidden_layers": 1, "hidden_act": "silu"}
WITHOUT_EFFECT = {
    *("architectures", "model_type", "torch_dtype", "dtype", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings"),
    *("initializer_range", "use_cache", "pretraining_tp", "_name_or_path", "auto_map"),
    *("attention_dropout", "max_window_layers"),
    *("attention_bias", "mlp_bias"),  # the weights say where biases are
    # a Mixtral's own, kept in the config of its dense head
    *("num_local_experts", "num_experts_per_tok", "output_router_logits", "router_aux_loss_coef"),
}
_ROPE = {"rope_scaling", "rope_parameters"}
_WINDOW = {"sliding_window", "use_sliding_window", "layer_types"}
_DEFAULT_EPS = 1e-6  # what a config that is silent about it means


def sizes_in(
    config: Mapping[str, Any], *, keys: Mapping[str, str], kind: str, needed: frozenset[str]
) -> dict[str, Any]:
    """Arguments of a head config; a key that would change the head is never skipped.

    keys: our names to the keys of this kind of head; `needed`: our names that must be there.
    """
    config = {ALIASES.get(key, key): value for key, value in config.items()}
    _check_known(config, keys)
    _check_fixed(config, kind)
    theta = (config.get("rope_parameters") or {}).get("rope_theta")
    named = {"rms_norm_eps": _DEFAULT_EPS} | ({} if theta is None else {"rope_theta": theta})
    named |= {name: config[key] for name, key in keys.items() if config.get(key) is not None}
    if missing := sorted(keys[name] for name in needed - set(named)):
        raise HeadError(
            f"a head config without {', '.join(missing)}", expected=f"{kind} config.json"
        )
    named.setdefault("num_kv_heads", named["num_heads"])
    named.setdefault("head_dim", named["width"] // named["num_heads"])
    return named | {"rope_scaling": _rope_scaling(config)}


def published(config: LayerConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """The sizes under their published keys."""
    named = {key: getattr(config, name) for name, key in keys.items()}
    return {**FIXED, "rope_scaling": _published_rope(config.rope_scaling), **named}


def _check_known(config: Mapping[str, Any], keys: Mapping[str, str]) -> None:
    known = {*keys.values(), *FIXED, *_ROPE, *_WINDOW}
    if unknown := sorted(set(config) - known - WITHOUT_EFFECT):
        raise HeadError(
            f"a head config with the unknown keys {', '.join(unknown)}",
            expected=f"keys among {', '.join(sorted(known))}",
        )


def _check_fixed(config: Mapping[str, Any], kind: str) -> None:
    for key, value in FIXED.items():
        if config.get(key, value) != value:
            raise HeadError(
                f"a head config with {key} = {json.dumps(config[key])}",
                expected=json.dumps(value),
                hint=f"{kind} head of one such layer",
            )
    window = config.get("sliding_window")
    slides = config.get("use_sliding_window", window is not None) and window is not None
    if slides or set(config.get("layer_types") or ["full_attention"]) != {"full_attention"}:
        raise HeadError("a head config with a sliding window", expected="full attention")


def _rope_scaling(config: Mapping[str, Any]) -> RopeScaling | None:
    said = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = said.get("rope_type", said.get("type", "default"))
    if kind == "default":
        return None
    try:
        if kind == "linear":
            return RopeScaling(kind="linear", factor=float(said["factor"]))
        if kind == "llama3":
            return RopeScaling(
                kind="llama3",
                factor=float(said["factor"]),
                low_freq_factor=float(said["low_freq_factor"]),
                high_freq_factor=float(said["high_freq_factor"]),
                original_positions=int(said["original_max_position_embeddings"]),
            )
    except (KeyError, TypeError, ValueError):
        pass
    raise HeadError(
        f"a head config with rope_scaling = {json.dumps(said)}",
        expected="null, or whole settings of the type linear or llama3",
    )


def _published_rope(scaling: RopeScaling | None) -> dict[str, Any] | None:
    if scaling is None:
        return None
    if scaling.kind == "linear":
        return {"rope_type": "linear", "type": "linear", "factor": scaling.factor}
    return {
        "rope_type": "llama3",
        "factor": scaling.factor,
        "low_freq_factor": scaling.low_freq_factor,
        "high_freq_factor": scaling.high_freq_factor,
        "original_max_position_embeddings": scaling.original_positions,
    }

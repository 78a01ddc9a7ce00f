"""Our heads under published names: those of EAGLE, EAGLE-3, SpecForge or speculators.

Knows names and configs. Knows nothing of files or of what a head computes.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from eagle_core.drafters.eagle3 import Eagle3Config
from eagle_core.drafters.head import HeadConfig
from eagle_core.drafters.layouts import TAPS, UNEMBEDDING, AnyConfig, Checkpoint
from eagle_core.drafters.medusa import MedusaConfig
from eagle_core.drafters.small import SmallConfig
from eagle_core.errors import HeadError
from eagle_core.targets.base import Taps

Layout = Literal["eagle", "eagle3", "medusa", "llama", "specforge", "speculators"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
_KINDS: dict[type, str] = {
    HeadConfig: "an EAGLE-1",
    Eagle3Config: "an EAGLE-3",
    MedusaConfig: "a Medusa",
    SmallConfig: "a small Llama as",
}
_BLOCK = re.compile(r"^blocks\.(\d+)\.")
_LAYOUTS_OF: dict[type, tuple[Layout, ...]] = {
    HeadConfig: ("eagle", "speculators"),
    Eagle3Config: ("eagle3", "specforge", "speculators"),
    MedusaConfig: ("medusa",),
    SmallConfig: ("llama",),
}


def own_layout(config: AnyConfig) -> Layout:
    """The one that we write our own heads in: the reference's, where it can hold the head."""
    if isinstance(config, MedusaConfig):
        return "medusa"
    if isinstance(config, SmallConfig):
        return "llama"
    if _extras(config):
        return "speculators"
    return "eagle3" if isinstance(config, Eagle3Config) else "eagle"


def write_out(checkpoint: Checkpoint, layout: Layout) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and config under the names of a layout; raises HeadError if it has no such head."""
    config = checkpoint.config
    if layout not in _LAYOUTS_OF[type(config)]:
        raise HeadError(
            f"layout {layout} for {_KINDS[type(config)]} head",
            expected=" or ".join(_LAYOUTS_OF[type(config)]),
        )
    if isinstance(config, MedusaConfig):
        blocks = checkpoint.weights.items()
        return {_BLOCK.sub(r"\1.0.", name): t for name, t in blocks}, config.to_json()
    if isinstance(config, SmallConfig):
        named = checkpoint.weights.items()
        return {_as_in_llama(name): tensor for name, tensor in named}, config.to_json()
    if layout != "speculators" and (extras := _extras(config)):
        raise HeadError(f"layout {layout} for a head with {extras[0]}", expected="speculators")
    if layout == "speculators" and isinstance(config, HeadConfig) and config.is_lesser:
        raise HeadError(f"layout speculators for a head of {config.inputs}", expected="eagle")
    tensors = dict(checkpoint.weights)
    if isinstance(config, Eagle3Config):
        tensors |= _maps_of(checkpoint.vocabulary, config)
    if layout != "speculators":
        return tensors, _reference_config(config, layout)
    return _in_speculators_names(tensors, config), _speculators_config(config)


def _as_in_llama(name: str) -> str:
    return name if name == UNEMBEDDING else f"model.{name}"


def _in_speculators_names(
    tensors: dict[str, Tensor], config: HeadConfig | Eagle3Config
) -> dict[str, Tensor]:
    def theirs(name: str) -> str:
        if isinstance(config, Eagle3Config):
            return name.replace("midlayer.", "layers.0.", 1)
        return name.replace("fc.", "fusion_fc.", 1).replace("layers.0.", "transformer.", 1)

    return {theirs(name): tensor for name, tensor in tensors.items()}


def _maps_of(vocabulary: Tensor | None, config: Eagle3Config) -> dict[str, Tensor]:
    size = config.draft_vocab_size
    tokens = torch.arange(size) if vocabulary is None else vocabulary.cpu()
    can_be_drafted = torch.zeros(config.vocab_size, dtype=torch.bool)
    can_be_drafted[tokens] = True
    return {"d2t": tokens - torch.arange(size), "t2d": can_be_drafted}


def _published_taps(taps: Taps | None) -> list[int] | None:
    """As inputs of layers, unless they would be read as outputs."""
    if taps is None or taps[0] != 1:
        return None if taps is None else list(taps)
    raise HeadError(
        "a head that taps the state entering layer 1",
        expected="another first tap, since published layouts take a first 1 for an output",
    )


def _extras(config: HeadConfig | Eagle3Config) -> list[str]:
    """What readers of the reference's layout would pass over in silence."""
    names = ("norm_before_residual", "norm_before_fc", "qk_norm")
    return [name for name in names if getattr(config, name, False)]


def _reference_config(config: HeadConfig | Eagle3Config, layout: Layout) -> dict[str, Any]:
    flat = config.to_json()
    if not isinstance(config, Eagle3Config):
        return flat
    for key in ("norm_before_residual", "norm_before_fc"):
        del flat[key]
    if config.feature_width == config.width and not config.owns_embedding:
        del flat["target_hidden_size"]  # where it stands, embeddings are looked for in the file
    if layout == "eagle3":
        flat["architectures"] = ["LlamaForCausalLM"]
    ids = _published_taps(flat.pop("taps"))
    nested = {"eagle_config": {TAPS: ids, "use_aux_hidden_state": True}}
    return flat | ({} if ids is None else nested)


def _speculators_config(config: HeadConfig | Eagle3Config) -> dict[str, Any]:
    is_eagle3 = isinstance(config, Eagle3Config)
    algorithm = "eagle3" if is_eagle3 else "eagle"
    flat = config.to_json()
    outer = {"bias", "qkv_bias", "target", "taps", "draft_vocab_size", "target_hidden_size"}
    outer |= {"norm_before_residual", "norm_before_fc"}
    layer = {key: value for key, value in flat.items() if key not in outer}
    layer["model_type"] = "qwen3" if config.qk_norm else "llama"
    layer["attention_bias"] = config.qkv_bias
    layer["architectures"] = None
    proposal = {"proposal_type": "greedy", "speculative_tokens": 5}
    proposal |= {"verifier_accept_k": 1, "accept_tolerance": 0.0}
    whole: dict[str, Any] = {
        "speculators_model_type": algorithm,
        "architectures": ["Eagle3Speculator" if is_eagle3 else "EagleSpeculator"],
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": algorithm,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": config.target, "architectures": []},
        },
    }
    if not isinstance(config, Eagle3Config):
        return whole | {"layernorms": False, "fusion_bias": config.fc_bias}
    return whole | {
        "draft_vocab_size": config.draft_vocab_size,
        "target_hidden_size": flat["target_hidden_size"],
        TAPS: _published_taps(config.taps),
        "norm_before_residual": config.norm_before_residual,
        "norm_before_fc": config.norm_before_fc,
    }

"""EAGLE-3's head: several tapped states fused into one, then a layer that feeds itself.

    [tap ; tap ; tap] ─ fc ─▶ hidden i ┐
    embedding of token i+1 ────────────┴─ layer ─▶ hidden i+1 ─ norm ─ unembedding ─▶ draft law
                                                       │
                                  fed back in the place of fused taps, without the norm

Inside the layer, attention reads [norm(embedding) ; norm(hidden)], and the residual is the hidden
state. Parameter names follow the published EAGLE-3 checkpoints (EAGLE-3, section 3; where paper
and checkpoints differ, the checkpoints count).

Knows tensors. Knows nothing of trees, targets or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eagle_core.drafters.decoder import DecoderLayer, Entered, OneLayerHead
from eagle_core.drafters.keys import LAYER_KEYS, published, sizes_in
from eagle_core.drafters.layers import LayerConfig, own_embedding
from eagle_core.errors import HeadError
from eagle_core.targets.base import Taps

_KEYS = LAYER_KEYS | {
    "draft_vocab_size": "draft_vocab_size",
    "feature_width": "target_hidden_size",
    "taps": "taps",
    "norm_before_residual": "norm_before_residual",
    "norm_before_fc": "norm_before_fc",
}
_NEEDED = frozenset({"width", "num_heads", "intermediate_size", "vocab_size", "draft_vocab_size"})
_NUM_TAPS = 3
_SHALLOWEST = 6  # layers of a target whose three usual taps rise


@dataclass(frozen=True, kw_only=True)
class Eagle3Config(LayerConfig):
    """Sizes of a head; `to_json` and `from_json` speak EAGLE-3's published key names.

    taps: states of the target in our numbering, None for those of the reference.
    """

    draft_vocab_size: int  # V'
    feature_width: int  # width of one tapped state, the target's D
    taps: Taps | None = None
    fc_bias: bool = False
    norm_before_residual: bool = False  # the residual is the normed hidden state
    norm_before_fc: bool = False  # the tapped states are normed before they are fused
    owns_unembedding: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(type(tap) is not int or tap < 0 for tap in self.taps or ()):
            raise HeadError(f"a head with the taps {self.taps}", expected="numbers of layers")

    @property
    def num_taps(self) -> int:
        return _NUM_TAPS if self.taps is None else len(self.taps)

    def to_json(self) -> dict[str, Any]:
        names = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"}
        return names | published(self, _KEYS)

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> Eagle3Config:
        """Read sizes; `taps` must be in our numbering already."""
        named = sizes_in(config, keys=_KEYS, kind="an EAGLE-3", needed=_NEEDED)
        named.setdefault("feature_width", named["width"])
        if "taps" in named:
            named["taps"] = tuple(named["taps"])
        return cls(**named)


def usual_taps(num_layers: int) -> Taps:
    """The reference's states of a target of so many layers: low, middle and high."""
    if num_layers < _SHALLOWEST:
        raise HeadError(
            f"an EAGLE-3 head for a target of {num_layers} layers that names none of them",
            expected=f"at least {_SHALLOWEST} layers",
        )
    return (2, num_layers // 2, num_layers - 3)


class Eagle3Head(OneLayerHead):
    """EAGLE-3's head; see the module's docstring for the layout."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        fused_width = config.num_taps * config.feature_width
        self.embed_tokens = own_embedding(config)
        self.input_norm = _norm(fused_width, config) if config.norm_before_fc else None
        self.fc = nn.Linear(fused_width, config.width, bias=config.fc_bias)
        self.midlayer = Eagle3Layer(config)
        self.norm = _norm(config.width, config)
        self.lm_head = (
            nn.Linear(config.width, config.draft_vocab_size, bias=False)
            if config.owns_unembedding
            else None
        )

    @property
    def layer(self) -> DecoderLayer:
        return self.midlayer

    def taps(self, num_layers: int) -> Taps:
        """The states to read from a target of so many layers; raises HeadError beyond them."""
        taps = self.config.taps or usual_taps(num_layers)
        if max(taps) >= num_layers:
            raise HeadError(
                f"a head that reads the state entering layer {max(taps)}",
                expected=f"one below {num_layers}, the layers of the target",
                hint="a head trained on this target",
            )
        return taps

    def fuse(self, features: Tensor) -> Tensor:
        """Tapped states side by side, (R, K·D), to hidden states, (R, D)."""
        normed = features if self.input_norm is None else self.input_norm(features)
        fused: Tensor = self.fc(normed)
        return fused

    def readable(self, estimates: Tensor) -> Tensor:
        """What an unembedding reads, (R, D): the hidden states after the final norm."""
        normed: Tensor = self.norm(estimates)
        return normed

    def enter(self, embeddings: Tensor, features: Tensor) -> Entered:
        """Hidden states, fused or fed back, beside embeddings; both normed for attention."""
        return self.midlayer.enter(embeddings, features)


class Eagle3Layer(DecoderLayer):
    """A decoder layer whose attention reads an embedding beside a hidden state."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__(config, in_width=2 * config.width)
        self._norm_before_residual = config.norm_before_residual
        self.input_layernorm = _norm(config.width, config)
        self.hidden_norm = _norm(config.width, config)

    def enter(self, embeddings: Tensor, hidden: Tensor) -> Entered:
        normed = self.hidden_norm(hidden)
        read = torch.cat([self.input_layernorm(embeddings), normed], dim=-1)  # (…, R, 2·D)
        return Entered(read, normed if self._norm_before_residual else hidden)


def _norm(width: int, config: LayerConfig) -> nn.RMSNorm:
    return nn.RMSNorm(width, eps=config.rms_norm_eps)

"""EAGLE-1's head: one decoder layer that turns (feature, next token) into the next feature.

    pair i = [embedding of token i+1 ; feature i] ─ fc ─ layer ─▶ estimate of feature i+1

The layer is Llama's with its input norm taken out, and nothing follows it: no final norm, no
unembedding. What the head estimates is a post-norm feature, so the target's own unembedding
reads it directly. Parameter names follow the published EAGLE-1 checkpoints. EAGLE-2 uses the same
heads.

Knows tensors. Knows nothing of trees, targets or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eagle_core.drafters.keys import LAYER_KEYS, published, sizes_in
from eagle_core.drafters.layers import (
    Attention,
    GatedMLP,
    HeadCache,
    LayerConfig,
    Mask,
    own_embedding,
)
from eagle_core.targets.base import Taps

_NEEDED = frozenset({"width", "num_heads", "intermediate_size", "vocab_size"})


@dataclass(frozen=True, kw_only=True)
class HeadConfig(LayerConfig):
    """Sizes of a head; `to_json` and `from_json` speak EAGLE-1's published key names."""

    fc_bias: bool = True
    owns_unembedding: bool = False  # it brings rows of its own to read estimates with

    def to_json(self) -> dict[str, Any]:
        names = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
        return names | published(self, LAYER_KEYS)

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> HeadConfig:
        """Read a published or own config; a key that would change the head is never skipped."""
        return cls(**sizes_in(config, keys=LAYER_KEYS, kind="EAGLE-1", needed=_NEEDED))


class EagleHead(nn.Module):
    """EAGLE-1's head; see the module's docstring for the layout."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = own_embedding(config)
        self.fc = nn.Linear(2 * config.width, config.width, bias=config.fc_bias)
        self.layers = nn.ModuleList([DecoderLayer(config)])
        self.lm_head = (
            nn.Linear(config.width, config.vocab_size, bias=False)
            if config.owns_unembedding
            else None
        )

    @property
    def layer(self) -> DecoderLayer:
        layer = self.layers[0]
        assert isinstance(layer, DecoderLayer)
        return layer

    def taps(self, num_layers: int) -> Taps:
        """The state after the final norm of a target of so many layers."""
        return (num_layers,)

    def fuse(self, features: Tensor) -> Tensor:
        """True features, (R, D), in the form of estimates; here they have it already."""
        return features

    def readable(self, estimates: Tensor) -> Tensor:
        """What an unembedding reads, (R, D); here the estimates themselves."""
        return estimates

    def forward(
        self,
        embeddings: Tensor,  # (B, R, D), row i: embedding of token i+1
        features: Tensor,  # (B, R, D), row i: feature i, true or estimated
        *,
        positions: Tensor,  # (R,) or (B, R), i for pair i
        mask: Mask = "causal",
        cache: HeadCache | None = None,
    ) -> Tensor:
        """Estimates of the next features, (B, R, D).

        A `mask` is True (or 0.0, if it is to be added) where a row may look: (R, L+R) or
        (B, 1, R, L+R), L being the rows already in `cache`; "causal" lets every row see the
        cache and what precedes it. With a cache, B is 1 and the rows' keys and values are
        appended to it. Leading dimensions may be left away: (R, D) in, (R, D) out.
        """
        fused = self.fc(torch.cat([embeddings, features], dim=-1))
        batched = fused if fused.dim() == 3 else fused[None]
        estimates: Tensor = self.layer(batched, positions=positions, mask=mask, cache=cache)
        return estimates if fused.dim() == 3 else estimates[0]


class DecoderLayer(nn.Module):
    """Llama's decoder layer without its input norm."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config, in_width=config.width)
        self.mlp = GatedMLP(config)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.rms_norm_eps)

    def forward(
        self, x: Tensor, *, positions: Tensor, mask: Mask, cache: HeadCache | None
    ) -> Tensor:
        return self.finish(x, self.self_attn(x, positions=positions, mask=mask, cache=cache))

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """What follows attention."""
        x = x + attended
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out

"""A decoder layer of a head, and a pass of rows through the one that most heads have.

    embeddings ┐
    features   ┴─ enter ─┬─ read ─ attention ─┐
                         └─ residual ─────────┴─ finish ─▶ the next features

What enters is each kind of head's own; the rest is the same for all. Knows tensors. Knows nothing
of trees, targets or files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from eagle_core.drafters.layers import Attention, GatedMLP, HeadCache, LayerConfig, Mask


class Entered(NamedTuple):
    """Rows at the entry of the layer."""

    read: Tensor  # (…, R, D or more), what attention reads
    residual: Tensor  # (…, R, D), what its result is added to


class DecoderLayer(nn.Module):
    """Llama's decoder layer without its input norm; attention reads rows of `in_width`."""

    def __init__(self, config: LayerConfig, *, in_width: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, in_width=in_width)
        self.mlp = GatedMLP(config)
        self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.rms_norm_eps)

    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        """What follows attention, (…, R, D)."""
        x = residual + attended
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class OneLayerHead(nn.Module, ABC):
    """A head that makes the next features of pairs of an embedding and a feature."""

    token_offset = 1  # pair i holds feature i and token i + token_offset

    @property
    @abstractmethod
    def layer(self) -> DecoderLayer: ...

    @abstractmethod
    def enter(self, embeddings: Tensor, features: Tensor) -> Entered:
        """Pairs, (…, R, D) each, at the entry of the layer."""

    def forward(
        self,
        embeddings: Tensor,  # (B, R, D), row i: embedding of the token of pair i
        features: Tensor,  # (B, R, D), row i: feature i, true or fed back
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
        entered = self.enter(embeddings, features)
        is_batched = features.dim() == 3
        read = entered.read if is_batched else entered.read[None]
        rows = None if cache is None else cache.layers[0]
        attended = self.layer.self_attn(read, positions=positions, mask=mask, cache=rows)
        return self.layer.finish(entered.residual, attended if is_batched else attended[0])

"""A small draft model: a Llama of few layers that reads nothing but tokens.

    embedding of token i+1 ─ layer ─ layer ─ … ─ norm ─ unembedding ─▶ draft law of token i+2

What classic speculative sampling drafts with (Leviathan et al., arXiv 2211.17192; Chen et al.,
arXiv 2302.01318): no feature of the target, hence none of its uncertainty, and every draft costs
all its layers. It may bring embeddings and an unembedding of its own, of its own width; where it
does not, the target's serve. Parameter names are those of transformers' Llama.

Pairs are numbered as a head's, so that one drafter serves both: row i reads token i+1.

Knows tensors. Knows nothing of trees, targets or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from eagle_core.drafters.decoder import DecoderLayer, Entered
from eagle_core.drafters.keys import FIXED, LAYER_KEYS, published, sizes_in
from eagle_core.drafters.layers import HeadCache, LayerConfig, Mask, own_embedding

if TYPE_CHECKING:
    from eagle_core.targets.base import Taps

NUM_LAYERS = "num_hidden_layers"
_KEYS = {name: key for name, key in LAYER_KEYS.items() if name != "fc_bias"}
_NEEDED = frozenset({"width", "num_heads", "intermediate_size", "vocab_size"})


@dataclass(frozen=True, kw_only=True)
class SmallConfig(LayerConfig):
    """Sizes of a model; `to_json` and `from_json` speak the key names of transformers' Llama."""

    owns_unembedding: bool = False

    def to_json(self) -> dict[str, Any]:
        names = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
        return names | published(self, _KEYS) | {NUM_LAYERS: self.num_layers}

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> SmallConfig:
        """Read a published or own config; a key that would change the model is never skipped."""
        as_one_layer = {**config, NUM_LAYERS: FIXED[NUM_LAYERS]}
        sizes = sizes_in(as_one_layer, keys=_KEYS, kind="a small Llama's", needed=_NEEDED)
        return cls(**sizes, num_layers=config.get(NUM_LAYERS, 1))

    @staticmethod
    def is_of(config: Mapping[str, Any]) -> bool:
        """Whether `to_json` made it: a head of one layer says whether its `fc` has a bias."""
        return NUM_LAYERS in config and LAYER_KEYS["fc_bias"] not in config


class LlamaLayer(DecoderLayer):
    """The whole of Llama's decoder layer."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__(config, in_width=config.width)
        self.input_layernorm = nn.RMSNorm(config.width, eps=config.rms_norm_eps)

    def enter(self, x: Tensor) -> Entered:
        return Entered(self.input_layernorm(x), x)


class SmallModel(nn.Module):
    """A small draft model; see the module's docstring."""

    token_offset = 1

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = own_embedding(config)
        self.layers = nn.ModuleList(LlamaLayer(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.width, eps=config.rms_norm_eps)
        self.lm_head = (
            nn.Linear(config.width, config.vocab_size, bias=False)
            if config.owns_unembedding
            else None
        )

    def taps(self, num_layers: int) -> Taps:
        """The target's last state; it says how far the text was read, and is not looked at."""
        return (num_layers,)

    def fuse(self, features: Tensor) -> Tensor:
        """Features, (R, D), which are not looked at."""
        return features

    def readable(self, estimates: Tensor) -> Tensor:
        """What an unembedding reads, (R, width): the last layer's states after the final norm."""
        normed: Tensor = self.norm(estimates)
        return normed

    def forward(
        self,
        embeddings: Tensor,  # (B, R, width), row i: embedding of token i+1
        features: Tensor,  # not looked at
        *,
        positions: Tensor,  # (R,) or (B, R), i for pair i
        mask: Mask = "causal",
        cache: HeadCache | None = None,
    ) -> Tensor:
        """The last layer's states, (B, R, width); the rest is as `OneLayerHead.forward` has it."""
        is_batched = embeddings.dim() == 3
        x = embeddings if is_batched else embeddings[None]
        for number, layer in enumerate(self.llama_layers):
            rows = None if cache is None else cache.layers[number]
            read, residual = layer.enter(x)
            attended = layer.self_attn(read, positions=positions, mask=mask, cache=rows)
            x = layer.finish(residual, attended)
        return x if is_batched else x[0]

    @property
    def llama_layers(self) -> tuple[LlamaLayer, ...]:
        return tuple(layer for layer in self.layers if isinstance(layer, LlamaLayer))

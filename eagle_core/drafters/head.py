"""EAGLE-1's head: one decoder layer that turns (feature, next token) into the next feature.

    pair i = [embedding of token i+1 ; feature i] ─ fc ─ layer ─▶ estimate of feature i+1

The layer is Llama's with its input norm taken out, and nothing follows it: no final norm, no
unembedding. What the head estimates is a post-norm feature, so the target's own unembedding
reads it directly. Parameter names follow the published EAGLE-1 checkpoints. EAGLE-2 uses the same
heads.

Three lesser heads leave out or misplace the token or the feature, to show what each is worth
(EAGLE-1, section 5.3.2):

    feature+token        embedding of token i+1 and feature i; the method
    feature+unshifted    embedding of token i and feature i
    feature              feature i
    token                embedding of token i+1

Knows tensors. Knows nothing of trees, targets or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from eagle_core.drafters.decoder import DecoderLayer, Entered, OneLayerHead
from eagle_core.drafters.keys import LAYER_KEYS, published, sizes_in
from eagle_core.drafters.layers import LayerConfig, own_embedding
from eagle_core.errors import HeadError
from eagle_core.targets.base import Taps

Inputs = Literal["feature+token", "feature+unshifted", "feature", "token"]
INPUTS: tuple[Inputs, ...] = get_args(Inputs)
_KEYS = LAYER_KEYS | {"inputs": "inputs"}
_NEEDED = frozenset({"width", "num_heads", "intermediate_size", "vocab_size"})


@dataclass(frozen=True, kw_only=True)
class HeadConfig(LayerConfig):
    """Sizes of a head; `to_json` and `from_json` speak EAGLE-1's published key names."""

    fc_bias: bool = True
    owns_unembedding: bool = False  # it brings rows of its own to read estimates with
    inputs: Inputs = "feature+token"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs not in INPUTS:
            raise HeadError(f"a head with the inputs {self.inputs!r}", expected=", ".join(INPUTS))

    @property
    def is_lesser(self) -> bool:
        """Not the method itself; published layouts have no word for it."""
        return self.inputs != "feature+token"

    def to_json(self) -> dict[str, Any]:
        names = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
        return names | published(self, _KEYS if self.is_lesser else LAYER_KEYS)

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> HeadConfig:
        """Read a published or own config; a key that would change the head is never skipped."""
        return cls(**sizes_in(config, keys=_KEYS, kind="an EAGLE-1", needed=_NEEDED))


class EagleHead(OneLayerHead):
    """EAGLE-1's head; see the module's docstring for the layout."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.token_offset = 0 if config.inputs == "feature+unshifted" else 1
        self.embed_tokens = own_embedding(config)
        num_read = 2 if "+" in config.inputs else 1
        self.fc = nn.Linear(num_read * config.width, config.width, bias=config.fc_bias)
        self.layers = nn.ModuleList([DecoderLayer(config, in_width=config.width)])
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

    def enter(self, embeddings: Tensor, features: Tensor) -> Entered:
        """The inputs side by side, embedding first, through `fc`."""
        alone = {"feature": features, "token": embeddings}.get(self.config.inputs)
        fused = self.fc(torch.cat([embeddings, features], dim=-1) if alone is None else alone)
        return Entered(fused, fused)

"""EAGLE-1's head: one decoder layer that turns (feature, next token) into the next feature.

    pair i = [embedding of token i+1 ; feature i] ─ fc ─ layer ─▶ estimate of feature i+1

The layer is Llama's with its input norm taken out, and nothing follows it: no final norm, no
unembedding. What the head estimates is a post-norm feature, so the target's own unembedding
reads it directly. Parameter names follow the published EAGLE-1 checkpoints.

Knows tensors and its own keys and values. Knows nothing of trees, targets or files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from eagle_core.errors import HeadError

# our name → the key in a published config.json
_KEYS = {
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
_FIXED: dict[str, Any] = {"num_hidden_layers": 1, "hidden_act": "silu", "rope_scaling": None}
_WITHOUT_EFFECT = {
    *("architectures", "model_type", "torch_dtype", "dtype", "transformers_version"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings"),
    *("initializer_range", "use_cache", "pretraining_tp", "_name_or_path"),
}


@dataclass(frozen=True)
class HeadConfig:
    """Sizes of a head; `to_json` and `from_json` speak EAGLE-1's published key names."""

    width: int  # D
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int  # V, the target's: a head drafts tokens of this vocabulary
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_positions: int = 2048
    fc_bias: bool = True
    qkv_bias: bool = False
    target: str | None = None  # the name of the target it was trained on

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise HeadError(
                f"{self.num_heads} attention heads over {self.num_kv_heads} key/value heads",
                expected="a multiple",
            )

    def to_json(self) -> dict[str, Any]:
        named = {key: getattr(self, name) for name, key in _KEYS.items()}
        return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **_FIXED, **named}

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> HeadConfig:
        """Read a published or own config; a key that would change the head is never skipped."""
        unknown = sorted(set(config) - set(_KEYS.values()) - set(_FIXED) - _WITHOUT_EFFECT)
        if unknown:
            raise HeadError(
                f"a head config with the unknown keys {', '.join(unknown)}",
                expected=f"keys among {', '.join([*_KEYS.values(), *_FIXED])}",
            )
        for key, value in _FIXED.items():
            if config.get(key, value) != value:
                raise HeadError(
                    f"a head config with {key} = {json.dumps(config[key])}",
                    expected=json.dumps(value),
                    hint="an EAGLE-1 or EAGLE-2 head",
                )
        named = {name: config[key] for name, key in _KEYS.items() if config.get(key) is not None}
        missing = sorted({"width", "num_heads", "intermediate_size", "vocab_size"} - set(named))
        if missing:
            raise HeadError(
                f"a head config without {', '.join(_KEYS[name] for name in missing)}",
                expected="an EAGLE-1 config.json",
            )
        named.setdefault("num_kv_heads", named["num_heads"])
        named.setdefault("head_dim", named["width"] // named["num_heads"])
        return cls(**named)


class HeadCache:
    """Keys and values of the rows a head has read; room for `max_rows`, filled in order."""

    def __init__(
        self,
        config: HeadConfig,
        *,
        max_rows: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        shape = (config.num_kv_heads, max_rows, config.head_dim)
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._num_rows = 0

    @property
    def num_rows(self) -> int:
        return self._num_rows

    @property
    def max_rows(self) -> int:
        return self._keys.shape[1]

    @property
    def keys(self) -> Tensor:
        return self._keys[:, : self._num_rows]  # (KV heads, L, head_dim)

    @property
    def values(self) -> Tensor:
        return self._values[:, : self._num_rows]  # (KV heads, L, head_dim)

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Add R rows, (KV heads, R, head_dim) each, in place."""
        end = self._num_rows + keys.shape[1]
        assert end <= self.max_rows, f"{end} rows in a head cache for {self.max_rows}"
        self._keys[:, self._num_rows : end] = keys
        self._values[:, self._num_rows : end] = values
        self._num_rows = end

    def crop(self, num_rows: int) -> None:
        """Keep the first `num_rows` rows."""
        assert 0 <= num_rows <= self._num_rows, f"cannot crop {self._num_rows} rows to {num_rows}"
        self._num_rows = num_rows

    def keep(self, rows: Sequence[int]) -> None:
        """Keep exactly these rows, in this order."""
        index = torch.tensor(rows, dtype=torch.int64, device=self._keys.device)
        self._keys[:, : len(rows)] = self._keys[:, index]
        self._values[:, : len(rows)] = self._values[:, index]
        self._num_rows = len(rows)


Mask = Tensor | Literal["causal"]


class EagleHead(nn.Module):
    """EAGLE-1's head; see the module's docstring for the layout."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.width, config.width, bias=config.fc_bias)
        self.layers = nn.ModuleList([DecoderLayer(config)])

    @property
    def layer(self) -> DecoderLayer:
        layer = self.layers[0]
        assert isinstance(layer, DecoderLayer)
        return layer

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

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
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


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        q_width = config.num_heads * config.head_dim
        kv_width = config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.width, q_width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.width, kv_width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.width, kv_width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(q_width, config.width, bias=False)

    def forward(
        self, x: Tensor, *, positions: Tensor, mask: Mask, cache: HeadCache | None
    ) -> Tensor:
        q, k, v = self.project(x, positions=positions)
        num_earlier = 0
        if cache is not None:
            assert x.shape[0] == 1, f"{x.shape[0]} batch rows and one head cache"
            num_earlier = cache.num_rows
            cache.append(k[0], v[0])
            k, v = cache.keys[None], cache.values[None]
        allowed = _mask_tensor(mask, q, num_earlier)
        k, v = self.per_query_head(k), self.per_query_head(v)
        return self.merge(
            F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=allowed is None)
        )

    def project(self, x: Tensor, *, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Turned queries and keys, and values: (…, heads, R, head_dim) each."""
        q, k, v = (
            projection(x).unflatten(-1, (-1, self.config.head_dim)).transpose(-3, -2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = rotation(positions, config=self.config, dtype=x.dtype)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def per_query_head(self, rows: Tensor) -> Tensor:
        """Repeat keys or values so that every query head has its own."""
        return rows.repeat_interleave(self.config.num_heads // self.config.num_kv_heads, dim=-3)

    def merge(self, mixed: Tensor) -> Tensor:
        """(…, heads, R, head_dim) to (…, R, D)."""
        merged: Tensor = self.o_proj(mixed.transpose(-3, -2).flatten(-2))
        return merged


class GatedMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.width, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


def rotation(positions: Tensor, *, config: HeadConfig, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary angles, (1, R, head_dim) or (B, 1, R, head_dim)."""
    steps = torch.arange(0, config.head_dim, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None].float() * config.rope_theta ** (-steps / config.head_dim)
    angles = torch.cat([angles, angles], dim=-1).unsqueeze(-3)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions in Llama's layout: the first half of a head pairs with the second."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def _mask_tensor(mask: Mask, q: Tensor, num_earlier: int) -> Tensor | None:
    """What scaled_dot_product_attention wants; None where its own causal mask is the right one."""
    if isinstance(mask, Tensor):
        return mask
    num_rows = q.shape[-2]
    if not num_earlier:
        return None
    full = torch.ones(num_rows, num_earlier + num_rows, dtype=torch.bool, device=q.device)
    return full.tril(diagonal=num_earlier)

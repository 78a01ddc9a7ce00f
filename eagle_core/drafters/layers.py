"""What heads are built of: sizes, rotary attention, a gated MLP, a key/value cache.

Knows tensors and its own keys and values. Knows nothing of trees, targets or files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor, nn

from eagle_core.errors import HeadError

Mask = Tensor | Literal["causal"]
FIRST_ROWS = 1024  # room in a new cache; many heads name limits that few texts come near
_WHOLE = (
    *("width", "num_heads", "num_kv_heads", "head_dim", "intermediate_size"),
    *("vocab_size", "max_positions", "num_layers"),
)


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How rotary frequencies are stretched for long texts: all alike, or Llama 3's way."""

    kind: Literal["linear", "llama3"]
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 8192


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """Sizes of a head's decoder layers, all alike, and of the target around them."""

    width: int  # D
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int  # V, the target's: a head drafts tokens of this vocabulary
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    max_positions: int = 2048
    num_layers: int = 1
    qkv_bias: bool = False
    qk_norm: bool = False  # queries and keys normed head by head, as Qwen 3 does
    target: str | None = None  # the name of the target it was trained on
    owns_embedding: bool = False  # it brings token embeddings of its own

    def __post_init__(self) -> None:
        for name in _WHOLE:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise HeadError(f"a head with {name} {value!r}", expected="a whole number above 0")
        for name in ("rms_norm_eps", "rope_theta"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not value > 0:
                raise HeadError(f"a head with {name} {value!r}", expected="a number above 0")
        if self.num_heads % self.num_kv_heads:
            raise HeadError(
                f"{self.num_heads} attention heads over {self.num_kv_heads} key/value heads",
                expected="a multiple",
            )


class HeadCache:
    """Keys and values of the rows a head has read, layer by layer: at most `max_rows`, in order."""

    def __init__(
        self,
        config: LayerConfig,
        *,
        max_rows: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.layers = tuple(
            LayerCache(config, max_rows=max_rows, dtype=dtype, device=device)
            for _ in range(config.num_layers)
        )

    @property
    def num_rows(self) -> int:
        return self.layers[0].num_rows

    def crop(self, num_rows: int) -> None:
        """Keep the first `num_rows` rows."""
        for layer in self.layers:
            layer.crop(num_rows)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep exactly these rows, in this order."""
        for layer in self.layers:
            layer.keep(rows)


class LayerCache:
    """Those of one layer."""

    def __init__(
        self,
        config: LayerConfig,
        *,
        max_rows: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        shape = (config.num_kv_heads, min(max_rows, FIRST_ROWS), config.head_dim)
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._num_rows = 0
        self._max_rows = max_rows

    @property
    def num_rows(self) -> int:
        return self._num_rows

    @property
    def max_rows(self) -> int:
        return self._max_rows

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
        self._make_room(end)
        self._keys[:, self._num_rows : end] = keys
        self._values[:, self._num_rows : end] = values
        self._num_rows = end

    def _make_room(self, num_rows: int) -> None:
        room = self._keys.shape[1]
        if num_rows > room:
            more = min(max(2 * room, num_rows), self.max_rows) - room
            self._keys, self._values = (
                F.pad(rows, (0, 0, 0, more)) for rows in (self._keys, self._values)
            )

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


class Attention(nn.Module):
    """Grouped-query attention with rotary positions over rows of `in_width`."""

    def __init__(self, config: LayerConfig, *, in_width: int) -> None:
        super().__init__()
        self.config = config
        q_width = config.num_heads * config.head_dim
        kv_width = config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(in_width, q_width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(in_width, kv_width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(in_width, kv_width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(q_width, config.width, bias=False)
        self.q_norm, self.k_norm = (_head_norm(config) for _ in range(2))

    def forward(
        self, x: Tensor, *, positions: Tensor, mask: Mask, cache: LayerCache | None
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
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
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

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.width, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


def own_embedding(config: LayerConfig) -> nn.Embedding | None:
    """Room for a head's own token embeddings, where it brings them."""
    return nn.Embedding(config.vocab_size, config.width) if config.owns_embedding else None


def rotation(
    positions: Tensor, *, config: LayerConfig, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary angles, (1, R, head_dim) or (B, 1, R, head_dim)."""
    angles = positions[..., None].float() * frequencies(config).to(positions.device)
    angles = torch.cat([angles, angles], dim=-1).unsqueeze(-3)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def frequencies(config: LayerConfig) -> Tensor:
    """Radians per position, (head_dim / 2), after the head's rope scaling."""
    steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32)
    plain = config.rope_theta ** (-steps / config.head_dim)
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    slow = plain / scaling.factor
    if scaling.kind == "linear":
        return slow
    turns = scaling.original_positions * plain / (2 * math.pi)  # within the original context
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    share_kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return share_kept * plain + (1.0 - share_kept) * slow


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions in Llama's layout: the first half of a head pairs with the second."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def _head_norm(config: LayerConfig) -> nn.RMSNorm | None:
    return nn.RMSNorm(config.head_dim, eps=config.rms_norm_eps) if config.qk_norm else None


def _mask_tensor(mask: Mask, q: Tensor, num_earlier: int) -> Tensor | None:
    """What scaled_dot_product_attention wants; None where its own causal mask is the right one."""
    if isinstance(mask, Tensor):
        return mask
    num_rows = q.shape[-2]
    if not num_earlier:
        return None
    full = torch.ones(num_rows, num_earlier + num_rows, dtype=torch.bool, device=q.device)
    return full.tril(diagonal=num_earlier)

"""The fast path for Llama and its relatives, behind the same contract as `hf`.

    one layer, N rows:   norm ─ qkv ─ rotate ─ cache ─ attend ─ out ─ + ─ norm ─ gate·up ─ down ─ +

Query, key and value weights are one matrix, gate and up another, each laid out once. The query
heads that share a key head are rows of one product, so keys and values are read as they lie. All
layers' rows live in one buffer: keeping a path is a single move.

Knows weights, rows and masks. Knows nothing of drafters, acceptance or text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import nn

from eagle_core.packed import frozen_linear
from eagle_core.quantised import QuantisedLinear
from eagle_core.targets.hf import HfRun, HfTarget

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.targets.base import Taps

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
ROTARY_KINDS = ("default", "linear", "llama3", "yarn")  # whose angles depend on positions alone
MIN_CAPACITY = 256

Turn: TypeAlias = tuple["Tensor", "Tensor"]
"""Cosines and sines, (N, 1, head_dim / 2) each."""


def is_supported(model: Any) -> bool:
    """Whether a transformers model is one that this path computes."""
    config = model.config
    rotary = getattr(model.get_decoder(), "rotary_emb", None)
    return (
        config.model_type in FAMILIES
        and config.hidden_act == "silu"
        and getattr(rotary, "rope_type", None) in ROTARY_KINDS
        and getattr(model, "hf_device_map", None) is None  # in parts, on several devices
    )


@dataclass(frozen=True, eq=False)
class Layer:
    """One decoder layer's weights as this path reads them."""

    before_attention: Norm
    qkv: Callable[[Tensor], Tensor]  # (N, D) → (N, (H + 2·J)·head_dim)
    of_queries: Norm | None
    of_keys: Norm | None
    out: Callable[[Tensor], Tensor]
    before_mlp: Norm
    gate_up: Callable[[Tensor], Tensor]  # gate, then up
    down: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, layer: Any) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return cls(
            before_attention=Norm.of(layer.input_layernorm),
            qkv=_joined(attention.q_proj, attention.k_proj, attention.v_proj),
            of_queries=Norm.of(getattr(attention, "q_norm", None)),
            of_keys=Norm.of(getattr(attention, "k_norm", None)),
            out=_joined(attention.o_proj),
            before_mlp=Norm.of(layer.post_attention_layernorm),
            gate_up=_joined(mlp.gate_proj, mlp.up_proj),
            down=_joined(mlp.down_proj),
        )


@dataclass(frozen=True, eq=False)
class Norm:
    """Root-mean-square norm over the last dimension, computed in float32 as transformers does."""

    weight: Tensor
    eps: float

    @classmethod
    def of(cls, module: Any) -> Any:
        """None where a family has no such norm."""
        return None if module is None else cls(module.weight, module.variance_epsilon)

    def __call__(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = wide.square().mean(-1, keepdim=True).add_(self.eps).rsqrt_()
        return (wide * scale).to(x.dtype).mul_(self.weight)


class LlamaTarget(HfTarget):
    """A model of the Llama family, its layers recomputed here; see `is_supported`."""

    def __init__(self, model: Any, *, name: str, end_tokens: frozenset[int] = frozenset()) -> None:
        super().__init__(model, name=name, end_tokens=end_tokens)
        attention = self.decoder.layers[0].self_attn
        self.head_dim = int(attention.head_dim)
        self.num_kv_heads = int(self.config.num_key_value_heads)
        self.group_size = int(self.config.num_attention_heads) // self.num_kv_heads  # G
        self.scaling = float(attention.scaling)
        self.layers = tuple(Layer.of(layer) for layer in self.decoder.layers)
        self.last_norm: Norm = Norm.of(self.decoder.norm)
        self.angles = Angles(self.decoder.rotary_emb, self.spec.dtype, self.spec.device)

    def release(self) -> None:
        """Let go of the model's own layers, of which this path has copies."""
        self.decoder.layers = nn.ModuleList()

    def open(self) -> HfRun:
        return LlamaRun(self)

    def read(
        self, x: Tensor, *, turn: Turn, rows: Rows, bias: Tensor | None, taps: Taps
    ) -> tuple[Tensor, Tensor]:
        """Embeddings (N, D) to post-norm states (N, D) and tapped features (N, K·D).

        Writes N provisional rows into `rows`; brings no number back to the host.
        """
        cos, sin = turn
        entering = []
        for number, layer in enumerate(self.layers):
            entering.append(x)
            mixed = self._attend(layer.before_attention(x), layer, number, rows, cos, sin, bias)
            x = x + layer.out(mixed)
            gate, up = layer.gate_up(layer.before_mlp(x)).chunk(2, dim=-1)
            x = x + layer.down(F.silu(gate) * up)
        states = self.last_norm(x)
        entering.append(states)
        tapped = [entering[tap] for tap in taps]
        return states, torch.cat(tapped, dim=-1) if taps else x.new_empty(len(x), 0)

    def _attend(
        self,
        x: Tensor,
        layer: Layer,
        number: int,
        rows: Rows,
        cos: Tensor,
        sin: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        """(N, D) to (N, H·head_dim)."""
        num_rows, kv_heads = len(x), self.num_kv_heads
        heads = layer.qkv(x).view(num_rows, -1, self.head_dim)  # (N, H + 2·J, head_dim)
        queries_keys, values = heads[:, :-kv_heads], heads[:, -kv_heads:]
        if layer.of_queries is not None and layer.of_keys is not None:
            queries, keys = queries_keys[:, :-kv_heads], queries_keys[:, -kv_heads:]
            queries_keys = torch.cat([layer.of_queries(queries), layer.of_keys(keys)], dim=1)
        turned = _rotate(queries_keys, cos, sin)
        keys, values = rows.write(number, turned[:, -kv_heads:], values)  # (J, L+N, head_dim)
        grouped = (kv_heads, self.group_size, num_rows, self.head_dim)
        folded = turned[:, :-kv_heads].transpose(0, 1).reshape(kv_heads, -1, self.head_dim)
        mixed = F.scaled_dot_product_attention(  # G·N query rows a key head
            folded[None], keys[None], values[None], attn_mask=bias, scale=self.scaling
        )
        return mixed.view(grouped).permute(2, 0, 1, 3).reshape(num_rows, -1)


class LlamaRun(HfRun):
    """One lane over a `LlamaTarget`."""

    def __init__(self, target: LlamaTarget) -> None:
        super().__init__(target)
        self._embed = target.embedding()
        self._layers = target
        self._rows: Rows = Rows(target)

    def _read(
        self, tokens: Tensor, positions: Tensor, *, bias: Tensor, taps: Taps
    ) -> tuple[Tensor, Tensor]:
        """A row by itself sees everything before it, and needs no bias."""
        self._rows.make_room(len(tokens))
        return self._layers.read(
            self._embed(tokens),
            turn=self._layers.angles.at(positions),
            rows=self._rows,
            bias=self._per_query_row(bias) if len(tokens) > 1 else None,
            taps=taps,
        )

    def _per_query_row(self, bias: Tensor) -> Tensor:
        """(N, L+N) to (G·N, L+N), a row for each query head that shares a key head."""
        return bias.to(self._spec.device).repeat(self._layers.group_size, 1)


class Rows:
    """Keys and values of all layers, (layers, 2, J, capacity, head_dim), written in place."""

    def __init__(self, target: LlamaTarget) -> None:
        spec = target.spec
        shape = (spec.num_layers, 2, target.num_kv_heads, 0, target.head_dim)
        self._buffer = torch.empty(shape, dtype=spec.dtype, device=spec.device)
        self._num_rows = 0

    def __len__(self) -> int:
        """L, committed rows; what a pass wrote after them is provisional."""
        return self._num_rows

    def make_room(self, num_rows: int) -> None:
        """For so many provisional rows after the committed ones."""
        needed, capacity = self._num_rows + num_rows, self._buffer.shape[3]
        if needed <= capacity:
            return
        layers, two, heads, _, width = self._buffer.shape
        wider = self._buffer.new_zeros(  # what a mask hides is multiplied all the same
            layers, two, heads, max(2 * capacity, needed, MIN_CAPACITY), width
        )
        wider[:, :, :, : self._num_rows] = self._buffer[:, :, :, : self._num_rows]
        self._buffer = wider

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Provisional rows (N, J, head_dim) of a layer; gives all so far, (J, L+N, head_dim)."""
        end = self._num_rows + len(keys)
        both = self._buffer[layer]
        both[0, :, self._num_rows : end] = keys.transpose(0, 1)
        both[1, :, self._num_rows : end] = values.transpose(0, 1)
        return both[0, :, :end], both[1, :, :end]

    def rewind(self) -> None:
        """Provisional rows need no forgetting: the next pass writes over them."""

    def keep(self, path: Sequence[int]) -> None:
        """Commit these provisional rows, counted from the first one, in order; forget the rest."""
        num_in_place = next((i for i, row in enumerate(path) if row != i), len(path))
        first, end = self._num_rows + num_in_place, self._num_rows + len(path)
        if first < end:
            moved = torch.tensor(path[num_in_place:], device=self._buffer.device) + self._num_rows
            self._buffer[:, :, :, first:end] = self._buffer[:, :, :, moved]
        self._num_rows = end


class Angles:
    """Rotary cosines and sines by position, from the model's own module, as far as needed."""

    def __init__(self, rotary: Any, dtype: torch.dtype, device: torch.device) -> None:
        self._rotary = rotary
        self._like = torch.empty(0, dtype=dtype, device=device)
        self._table = self._like.new_empty(2, 0, 0)

    def at(self, positions: Tensor) -> Turn:
        """For positions (N,)."""
        return turns(self.reaching(int(positions.max()) + 1), positions)

    def reaching(self, num_positions: int) -> Tensor:
        """A table (2, P, head_dim / 2) of at least so many positions."""
        table = self._table  # another run may make a new one
        if num_positions > table.shape[1]:
            table = self._table = self._made(max(2 * num_positions, MIN_CAPACITY))
        return table

    def _made(self, num_positions: int) -> Tensor:
        positions = torch.arange(num_positions, device=self._like.device)[None]
        tables = self._rotary(self._like, positions)  # each (1, P, head_dim), both halves alike
        return torch.stack([table[0].chunk(2, dim=-1)[0] for table in tables])


def turns(table: Tensor, positions: Tensor) -> Turn:
    """For positions (N,) within the table."""
    cos, sin = table[:, positions.to(table.device)]
    return cos[:, None], sin[:, None]


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, (N, heads, head_dim): the first half of a head pairs with the second."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.empty_like(x)
    one, two = turned.chunk(2, dim=-1)
    torch.mul(first, cos, out=one).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=two).addcmul_(first, sin)
    return turned


def _joined(*linears: Any) -> Callable[[Tensor], Tensor]:
    """Several linear layers over the same input as one."""
    if isinstance(linears[0], QuantisedLinear):
        return QuantisedLinear.joined(linears).project()
    weight = torch.cat([linear.weight.detach() for linear in linears])
    has_bias = linears[0].bias is not None
    return frozen_linear(
        weight, torch.cat([linear.bias.detach() for linear in linears]) if has_bias else None
    )

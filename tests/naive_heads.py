"""Published heads computed a second time, row by row, from the description of their formats.

Nothing here is taken from the engine: tensors keep their published names, every pass reads the
whole text again without any cache, and attention is a loop over rows and heads. Numbers are
float64, so that what differs is not the naive side's rounding.

    pair i = (feature i, embedding of token i+1)         i = 0 … n-1
    after n pairs come drafted tokens, each paired with the estimate before it
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class NaiveHead:
    """tensors: by published names, of the layer without its prefix (`self_attn.…`, `mlp.…`)."""

    layer: Mapping[str, Tensor]
    outside: Mapping[str, Tensor]  # fc.weight, norm.weight, … by published names
    sizes: Mapping[str, Any]  # a flat config: num_attention_heads, rope_theta, …
    embedding: Tensor  # (V, D) used for tokens
    unembedding: Tensor  # (V', D) used for logits
    inputs: str = "feature+token"
    is_eagle3: bool = False
    norm_before_residual: bool = False
    rope: Mapping[str, Any] = field(default_factory=dict)

    def logits(self, tokens: Sequence[int], features: Tensor, drafted: Sequence[int]) -> Tensor:
        """(V',) after the text and the drafted tokens; features (n, …) of the first n tokens.

        `tokens` are all n+1 of the text.
        """
        hidden = [self._fused(row) for row in features.double()]
        text = list(tokens)
        assert len(hidden) == len(text) - 1
        outputs = self._rows(self._paired(text), hidden)
        for token in drafted:
            text.append(token)
            hidden.append(outputs[-1])
            outputs = self._rows(self._paired(text), hidden)
        last = outputs[-1]
        if self.is_eagle3:
            last = self._rms(last, self.outside["norm.weight"])
        return self.unembedding.double() @ last

    def _paired(self, text: Sequence[int]) -> Sequence[int]:
        """Pair i holds token i + 1, but token i where the head reads unshifted tokens."""
        return text[:-1] if self.inputs == "feature+unshifted" else text[1:]

    def _fused(self, row: Tensor) -> Tensor:
        if not self.is_eagle3:
            return row
        if "input_norm.weight" in self.outside:
            row = self._rms(row, self.outside["input_norm.weight"])
        return self._linear(row, self.outside, "fc")

    def _rows(self, paired: Sequence[int], hidden: Sequence[Tensor]) -> list[Tensor]:
        inputs, residuals = [], []
        for token, state in zip(paired, hidden, strict=True):
            embedded = self.embedding[token].double()
            if self.is_eagle3:
                normed = self._rms(state, self.layer["hidden_norm.weight"])
                first = self._rms(embedded, self.layer["input_layernorm.weight"])
                inputs.append(torch.cat([first, normed]))
                residuals.append(normed if self.norm_before_residual else state)
            else:
                both = {"feature": state, "token": embedded}
                read = both.get(self.inputs, torch.cat([embedded, state]))
                fused = self._linear(read, self.outside, "fc")
                inputs.append(fused)
                residuals.append(fused)
        mixed = self._attention(inputs)
        return [self._after(r, m) for r, m in zip(residuals, mixed, strict=True)]

    def _after(self, residual: Tensor, mixed: Tensor) -> Tensor:
        x = residual + mixed
        y = self._rms(x, self.layer["post_attention_layernorm.weight"])
        gate = self._linear(y, self.layer, "mlp.gate_proj")
        up = self._linear(y, self.layer, "mlp.up_proj")
        return x + self._linear(gate / (1 + torch.exp(-gate)) * up, self.layer, "mlp.down_proj")

    def _attention(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        heads = self.sizes["num_attention_heads"]
        kv_heads = self.sizes["num_key_value_heads"]
        width = self.sizes["head_dim"]
        queries, keys, values = [], [], []
        for position, x in enumerate(inputs):
            q = self._linear(x, self.layer, "self_attn.q_proj").view(heads, width)
            k = self._linear(x, self.layer, "self_attn.k_proj").view(kv_heads, width)
            v = self._linear(x, self.layer, "self_attn.v_proj").view(kv_heads, width)
            if "self_attn.q_norm.weight" in self.layer:
                q = torch.stack([self._rms(h, self.layer["self_attn.q_norm.weight"]) for h in q])
                k = torch.stack([self._rms(h, self.layer["self_attn.k_norm.weight"]) for h in k])
            queries.append([self._turned(h, position) for h in q])
            keys.append([self._turned(h, position) for h in k])
            values.append(list(v))
        mixed = []
        for row in range(len(inputs)):
            parts = []
            for head in range(heads):
                group = head * kv_heads // heads
                scores = [
                    float(queries[row][head] @ keys[earlier][group]) / math.sqrt(width)
                    for earlier in range(row + 1)
                ]
                weights = torch.tensor(scores, dtype=torch.float64).softmax(0)
                parts.append(
                    sum(weights[earlier] * values[earlier][group] for earlier in range(row + 1))
                )
            mixed.append(self._linear(torch.cat(parts), self.layer, "self_attn.o_proj"))
        return mixed

    def _turned(self, x: Tensor, position: int) -> Tensor:
        """Dimension j of the first half turns together with dimension j of the second."""
        half = len(x) // 2
        out = x.clone()
        for j in range(half):
            angle = position * self._frequency(j, len(x))
            cos, sin = math.cos(angle), math.sin(angle)
            out[j] = x[j] * cos - x[j + half] * sin
            out[j + half] = x[j + half] * cos + x[j] * sin
        return out

    def _frequency(self, j: int, width: int) -> float:
        frequency = float(self.sizes.get("rope_theta", 10000.0) ** (-2 * j / width))
        if self.rope.get("rope_type") == "linear":
            return frequency / float(self.rope["factor"])
        if self.rope.get("rope_type") != "llama3":
            return frequency
        factor, length = self.rope["factor"], self.rope["original_max_position_embeddings"]
        low, high = self.rope["low_freq_factor"], self.rope["high_freq_factor"]
        wavelength = 2 * math.pi / frequency
        if wavelength < length / high:
            return frequency
        if wavelength > length / low:
            return frequency / float(factor)
        smooth = (length / wavelength - low) / (high - low)
        return float((1 - smooth) * frequency / factor + smooth * frequency)

    def _linear(self, x: Tensor, tensors: Mapping[str, Tensor], name: str) -> Tensor:
        product = tensors[f"{name}.weight"].double() @ x
        bias = tensors.get(f"{name}.bias")
        return product if bias is None else product + bias.double()

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        scale = math.sqrt(float(x @ x) / len(x) + self.sizes["rms_norm_eps"])
        return x / scale * weight.double()

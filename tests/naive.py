"""Llama and EAGLE-1's head once more, from their papers and the names of their tensors alone.

No cache, no mask, no batch, no tree: float64, one position and one head at a time. Slow, and
without a line in common with the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class States:
    """entering: per layer the state that enters it, (P, D); post_norm: after the final norm."""

    entering: tuple[Tensor, ...]
    post_norm: Tensor


def target_states(model: Any, text: Sequence[int]) -> States:
    return _target_states(model, tuple(text))


def draft_logits(model: Any, head: Any, text: Sequence[int], drafted: Sequence[int]) -> Tensor:
    """Logits, (V,), of the token after `text` and `drafted`, by the head.

    Pair i is feature i, true or estimated, with the embedding of token i + 1.
    """
    embeddings = _weights(model)["model.embed_tokens.weight"]
    features = list(target_states(model, text[:-1]).post_norm)
    tokens = list(text[1:])
    estimate = _head_pass(head, embeddings[tokens], torch.stack(features))[-1]
    for token in drafted:
        features.append(estimate)
        tokens.append(token)
        estimate = _head_pass(head, embeddings[tokens], torch.stack(features))[-1]
    return _weights(model)["lm_head.weight"] @ estimate


def _head_pass(head: Any, embeddings: Tensor, features: Tensor) -> Tensor:
    weights, config = _weights(head), head.config
    pairs = torch.cat([embeddings, features], dim=-1)
    fused = pairs @ weights["fc.weight"].T + weights["fc.bias"]
    shape = (config.num_heads, config.num_kv_heads, config.head_dim)
    return _layer(
        fused, weights, "layers.0.", shape=shape, theta=config.rope_theta, eps=config.rms_norm_eps
    )


@lru_cache(maxsize=64)
def _target_states(model: Any, text: tuple[int, ...]) -> States:
    weights, config = _weights(model), model.config
    shape = (config.num_attention_heads, config.num_key_value_heads, config.head_dim)
    theta, eps = config.rope_parameters["rope_theta"], config.rms_norm_eps
    state = weights["model.embed_tokens.weight"][list(text)]
    entering = []
    for layer in range(config.num_hidden_layers):
        entering.append(state)
        name = f"model.layers.{layer}."
        state = _layer(state, weights, name, shape=shape, theta=theta, eps=eps)
    return States(tuple(entering), _norm(state, weights["model.norm.weight"], eps))


def _layer(
    state: Tensor,
    weights: Weights,
    name: str,
    *,
    shape: tuple[int, int, int],
    theta: float,
    eps: float,
) -> Tensor:
    """One decoder layer; EAGLE's has no norm before its attention."""
    before = weights.get(f"{name}input_layernorm.weight")
    normed = state if before is None else _norm(state, before, eps)
    state = state + _attention(normed, weights, f"{name}self_attn.", shape=shape, theta=theta)
    normed = _norm(state, weights[f"{name}post_attention_layernorm.weight"], eps)
    gate = normed @ weights[f"{name}mlp.gate_proj.weight"].T
    up = normed @ weights[f"{name}mlp.up_proj.weight"].T
    gated = gate / (1 + torch.exp(-gate)) * up
    return state + gated @ weights[f"{name}mlp.down_proj.weight"].T


def _attention(
    x: Tensor, weights: Weights, name: str, *, shape: tuple[int, int, int], theta: float
) -> Tensor:
    num_heads, num_kv_heads, width = shape
    q, k, v = (x @ weights[f"{name}{part}_proj.weight"].T for part in "qkv")
    rows = []
    for here in range(len(x)):
        mixed = []
        for head in range(num_heads):
            own, shared = head * width, head * num_kv_heads // num_heads * width
            query = _turned(q[here, own : own + width], here, theta)
            keys = [_turned(k[at, shared : shared + width], at, theta) for at in range(here + 1)]
            scores = torch.stack([query @ key for key in keys]) / width**0.5
            share = torch.exp(scores - scores.max())
            share = share / share.sum()
            mixed.append(share @ v[: here + 1, shared : shared + width])
        rows.append(torch.cat(mixed))
    return torch.stack(rows) @ weights[f"{name}o_proj.weight"].T


def _turned(vector: Tensor, position: int, theta: float) -> Tensor:
    """Entry i and entry i + width/2 turn together, by position · theta^(-2i/width)."""
    half = len(vector) // 2
    angles = position * theta ** (-torch.arange(half, dtype=torch.float64) / half)
    one, other = vector[:half], vector[half:]
    turned_one = one * angles.cos() - other * angles.sin()
    return torch.cat([turned_one, other * angles.cos() + one * angles.sin()])


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


@lru_cache(maxsize=16)
def _weights(module: Any) -> Weights:
    return {name: tensor.detach().double() for name, tensor in module.state_dict().items()}

"""A seeded target, corpus and head for the tests of the trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from naive_heads import NaiveHead
from torch import Tensor

from eagle_core.drafters.head import EagleHead, HeadConfig, Inputs
from eagle_core.targets.base import TargetRead, TargetSpec
from eagle_core.training.batches import Batch
from eagle_core.training.corpus import Corpus
from eagle_core.training.unroll import unroll

V, D = 40, 16
CONFIG = HeadConfig(
    width=D,
    num_heads=2,
    num_kv_heads=1,
    head_dim=8,
    intermediate_size=24,
    vocab_size=V,
    max_positions=64,
    target="toy",
)
ALL_TOKENS = torch.arange(V)
LENGTHS = (9, 3, 14, 2, 6, 11, 8, 5)


class ToyTarget:
    """Features are a causal mix of embeddings, so that they can be learned; no transformer."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        self.weight = torch.randn(V, D, generator=draw)
        self.mix = torch.randn(D, D, generator=draw) / 4
        self.num_prefills = 0
        self.spec = TargetSpec(
            name="toy",
            vocab_size=V,
            width=D,
            num_layers=2,
            max_positions=64,
            end_tokens=frozenset({0}),
            dtype=torch.float32,
            device=torch.device("cpu"),
        )

    def embedding(self) -> Callable[[Tensor], Tensor]:
        return lambda tokens: self.weight[tokens]

    def unembedding(
        self, tokens: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> Callable[[Tensor], Tensor]:
        weight = self.weight if tokens is None else self.weight[tokens]
        return lambda features: features @ weight.T

    def open(self) -> ToyTarget:
        return self

    def features(self, tokens: Tensor) -> Tensor:
        rows = []
        state = torch.zeros(D)
        for token in tokens:
            state = torch.tanh(self.mix @ state + self.weight[token])
            rows.append(state)
        return torch.stack(rows)

    def prefill(self, tokens: Tensor, *, taps: Sequence[int]) -> TargetRead:
        assert tuple(taps) == (2,)
        self.num_prefills += 1
        features = self.features(tokens)
        return TargetRead(self.unembedding()(features[-1:]), features)


def corpus_of(lengths: Sequence[int], *, seed: int = 0) -> Corpus:
    draw = np.random.default_rng(seed)
    total = sum(lengths)
    answer = np.concatenate([np.arange(n) >= n // 2 for n in lengths])
    tokens = draw.integers(1, V, total).astype(np.uint16)
    return Corpus(tokens, answer, np.array(lengths, dtype=np.int32), digest=f"toy {seed}")


def seeded_head(*, inputs: Inputs = "feature+token") -> EagleHead:
    torch.manual_seed(0)
    return EagleHead(replace(CONFIG, inputs=inputs))


def naive_of(head: EagleHead, target: ToyTarget) -> NaiveHead:
    """The same head, computed a second time."""
    layer, outside = dict[str, Tensor](), dict[str, Tensor]()
    for name, weight in head.state_dict().items():
        if name.startswith("layers.0."):
            layer[name.removeprefix("layers.0.")] = weight
        else:
            outside[name] = weight
    sizes, inputs = head.config.to_json(), head.config.inputs
    return NaiveHead(layer, outside, sizes, target.weight, target.weight, inputs=inputs)


def estimates_of(
    head: EagleHead,
    batch: Batch,
    target: ToyTarget,
    *,
    num_steps: int,
    wanted: Tensor | None = None,
) -> list[Tensor]:
    embedding = target.embedding()
    return unroll(head, batch, embedding=embedding, num_steps=num_steps, wanted=wanted)

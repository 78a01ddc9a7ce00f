"""A seeded target, corpus and head for the tests of the trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from naive_heads import NaiveHead
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from eagle_core.drafters.eagle3 import Eagle3Head
from eagle_core.drafters.head import EagleHead, HeadConfig, Inputs
from eagle_core.drafters.heads import Head
from eagle_core.targets.base import TargetRead, TargetSpec
from eagle_core.targets.hf import HfTarget
from eagle_core.training.batches import Batch
from eagle_core.training.corpus import Corpus
from eagle_core.training.methods import Sizes, new_head
from eagle_core.training.unroll import unroll

V, D = 40, 16
SIZES: dict[str, Any] = {
    "width": D,
    "num_heads": 2,
    "num_kv_heads": 1,
    "head_dim": 8,
    "intermediate_size": 24,
    "vocab_size": V,
    "max_positions": 64,
    "target": "toy",
}
CONFIG = HeadConfig(**SIZES)
ALL_TOKENS = torch.arange(V)
LENGTHS = (9, 3, 14, 2, 6, 11, 8, 5)


class ToyTarget:
    """Features are a causal mix of embeddings, so that they can be learned; no transformer."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(3)
        self.weight = torch.randn(V, D, generator=draw)
        self.mix = torch.randn(D, D, generator=draw) / 4
        sizes = torch.tensor([1.0, 30.0])[:, None, None]  # states grow from layer to layer
        self.earlier = torch.randn(2, D, D, generator=draw) * sizes
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
        self.num_prefills += 1
        last = self.features(tokens)
        states = [last if tap == 2 else last @ self.earlier[tap] for tap in taps]
        return TargetRead(self.unembedding()(last[-1:]), torch.cat(states, dim=-1))


def corpus_of(lengths: Sequence[int], *, seed: int = 0) -> Corpus:
    draw = np.random.default_rng(seed)
    total = sum(lengths)
    answer = np.concatenate([np.arange(n) >= n // 2 for n in lengths])
    tokens = draw.integers(1, V, total).astype(np.uint16)
    return Corpus(tokens, answer, np.array(lengths, dtype=np.int32), digest=f"toy {seed}")


def seeded_head(*, inputs: Inputs = "feature+token") -> EagleHead:
    torch.manual_seed(0)
    return EagleHead(replace(CONFIG, inputs=inputs))


def seeded_eagle3(*, num_drafted: int = V) -> Eagle3Head:
    """Reads two of the toy's states."""
    torch.manual_seed(0)
    sizes = Sizes(intermediate_size=24, max_positions=64, taps=(0, 1))
    head = new_head("eagle3", sizes, ToyTarget().spec, num_drafted=num_drafted)
    assert isinstance(head, Eagle3Head)
    return head


def naive_of(head: Head, target: ToyTarget) -> NaiveHead:
    """The same head, computed a second time."""
    layer, outside = dict[str, Tensor](), dict[str, Tensor]()
    for name, weight in head.state_dict().items():
        inner = name.removeprefix("layers.0.").removeprefix("midlayer.")
        (outside if inner == name else layer)[inner] = weight
    sizes, inputs = head.config.to_json(), getattr(head.config, "inputs", "feature+token")
    rows = target.weight if head.lm_head is None else head.lm_head.weight.detach()
    is_eagle3 = isinstance(head, Eagle3Head)
    return NaiveHead(layer, outside, sizes, target.weight, rows, inputs, is_eagle3=is_eagle3)


def estimates_of(
    head: Head,
    batch: Batch,
    target: ToyTarget,
    *,
    num_steps: int,
    wanted: Tensor | None = None,
) -> list[Tensor]:
    embedding = target.embedding()
    return unroll(head, batch, embedding=embedding, num_steps=num_steps, wanted=wanted)


def saved_corpus(folder: Path) -> Path:
    corpus = corpus_of([12, 9, 15, 10] * 6)
    path = folder / "toy.npz"
    np.savez(path, tokens=corpus.tokens, answer=corpus.answer, lengths=corpus.lengths)
    return path


def stand_in_llama(monkeypatch: pytest.MonkeyPatch, *, num_layers: int = 2) -> HfTarget:
    """A seeded Llama that the trainer's commands take for the default target."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=V,
            hidden_size=D,
            intermediate_size=24,
            num_hidden_layers=num_layers,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            initializer_range=0.2,
        )
    )
    target = HfTarget(model, name="tiny-llama")
    monkeypatch.setattr("eagle_core.training.commands.load_target", lambda *_, **__: target)
    monkeypatch.setattr("eagle_core.training.commands.resolve", lambda *_, **__: "tiny-llama")
    return target

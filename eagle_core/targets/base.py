"""The contract of a target: the model whose text we want.

Weights are shared and read-only; everything that changes belongs to one run. Two lanes over one
target are two runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.tree import DraftTree

Taps = tuple[int, ...]
"""Which hidden states to read: k is the state *entering* layer k, num_layers the one after the
final norm."""


@dataclass(frozen=True)
class TargetSpec:
    """What others must know of a target without touching it."""

    name: str
    vocab_size: int  # V
    width: int  # D
    num_layers: int
    max_positions: int
    end_tokens: frozenset[int]
    dtype: torch.dtype  # of activations, and of weights that are not quantised
    device: torch.device
    quantisation: str | None = None  # of the weights: int8, int4

    @property
    def precision(self) -> str:
        """What the target computes in, as `--dtype` names it."""
        return self.quantisation or str(self.dtype).removeprefix("torch.")

    @property
    def last_state(self) -> int:
        """The tap after the final norm, what EAGLE-1 calls the feature."""
        return self.num_layers


@dataclass(frozen=True, eq=False)
class TargetRead:
    """What one target pass gives back.

    logits: (N, V), row i follows node i; after a prefill (1, V), the last row only.
    features: (R, K·D), the tapped states side by side, a row per token read; (R, 0) without taps.
    """

    logits: Tensor
    features: Tensor


class TargetRun(Protocol):
    """One lane's pass through the target: owns the key/value cache."""

    @property
    def num_cached(self) -> int:
        """L, rows in the cache; the next root's position."""
        ...

    def prefill(self, tokens: Tensor, *, taps: Taps = ()) -> TargetRead:
        """Read the prompt, (P,) int64, into an empty cache."""
        ...

    def score_tree(self, tree: DraftTree, *, taps: Taps = ()) -> TargetRead:
        """One pass over the whole tree, each node seeing the cache and its ancestors.

        Commits nothing: rows stay provisional until `keep_path` (or the next `score_tree`,
        which drops them).
        """
        ...

    def keep_path(self, path: Sequence[int]) -> None:
        """Keep exactly these rows of the last scored tree, in order, and drop the others."""
        ...


class Target(Protocol):
    """One loaded model."""

    @property
    def spec(self) -> TargetSpec: ...

    def embedding(self) -> Callable[[Tensor], Tensor]:
        """Token ids (…) to input embeddings (…, D)."""
        ...

    def unembedding(
        self, tokens: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> Callable[[Tensor], Tensor]:
        """Post-norm features (…, D) to logits: of all V tokens, or only of `tokens`, in order."""
        ...

    def open(self) -> TargetRun: ...

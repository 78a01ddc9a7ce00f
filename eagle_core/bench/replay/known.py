"""A target that remembers one greedy text and the features along it, and computes nothing.

    text        … p q │ r s t              r is the tree's root: on the text
    tree        r ─┬─ s ── x               s is on it, x and y are not, and no greedy walk looks
                   └─ y                    further below a node that is not

Knows texts, trees and features. Knows nothing of drafters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from eagle_core.targets.base import TargetRead

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.targets.base import Taps, Target, TargetSpec
    from eagle_core.tree import DraftTree


@dataclass(frozen=True, eq=False)
class KnownTarget:
    """Stands in for `real` over one text; features: (R, K·D), at the taps that will be asked for.

    Weights are the real one's.
    """

    real: Target
    text: tuple[int, ...]
    features: Tensor

    @property
    def spec(self) -> TargetSpec:
        return self.real.spec

    def embedding(self) -> Callable[[Tensor], Tensor]:
        return self.real.embedding()

    def unembedding(
        self, tokens: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> Callable[[Tensor], Tensor]:
        return self.real.unembedding(tokens, dtype=dtype)

    def open(self) -> KnownRun:
        return KnownRun(self)


class KnownRun:
    """One lane over a `KnownTarget`; what it caches is how far the text was read."""

    def __init__(self, target: KnownTarget) -> None:
        self._target = target
        self._num_cached = 0

    @property
    def num_cached(self) -> int:
        return self._num_cached

    def prefill(self, tokens: Tensor, *, taps: Taps = ()) -> TargetRead:
        text = tuple(tokens.tolist())
        assert text == self._target.text[: len(text)], "another prompt than the known text's"
        self._num_cached = len(text)
        logits = self._logits([len(text) - 1])
        return TargetRead(logits, self._target.features[: len(text)])

    def score_tree(self, tree: DraftTree, *, taps: Taps = ()) -> TargetRead:
        places = self._places(tree)
        features = self._target.features
        rows = features.new_zeros(len(tree), features.shape[-1])
        for node, place in enumerate(places):
            if place is not None and place < len(features):
                rows[node] = features[place]
        return TargetRead(self._logits(places), rows)

    def keep_path(self, path: Sequence[int]) -> None:
        self._num_cached += len(path)

    def _places(self, tree: DraftTree) -> list[int | None]:
        """Per node its index in the text, None where its path is not the text's."""
        text, places = self._target.text, list[int | None]()
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            above = self._num_cached - 1 if parent is None else places[parent]
            here = None if above is None else above + 1
            is_known = here is not None and here < len(text) and text[here] == token
            places.append(here if is_known else None)
        return places

    def _logits(self, places: Sequence[int | None]) -> Tensor:
        """(N, V): for certain the token that follows in the text; no preference off the text."""
        text, spec = self._target.text, self._target.spec
        logits = torch.zeros(len(places), spec.vocab_size, device=spec.device)
        for row, place in enumerate(places):
            if place is not None and place + 1 < len(text):
                logits[row] = -torch.inf
                logits[row, text[place + 1]] = 0.0
        return logits

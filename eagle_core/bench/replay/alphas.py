"""n-alpha over a known text: chains drafted from every place at once.

    place r     stable rows 0 … r-1 │ its own estimates 1, 2, …      what a chain from r sees
    level n     goes on only where the n drafts before it agreed with the text

Equals growing a chain at every place, in a few passes of the head. Knows heads and texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from eagle_core.drafters.layers import HeadCache
from eagle_core.drafters.medusa import MedusaHead

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.bench.run import Counts
    from eagle_core.drafters.heads import LayerHead
    from eagle_core.drafters.layers import Mask
    from eagle_core.workbench import Workbench

NUM_ALPHAS = 5


def alphas(
    bench: Workbench, text: Sequence[int], features: Tensor, *, num_prompt_tokens: int
) -> tuple[Counts, ...]:
    """Counted and agreeing drafts with 0, 1, … estimated features; fewer where none got so far.

    features: (R, K·D), a row per token of the text but the last. What lies past the head's limit
    is left out, since nothing is drafted there.
    """
    known = torch.tensor(
        text[: bench.head.head.config.max_positions], device=bench.target.spec.device
    )
    roots = torch.arange(num_prompt_tokens, len(known) - 1, device=known.device)
    if not len(roots):
        return ()
    chains = _chains(bench, known, features[: len(known) - 2])
    estimates, counts = chains.stable[roots - 1], []
    for level in range(1, chains.num_levels + 1):
        agrees = _drafts(bench, estimates) == known[roots + level]
        counts.append((len(roots), int(agrees.sum())))
        goes_on = agrees & (roots + level + 1 < len(known))
        roots, estimates = roots[goes_on], estimates[goes_on]
        if not len(roots):
            break
        estimates = chains.longer(roots, estimates, level)
    return tuple(counts)


@torch.inference_mode()
def _drafts(bench: Workbench, estimates: Tensor) -> Tensor:
    """The most probable token of every row, (R,)."""
    readable = bench.head.head.readable(estimates).to(bench.target.spec.dtype)
    numbers = bench.unembedding(readable).argmax(-1)
    vocabulary = bench.head.vocabulary
    return numbers if vocabulary is None else vocabulary[numbers]


def _chains(bench: Workbench, known: Tensor, features: Tensor) -> _Chains | _Blocks:
    head = bench.head.head
    if isinstance(head, MedusaHead):
        return _Blocks(head, features.to(known.device, bench.target.spec.dtype))
    return _Chains(bench, head, known, features)


class _Blocks:
    """Medusa's: level n is block n's, of the feature that every chain began with."""

    def __init__(self, head: MedusaHead, features: Tensor) -> None:
        self._blocks = list(head.blocks)
        self._features = features
        self.num_levels = min(NUM_ALPHAS, len(self._blocks))
        self.stable = self._made_by(0, self._features)

    def longer(self, roots: Tensor, estimates: Tensor, level: int) -> Tensor:
        """What comes after `level` agreeing drafts, (R, D); past the last block, what came."""
        if level == self.num_levels:
            return estimates
        return self._made_by(level, self._features[roots - 1])

    @torch.inference_mode()
    def _made_by(self, block: int, features: Tensor) -> Tensor:
        made: Tensor = self._blocks[block](features)
        return made


class _Chains:
    """All chains' rows in one cache of the head, the stable ones first."""

    num_levels = NUM_ALPHAS

    @torch.inference_mode()
    def __init__(self, bench: Workbench, head: LayerHead, known: Tensor, features: Tensor) -> None:
        self._known, self._head = known, head
        self._embedding = bench.head.embedding(bench.target.embedding())
        self._dtype = next(self._head.parameters()).dtype
        self._cache = HeadCache(
            self._head.config,
            max_rows=(NUM_ALPHAS + 1) * len(known),
            dtype=self._dtype,
            device=known.device,
        )
        self._owners = torch.arange(1, len(features) + 1, device=known.device)  # its first user
        self._num_stable = len(features)
        fused = self._head.fuse(features.to(known.device, self._dtype))
        self.stable = self._run(fused, self._owners - 1, "causal")  # (R, D)

    @torch.inference_mode()
    def longer(self, roots: Tensor, estimates: Tensor, level: int) -> Tensor:
        """Estimates one level further on, (R, D), for chains of `level` agreeing drafts."""
        self._owners = torch.cat([self._owners, roots])
        sees = self._owners == roots[:, None]
        is_stable = torch.arange(len(self._owners), device=roots.device) < self._num_stable
        mask = sees | (is_stable & (self._owners <= roots[:, None]))
        return self._run(estimates, roots + level - 1, mask)

    def _run(self, features: Tensor, positions: Tensor, mask: Mask) -> Tensor:
        """Pairs of the features at these places and the tokens that the head reads with them."""
        tokens = self._known[positions + self._head.token_offset]
        embeddings = self._embedding(tokens).to(self._dtype)
        estimates: Tensor = self._head(
            embeddings, features, positions=positions, mask=mask, cache=self._cache
        )
        return estimates

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

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.bench.run import Counts
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
    chains = _Chains(bench, known, features[: len(known) - 2])
    estimates, counts = chains.stable[roots - 1], []
    for level in range(1, NUM_ALPHAS + 1):
        agrees = chains.drafts(estimates) == known[roots + level]
        counts.append((len(roots), int(agrees.sum())))
        goes_on = agrees & (roots + level + 1 < len(known))
        roots, estimates = roots[goes_on], estimates[goes_on]
        if not len(roots):
            break
        estimates = chains.longer(roots, estimates, level)
    return tuple(counts)


class _Chains:
    """All chains' rows in one cache of the head, the stable ones first."""

    @torch.inference_mode()
    def __init__(self, bench: Workbench, known: Tensor, features: Tensor) -> None:
        self._bench, self._known, self._head = bench, known, bench.head.head
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
        self.stable = self._run(known[1:-1], fused, self._owners - 1, "causal")  # (R, D)

    @torch.inference_mode()
    def drafts(self, estimates: Tensor) -> Tensor:
        """The most probable token of every row, (R,)."""
        readable = self._head.readable(estimates).to(self._bench.target.spec.dtype)
        numbers = self._bench.unembedding(readable).argmax(-1)
        vocabulary = self._bench.head.vocabulary
        return numbers if vocabulary is None else vocabulary[numbers]

    @torch.inference_mode()
    def longer(self, roots: Tensor, estimates: Tensor, level: int) -> Tensor:
        """Estimates one level further on, (R, D), for chains of `level` agreeing drafts."""
        self._owners = torch.cat([self._owners, roots])
        sees = self._owners == roots[:, None]
        is_stable = torch.arange(len(self._owners), device=roots.device) < self._num_stable
        mask = sees | (is_stable & (self._owners <= roots[:, None]))
        return self._run(self._known[roots + level], estimates, roots + level - 1, mask)

    def _run(self, tokens: Tensor, features: Tensor, positions: Tensor, mask: Mask) -> Tensor:
        embeddings = self._embedding(tokens).to(self._dtype)
        estimates: Tensor = self._head(
            embeddings, features, positions=positions, mask=mask, cache=self._cache
        )
        return estimates

"""EAGLE's drafter: one decoder layer that continues the target's features.

Pair i is (feature i, embedding of token i + 1) and gives an estimate of feature i + 1, from which
an unembedding reads the law of token i + 2 (EAGLE-1, section 3). With an EAGLE-3 head the feature
is what the head fuses of several states of the target, and estimates are fed back as they are.

    stable rows                 │ rows of this step's tree
    pairs of true features      │ pairs of estimated features, dropped when the tree is done

Knows heads, features and token ids. Knows nothing of the target that they come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from eagle_core.drafters.growth import Growth
from eagle_core.drafters.layers import HeadCache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from eagle_core.drafters.heads import LayerHead
    from eagle_core.drafters.layers import Mask
    from eagle_core.planning import Plan
    from eagle_core.sampling import Chance, LawMaker
    from eagle_core.targets.base import Taps, TargetRead, TargetSpec
    from eagle_core.tree import DraftTree
    from eagle_core.verify import Acceptance

MAX_TREE_ROWS = 256  # rows of one tree that pass through the head


class EagleDrafter:
    """One lane's drafter: shares the head's weights, owns its cache.

    vocabulary: (V',) target ids in the order of `unembedding`'s rows, None for all V.
    """

    def __init__(
        self,
        head: LayerHead,
        spec: TargetSpec,
        *,
        embedding: Callable[[Tensor], Tensor],
        unembedding: Callable[[Tensor], Tensor],
        vocabulary: Tensor | None = None,
    ) -> None:
        self._head = head
        self._embedding = embedding
        self._unembedding = unembedding
        self._vocabulary = vocabulary
        self._vocab_size = spec.vocab_size
        self._taps = head.taps(spec.num_layers)
        self._device = spec.device
        self._dtype = next(head.parameters()).dtype
        self._feature_dtype = spec.dtype
        self._cache = HeadCache(
            head.config,
            max_rows=head.config.max_positions + MAX_TREE_ROWS,
            dtype=self._dtype,
            device=spec.device,
        )
        self._open_features: Tensor | None = None  # (R, K·D), true, not yet in a stable row
        self._open_tokens: tuple[int, ...] = ()  # the R tokens whose features these are
        self._newest: tuple[int, Tensor] | None = None  # the root of the last stable row, estimate

    @property
    def taps(self) -> Taps:
        return self._taps

    @property
    def max_positions(self) -> int | None:
        return self._head.config.max_positions

    def begin(self, tokens: Tensor, read: TargetRead) -> None:
        self._cache.crop(0)
        self._open_features, self._open_tokens = read.features, tuple(tokens.tolist())
        self._close_pairs(self._open_tokens)

    def observe(self, taken: Acceptance, read: TargetRead) -> None:
        """The path's features are closed into pairs when the next tree is grown; until then those
        of plain steps add up."""
        assert self._open_features is not None, "begin comes before observe"
        self._open_tokens += taken.tokens
        self._open_features = torch.cat([self._open_features, read.features[list(taken.path)]])

    def grow_tree(self, root: int, *, plan: Plan, laws: LawMaker, chance: Chance) -> DraftTree:
        growth = Growth(
            root,
            plan=plan,
            laws=laws,
            chance=chance,
            vocab_size=self._vocab_size,
            vocabulary=self._vocabulary,
        )
        estimates = self._estimate_after(root)
        num_stable = self._cache.num_rows
        level, expanded = growth.frontier, list[int]()
        while level:
            growth.add_level(self._logits(estimates))
            above, level = level, growth.frontier
            if level:
                of_parents = [above.index(growth.parent(node)) for node in level]
                estimates = self._expand(growth, estimates[of_parents], expanded)
        self._cache.crop(num_stable)
        return growth.finish()

    def _estimate_after(self, root: int) -> Tensor:
        """(1, D); closes the open pairs unless an earlier tree from here has done so."""
        assert self._open_features is not None, "begin comes before grow_tree"
        if len(self._open_features):
            self._newest = root, self._close_pairs((*self._open_tokens, root))[-1:]
        assert self._newest is not None, "a feature is open until its root is known"
        closed_with, estimate = self._newest
        assert root == closed_with, f"a tree from {closed_with}, then one from {root}"
        return estimate

    def _close_pairs(self, tokens: Sequence[int]) -> Tensor:
        """Make stable rows of the open features but for those that no token follows yet.

        `tokens` are those of the open features, and the root once it is known. Gives an estimate
        per row, (R, D).
        """
        assert self._open_features is not None, "begin comes before grow_tree"
        num_rows, first = len(tokens) - 1, self._cache.num_rows
        positions = torch.arange(first, first + num_rows, device=self._device)
        features = self._open_features[:num_rows].to(self._device, self._dtype)
        self._open_features = self._open_features[num_rows:]
        self._open_tokens = self._open_tokens[num_rows:]
        with torch.inference_mode():
            fused = self._head.fuse(features)  # (R, D)
        offset = self._head.token_offset
        paired = tokens[offset : offset + num_rows]
        return self._run_head(paired, fused, positions=positions, mask="causal")

    def _expand(self, growth: Growth, features: Tensor, expanded: list[int]) -> Tensor:
        """Run the head over the frontier, (R, D) its parents' estimates; appends it to `expanded`.

        `expanded` lists the tree nodes of the cache rows after the stable ones.
        """
        num_stable = self._cache.num_rows - len(expanded)
        nodes = growth.frontier
        expanded.extend(nodes)
        paths = [growth.path(node) for node in nodes]
        positions = torch.full((len(nodes),), num_stable + len(paths[0]) - 2, device=self._device)
        mask = torch.ones(len(nodes), num_stable + len(expanded), dtype=torch.bool)
        mask[:, num_stable:] = torch.tensor([[row in path for row in expanded] for path in paths])
        is_shifted = self._head.token_offset == 1
        return self._run_head(
            [growth.token(node if is_shifted else growth.parent(node)) for node in nodes],
            features,
            positions=positions,
            mask=mask.to(self._device),
        )

    def _run_head(
        self, tokens: Sequence[int], features: Tensor, *, positions: Tensor, mask: Mask
    ) -> Tensor:
        if not tokens:
            return features[:0]
        ids = torch.tensor(tokens, dtype=torch.int64, device=self._device)
        with torch.inference_mode():
            embeddings = self._embedding(ids).to(self._dtype)
            estimates: Tensor = self._head(
                embeddings, features, positions=positions, mask=mask, cache=self._cache
            )
        return estimates

    def _logits(self, estimates: Tensor) -> Tensor:
        """(R, V') in the order of `vocabulary`."""
        with torch.inference_mode():
            readable = self._head.readable(estimates)
            return self._unembedding(readable.to(self._feature_dtype))

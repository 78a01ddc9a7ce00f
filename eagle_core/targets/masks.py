"""Who sees whom in one target pass, as numbers added to attention scores.

                 cache      tree                     cache      chunk
    row of    0 0 0 0 0   0 -∞ -∞ -∞      row of   0 0 0 0 0   0 -∞ -∞ -∞
    a tree    0 0 0 0 0   0  0 -∞ -∞      a        0 0 0 0 0   0  0 -∞ -∞
              0 0 0 0 0   0 -∞  0 -∞      prompt   0 0 0 0 0   0  0  0 -∞
              0 0 0 0 0   0  0 -∞  0               0 0 0 0 0   0  0  0  0

Additive rather than boolean, since every attention of transformers takes that. The lowest finite
number stands for -∞. Knows parents. Knows nothing of models.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def tree_bias(parents: tuple[int | None, ...], num_cached: int, *, dtype: torch.dtype) -> Tensor:
    """(N, L+N): every node sees the cache, its ancestors and itself."""
    bias = torch.zeros(len(parents), num_cached + len(parents), dtype=dtype)
    bias[:, num_cached:].masked_fill_(~ancestor_mask(parents), torch.finfo(dtype).min)
    return bias


def causal_bias(num_rows: int, num_cached: int, *, dtype: torch.dtype) -> Tensor:
    """(R, L+R): every row sees the cache and the rows up to itself."""
    bias = torch.full((num_rows, num_cached + num_rows), torch.finfo(dtype).min, dtype=dtype)
    return bias.triu_(num_cached + 1)


@lru_cache(maxsize=64)
def ancestor_mask(parents: tuple[int | None, ...]) -> Tensor:
    """(N, N) bool: true where a row's node is the column's node or below it."""
    mask = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent is not None:
            mask[node] |= mask[parent]
    return mask

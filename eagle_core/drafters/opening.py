"""The drafter of a loaded head, whatever its kind.

Knows kinds of heads. Knows nothing of the target behind the functions that it is handed.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from eagle_core.drafters.base import Drafter
from eagle_core.drafters.eagle import EagleDrafter
from eagle_core.drafters.heads import LoadedHead
from eagle_core.drafters.medusa import MedusaDrafter, MedusaHead
from eagle_core.targets.base import TargetSpec


def open_drafter(
    loaded: LoadedHead,
    spec: TargetSpec,
    *,
    embedding: Callable[[Tensor], Tensor],
    unembedding: Callable[[Tensor], Tensor],
) -> Drafter:
    """For one lane: the head's shared weights, a memory of its own.

    `embedding` is the target's; `unembedding` reads in the order of the head's vocabulary.
    """
    head, vocabulary = loaded.head, loaded.vocabulary
    if isinstance(head, MedusaHead):
        return MedusaDrafter(head, spec, unembedding=unembedding, vocabulary=vocabulary)
    return EagleDrafter(
        head,
        spec,
        embedding=loaded.embedding(embedding),
        unembedding=unembedding,
        vocabulary=vocabulary,
    )

"""The contract of a drafter: anything that guesses ahead.

A drafter never imports a target. It is built with the embedding and an unembedding, receives
features, and owns whatever cache it needs; one drafter serves one lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from eagle_core.planning import Plan
    from eagle_core.sampling import Chance, LawMaker
    from eagle_core.targets.base import Taps, TargetRead
    from eagle_core.tree import DraftTree
    from eagle_core.verify import Acceptance


class Drafter(Protocol):
    """Proposes draft trees; knows features and tokens, nothing of the target behind them."""

    @property
    def taps(self) -> Taps: ...

    @property
    def max_positions(self) -> int | None:
        """The longest text this drafter can follow, None where there is no limit."""
        ...

    def begin(self, tokens: Tensor, read: TargetRead) -> None:
        """Take in the prompt, (P,), and its features, (P, K·D); forget everything earlier."""
        ...

    def grow_tree(self, root: int, *, plan: Plan, laws: LawMaker, chance: Chance) -> DraftTree:
        """Draft a tree below `root`, the newest committed token.

        The newest true feature is still open: it pairs with the embedding of `root`. Asked again
        before `observe`, with the same root, it drafts anew from the same place.
        """
        ...

    def observe(self, taken: Acceptance, read: TargetRead) -> None:
        """Refresh from the true features of the accepted path (rows `taken.path` of `read`).

        Also after a step that drafted nothing.
        """
        ...
